//! What came of a simulation, and the paper's metrics of it.

use serde::Serialize;

use crate::types::JobId;

/// What became of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutcome {
    /// The job.
    pub id: JobId,
    /// Gang size.
    pub gpus: u32,
    /// When it arrived, seconds.
    pub arrival_s: f64,
    /// Job completion time: from arrival to end, seconds.
    pub jct_s: f64,
    /// Profiled run time alone on its gang, seconds (t_exclusive of section 2.1).
    pub exclusive_s: f64,
    /// Time on its gang, seconds, without restarts.
    pub attained_s: f64,
    /// Starts after the first one.
    pub restarts: u32,
    /// Mean number of active jobs, over the rounds from its admission to its end.
    pub active_jobs_mean: f64,
}

/// One round as it was played.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundRecord {
    /// Start, seconds.
    pub start_s: f64,
    /// End, seconds.
    pub end_s: f64,
    /// Who ran, in order of precedence.
    pub jobs: Vec<JobId>,
    /// Jobs that were active when it began.
    pub active: usize,
}

/// A batch size that changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchChange {
    /// When, seconds.
    pub at_s: f64,
    /// The job.
    pub id: JobId,
    /// Batch size before, samples.
    pub from: u32,
    /// Batch size after, samples.
    pub to: u32,
}

/// A GPU that a job held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The job.
    pub id: JobId,
    /// The GPU, from 0.
    pub gpu: u32,
    /// From when, seconds.
    pub from_s: f64,
    /// Until when, seconds.
    pub to_s: f64,
}

/// What came of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// GPUs in the cluster.
    pub gpus: u32,
    /// When the last job ended, seconds from the first arrival.
    pub makespan_s: f64,
    /// GPU-seconds of work, without restarts.
    pub busy_gpu_s: f64,
    /// Every job, in order of the trace.
    pub jobs: Vec<JobOutcome>,
    /// Every round.
    pub rounds: Vec<RoundRecord>,
    /// Every batch size change.
    pub batch_changes: Vec<BatchChange>,
    /// Who held which GPU, by GPU and time; empty in the published semantics, in which GPUs are
    /// only counted.
    pub held: Vec<Held>,
}

/// How contention enters finish time fairness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// Jobs of the whole trace over GPUs: what the published results and all goals use.
    Trace,
    /// Mean number of active jobs while the job was active, over GPUs: the definition of Themis.
    WhileActive,
}

/// Finish time fairness rho of one job: its completion time over its fair one.
///
/// Rounded to five decimals, as published.
#[must_use]
pub fn rho(job: &JobOutcome, jobs: usize, gpus: u32, contention: Contention) -> f64 {
    let contenders = match contention {
        Contention::Trace => jobs as f64,
        Contention::WhileActive => job.active_jobs_mean,
    };
    let factor = (contenders / f64::from(gpus.max(1))).max(1.0);
    (job.jct_s / (job.exclusive_s * factor) * 1e5).round() / 1e5
}

/// The metrics of section 8.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// When the last job ended, seconds.
    pub makespan_s: f64,
    /// Mean job completion time, seconds.
    pub mean_jct_s: f64,
    /// 95th percentile of the completion times (linear between ranks), seconds.
    pub p95_jct_s: f64,
    /// Largest rho.
    pub worst_rho: f64,
    /// Share of jobs with rho above 1.0.
    pub unfair_1_0: f64,
    /// Share of jobs with rho above 1.05.
    pub unfair_1_05: f64,
    /// Share of jobs with rho above 1.1.
    pub unfair_1_1: f64,
    /// Share of all GPU time to the makespan that was work.
    pub utilisation: f64,
    /// Starts of jobs after their first ones.
    pub restarts: u64,
}

impl Outcome {
    /// rho of every job, in order of the trace.
    #[must_use]
    pub fn rhos(&self, contention: Contention) -> Vec<f64> {
        self.jobs.iter().map(|job| rho(job, self.jobs.len(), self.gpus, contention)).collect()
    }

    /// The third published definition of rho: each job's completion time over its completion time
    /// in `isolated`, the same trace under the policy `isolated_plus` (every job the share GPUs over
    /// jobs of the time, at most all of it), which is what `gandiva-fair` does.
    #[must_use]
    pub fn rhos_beside(&self, isolated: &Outcome) -> Vec<f64> {
        let rho = |(job, alone): (&JobOutcome, &JobOutcome)| {
            (job.jct_s / alone.jct_s * 1e5).round() / 1e5
        };
        self.jobs.iter().zip(&isolated.jobs).map(rho).collect()
    }

    /// The metrics under one definition of rho.
    #[must_use]
    pub fn metrics(&self, contention: Contention) -> Metrics {
        let count = self.jobs.len().max(1) as f64;
        let rhos = self.rhos(contention);
        let above = |limit: f64| rhos.iter().filter(|value| **value > limit).count() as f64 / count;
        let mut times: Vec<f64> = self.jobs.iter().map(|job| job.jct_s).collect();
        times.sort_by(f64::total_cmp);
        let capacity_s = f64::from(self.gpus) * self.makespan_s;
        Metrics {
            makespan_s: self.makespan_s,
            mean_jct_s: times.iter().sum::<f64>() / count,
            p95_jct_s: quantile(&times, 0.95),
            worst_rho: rhos.iter().copied().fold(0.0, f64::max),
            unfair_1_0: above(1.0),
            unfair_1_05: above(1.05),
            unfair_1_1: above(1.1),
            utilisation: if capacity_s > 0.0 { self.busy_gpu_s / capacity_s } else { 0.0 },
            restarts: self.jobs.iter().map(|job| u64::from(job.restarts)).sum(),
        }
    }
}

/// A quantile of ascending values, linear between ranks; 0 when there are none.
#[must_use]
pub fn quantile(ascending: &[f64], share: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    ascending[below] + (ascending[above] - ascending[below]) * (place - below as f64)
}
