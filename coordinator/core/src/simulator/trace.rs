//! Traces: which jobs arrive when.

use std::collections::HashSet;

use super::table::{InputError, Row, Table};

/// How a trace's job changes its batch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Never.
    Static,
    /// By the Accordion rule.
    Accordion,
    /// By the gradient noise scale.
    Gns,
}

impl Mode {
    /// The name in traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Static => "static",
            Mode::Accordion => "accordion",
            Mode::Gns => "gns",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Mode::Static, Mode::Accordion, Mode::Gns]
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or(())
    }
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceJob {
    /// Line in the file, for error messages.
    pub line: u64,
    /// When it arrives, seconds from the first arrival.
    pub arrival_s: f64,
    /// Its number.
    pub id: u64,
    /// Model.
    pub model: String,
    /// Data set; empty when the trace does not say.
    pub dataset: String,
    /// Batch size of the first epoch over the whole gang, samples.
    pub batch: u32,
    /// Gang size.
    pub gpus: u32,
    /// Optimiser steps at the first batch size.
    pub total_steps: u64,
    /// Duration that the trace's author noted, seconds.
    pub duration_s: Option<f64>,
    /// How the batch size changes.
    pub mode: Mode,
    /// Weight relative to other jobs.
    pub priority: f64,
    /// Deadline after arrival, seconds.
    pub slo_s: Option<f64>,
    /// Epochs, when the trace says.
    pub num_epochs: Option<u32>,
    /// Profiled run time alone on its gang, seconds, when the trace says. Only the metrics use it.
    pub exclusive_s: Option<f64>,
}

/// The columns of a trace, in the order in which [`to_csv`] writes them.
pub const COLUMNS: [&str; 13] = [
    "arrival_s",
    "job_id",
    "model",
    "dataset",
    "batch_size",
    "scale_factor",
    "total_steps",
    "trace_duration_s",
    "mode",
    "priority",
    "slo",
    "num_epochs",
    "exclusive_runtime_s",
];

const REQUIRED: [&str; 7] =
    ["arrival_s", "job_id", "model", "batch_size", "scale_factor", "total_steps", "mode"];

/// Reads a trace: a CSV file with the columns [`COLUMNS`], of which dataset, trace_duration_s,
/// priority, slo, num_epochs and exclusive_runtime_s may be missing or empty.
///
/// # Errors
/// [`InputError`] names line and column of the first value that cannot be.
pub fn parse_trace(text: &str) -> Result<Vec<TraceJob>, InputError> {
    let table = Table::parse("trace", text, &REQUIRED)?;
    let mut jobs: Vec<TraceJob> = Vec::new();
    let mut ids = HashSet::new();
    for row in table.rows() {
        let job = parse_row(&row)?;
        if let Some(before) = jobs.last().filter(|before| before.arrival_s > job.arrival_s) {
            let expected = format!("{} or later: arrivals are sorted", before.arrival_s);
            return Err(row.error("arrival_s", expected));
        }
        if !ids.insert(job.id) {
            return Err(row.error("job_id", "a number that no earlier line has"));
        }
        jobs.push(job);
    }
    if jobs.is_empty() {
        return Err(InputError {
            table: "trace",
            line: 2,
            column: "arrival_s".into(),
            got: String::new(),
            expected: "at least one job".into(),
        });
    }
    Ok(jobs)
}

fn parse_row(row: &Row<'_>) -> Result<TraceJob, InputError> {
    let seconds = "seconds, 0 or more";
    let above_zero = "a whole number above 0";
    let not_negative = |value: &f64| value.is_finite() && *value >= 0.0;
    let model = row.text("model");
    if model.is_empty() {
        return Err(row.error("model", "a model's name"));
    }
    Ok(TraceJob {
        line: row.line(),
        arrival_s: row.value("arrival_s", seconds, not_negative)?,
        id: row.value("job_id", "a whole number", |_: &u64| true)?,
        model: model.to_owned(),
        dataset: row.text("dataset").to_owned(),
        batch: row.value("batch_size", above_zero, |value: &u32| *value > 0)?,
        gpus: row.value("scale_factor", above_zero, |value: &u32| *value > 0)?,
        total_steps: row.value("total_steps", above_zero, |value: &u64| *value > 0)?,
        duration_s: row.optional("trace_duration_s", seconds, not_negative)?,
        mode: row.value("mode", "static, accordion or gns", |_: &Mode| true)?,
        priority: row
            .optional("priority", "a number above 0", |value: &f64| {
                value.is_finite() && *value > 0.0
            })?
            .unwrap_or(1.0),
        slo_s: row
            .optional("slo", "seconds, or -1 for none", |value: &f64| {
                value.is_finite() && (*value >= 0.0 || *value == -1.0)
            })?
            .filter(|value| *value >= 0.0),
        num_epochs: row.optional("num_epochs", above_zero, |value: &u32| *value > 0)?,
        exclusive_s: row.optional("exclusive_runtime_s", "seconds above 0", |value: &f64| {
            value.is_finite() && *value > 0.0
        })?,
    })
}

/// Writes a trace as a CSV file that [`parse_trace`] reads back.
#[must_use]
pub fn to_csv(jobs: &[TraceJob]) -> String {
    fn or_empty(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let mut text = COLUMNS.join(",") + "\n";
    for job in jobs {
        let fields = [
            job.arrival_s.to_string(),
            job.id.to_string(),
            job.model.clone(),
            job.dataset.clone(),
            job.batch.to_string(),
            job.gpus.to_string(),
            job.total_steps.to_string(),
            or_empty(job.duration_s),
            job.mode.name().to_owned(),
            job.priority.to_string(),
            or_empty(job.slo_s),
            or_empty(job.num_epochs),
            or_empty(job.exclusive_s),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}
