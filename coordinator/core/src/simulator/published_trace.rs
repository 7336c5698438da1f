//! The published traces' format: twelve columns, separated by tabs, without a header.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::profiles::Profiles;
use super::table::InputError;
use super::trace::{Mode, TraceJob};

/// The columns, in order.
pub const COLUMNS: [&str; 12] = [
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "mode",
    "priority_weight",
    "slo",
    "duration",
    "arrival_time",
];

/// Whether a text is in this format rather than a CSV file with a header.
#[must_use]
pub fn is_published(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.matches('\t').count() + 1 == COLUMNS.len())
}

/// Reads a trace in the published format. Jobs are numbered from 0 in order.
///
/// # Errors
/// [`InputError`] names line and column of the first value that cannot be.
pub fn parse(text: &str) -> Result<Vec<TraceJob>, InputError> {
    let mut jobs: Vec<TraceJob> = Vec::new();
    for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split('\t').collect();
        let row = Fields { line: place as u64 + 1, fields };
        let job = row.job(jobs.len() as u64)?;
        if jobs.last().is_some_and(|before| before.arrival_s > job.arrival_s) {
            return Err(row.error("arrival_time", "arrivals in ascending order"));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

struct Fields<'a> {
    line: u64,
    fields: Vec<&'a str>,
}

impl Fields<'_> {
    fn text(&self, column: &str) -> &str {
        COLUMNS
            .iter()
            .position(|name| *name == column)
            .and_then(|place| self.fields.get(place))
            .map_or("", |text| text.trim())
    }

    fn error(&self, column: &str, expected: &str) -> InputError {
        InputError {
            table: "trace",
            line: self.line,
            column: column.to_owned(),
            got: self.text(column).to_owned(),
            expected: expected.to_owned(),
        }
    }

    fn number(
        &self,
        column: &str,
        expected: &str,
        holds: impl Fn(f64) -> bool,
    ) -> Result<f64, InputError> {
        let value = self.text(column).parse::<f64>().ok();
        value
            .filter(|value| value.is_finite() && holds(*value))
            .ok_or_else(|| self.error(column, expected))
    }

    fn job(&self, id: u64) -> Result<TraceJob, InputError> {
        if self.fields.len() != COLUMNS.len() {
            return Err(InputError {
                table: "trace",
                line: self.line,
                column: format!("number {}", self.fields.len().min(COLUMNS.len()) + 1),
                got: format!("{} columns", self.fields.len()),
                expected: format!("{} columns, separated by tabs", COLUMNS.len()),
            });
        }
        let (model, batch) = self
            .text("job_type")
            .split_once(" (batch size ")
            .and_then(|(model, rest)| Some((model, rest.strip_suffix(')')?.parse::<u32>().ok()?)))
            .filter(|(model, batch)| !model.is_empty() && *batch > 0)
            .ok_or_else(|| self.error("job_type", "`Model (batch size B)` with B above 0"))?;
        let mode: Mode = self
            .text("mode")
            .parse()
            .map_err(|()| self.error("mode", "static, accordion or gns"))?;
        let above_zero = "a number above 0";
        Ok(TraceJob {
            line: self.line,
            arrival_s: self.number("arrival_time", "seconds, 0 or more", |value| value >= 0.0)?,
            id,
            model: model.to_owned(),
            dataset: String::new(),
            batch,
            gpus: self.number("scale_factor", "a whole number above 0", whole)? as u32,
            total_steps: self.number("total_steps", "a number from 1", |value| value >= 1.0)?
                as u64,
            duration_s: Some(self.number("duration", "seconds, 0 or more", |value| value >= 0.0)?),
            mode,
            priority: self.number("priority_weight", above_zero, |value| value > 0.0)?,
            slo_s: Some(
                self.number("slo", "seconds, or -1 for none", |value| {
                    value >= 0.0 || value == -1.0
                })?,
            )
            .filter(|slo| *slo >= 0.0),
            num_epochs: None,
            exclusive_s: None,
        })
    }
}

fn whole(value: f64) -> bool {
    value >= 1.0 && value.fract() == 0.0 && value <= f64::from(u32::MAX)
}

/// Writes a trace in the published format. The columns that say how to start a job hold only its
/// model: no simulator reads them.
#[must_use]
pub fn write(jobs: &[TraceJob]) -> String {
    let mut text = String::new();
    for job in jobs {
        let slo = job.slo_s.map_or_else(|| "-1".to_owned(), |slo| slo.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} (batch size {})\t{}\t{}\t--num_steps\t1\t{}\t{}\t{}\t{}\t{slo}\t{}\t{}",
            job.model,
            job.batch,
            job.model,
            job.model,
            job.total_steps,
            job.gpus,
            job.mode.name(),
            job.priority,
            job.duration_s.unwrap_or(0.0),
            job.arrival_s,
        );
    }
    text
}

/// Fills in what the published format leaves out and the tables know.
pub fn complete(jobs: &mut [TraceJob], profiles: &Profiles) {
    let names: HashMap<&str, &str> = profiles
        .datasets
        .iter()
        .map(|(model, dataset)| (model.as_str(), dataset.name.as_str()))
        .collect();
    for job in jobs.iter_mut().filter(|job| job.dataset.is_empty()) {
        job.dataset = names.get(job.model.as_str()).copied().unwrap_or("").to_owned();
    }
}
