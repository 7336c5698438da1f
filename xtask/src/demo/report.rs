//! What the demo ends with: a table, and the same as JSON.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::coordinator::{Job, Regime};

/// Results of the demo.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// From the first submission to the last end, seconds.
    makespan_s: f64,
    /// The picture's absolute path.
    timeline_svg: String,
    jobs: Vec<JobReport>,
}

/// Results of a job.
#[derive(Debug, Serialize)]
struct JobReport {
    name: String,
    state: String,
    /// Why, if it did not finish.
    reason: String,
    policy: Option<String>,
    epochs: Option<u64>,
    regimes: Vec<Regime>,
    preemptions: u64,
    /// From submission to end, seconds.
    jct_s: Option<f64>,
    /// Finish-time fairness.
    rho: Option<f64>,
    /// Share of the test pictures, 0..=1.
    test_accuracy: Option<f64>,
    checkpoint_sha256: Option<String>,
}

impl Report {
    pub(super) fn new(jobs: &[Job], svg: &Path) -> Result<Self> {
        let first = jobs.iter().map(|job| job.submitted_unix_s).reduce(f64::min);
        let last = jobs.iter().filter_map(|job| job.ended_unix_s).reduce(f64::max);
        let (first, last) = (first.context("there are no jobs")?, last.context("no job ended")?);
        Ok(Self {
            makespan_s: last - first,
            timeline_svg: svg.canonicalize()?.display().to_string(),
            jobs: jobs.iter().cloned().map(JobReport::from).collect(),
        })
    }

    /// What is not as the demo promises.
    pub(super) fn flaws(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        for job in &self.jobs {
            if job.state != "finished" {
                flaws.push(format!("job {} is {}: {}", job.name, job.state, job.reason));
            } else if job.preemptions == 0 {
                flaws.push(format!("job {} was never preempted", job.name));
            }
        }
        if !self.jobs.iter().any(JobReport::grew) {
            flaws.push("no job has grown its batch".to_owned());
        }
        flaws
    }

    /// The table, for people.
    pub(super) fn table(&self) -> String {
        let header = ["job", "policy", "regimes", "preempted", "JCT s", "rho", "accuracy"];
        let mut rows = vec![header.map(str::to_owned)];
        rows.extend(self.jobs.iter().map(JobReport::row));
        let widths: Vec<usize> = (0..header.len())
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let line = |row: &[String; 7]| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.push(format!("makespan {:.1} s", self.makespan_s));
        lines.join("\n")
    }
}

impl JobReport {
    fn grew(&self) -> bool {
        self.regimes.windows(2).any(|pair| pair[1].batch > pair[0].batch)
    }

    fn row(&self) -> [String; 7] {
        let regimes = self.regimes.iter().map(|it| format!("{} x {:.1}", it.batch, it.epochs));
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        [
            self.name.clone(),
            self.policy.clone().unwrap_or_else(|| "-".to_owned()),
            regimes.collect::<Vec<_>>().join(", "),
            self.preemptions.to_string(),
            number(self.jct_s, 1),
            number(self.rho, 2),
            self.test_accuracy.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share)),
        ]
    }
}

impl From<Job> for JobReport {
    fn from(job: Job) -> Self {
        Self {
            name: job.name,
            state: job.state,
            reason: job.reason,
            policy: job.policy,
            epochs: job.epochs,
            regimes: job.regimes,
            preemptions: job.preemptions,
            jct_s: job.jct_s,
            rho: job.rho,
            test_accuracy: job.metrics.get("test_accuracy").copied(),
            checkpoint_sha256: job.checkpoint_sha256,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn job(name: &str, batches: &[u64], preemptions: u64) -> Job {
        let regimes: Vec<_> = batches
            .iter()
            .map(|batch| serde_json::json!({"batch": batch, "epochs": 2.5, "epoch_s": 1.0}))
            .collect();
        let job = serde_json::json!({
            "id": 1, "name": name, "state": "finished", "policy": "gns", "epochs": 5,
            "regimes": regimes, "preemptions": preemptions, "submitted_unix_s": 10.0,
            "ended_unix_s": 25.0, "jct_s": 15.0, "rho": 0.91, "metrics": {"test_accuracy": 0.5},
        });
        serde_json::from_value(job).unwrap()
    }

    fn report(jobs: &[Job]) -> Report {
        let picture = tempfile::NamedTempFile::new().unwrap();
        Report::new(jobs, picture.path()).unwrap()
    }

    #[test]
    fn the_table_shows_what_each_job_did() {
        let report = report(&[job("gns", &[32, 64], 2), job("static", &[32], 1)]);
        let table = report.table();
        assert!(table.contains("gns     gns     32 x 2.5, 64 x 2.5  2          15.0   0.91"));
        assert!(table.ends_with("makespan 15.0 s"), "{table}");
        assert!(report.flaws().is_empty());
    }

    #[test]
    fn what_the_demo_did_not_show_is_a_flaw() {
        let report = report(&[job("a", &[64, 32], 0), job("b", &[32], 1)]);
        assert_eq!(report.flaws(), ["job a was never preempted", "no job has grown its batch"]);
    }
}
