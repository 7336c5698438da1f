//! `shockwave timeline`: who ran when, as a picture.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use shockwave_proto::v1::EventsRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::{json, table};
use crate::history::{self, History};
use crate::service::record::Record;

/// Draws who ran when, and with which batch size
#[derive(Debug, Args)]
pub struct TimelineArgs {
    /// Where the picture is written (SVG)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// A job's row, for programs. Times count from the first submission, seconds.
#[derive(Debug, Serialize)]
struct Row<'a> {
    job: u64,
    name: &'a str,
    submitted_s: f64,
    finished_s: Option<f64>,
    ended_s: Option<f64>,
    preemptions: u32,
    spans: Vec<Span>,
}

#[derive(Debug, Serialize)]
struct Span {
    from_s: f64,
    to_s: Option<f64>,
    batch: Option<u32>,
}

/// Runs the command.
pub fn run(args: &TimelineArgs) -> ExitCode {
    run_async(timeline(args))
}

async fn timeline(args: &TimelineArgs) -> Result<ExitCode, CliError> {
    if args.svg.is_none() && !args.coordinator.json {
        return Err(CliError::Usage("give --svg FILE for a picture, or --json".into()));
    }
    let mut client = args.coordinator.connect().await?;
    let mut records = client.events(EventsRequest::default()).await?.into_inner();
    let mut timeline = History::default();
    while let Some(event) = records.message().await? {
        let record = Record::decode(event.number, &event.json);
        timeline
            .add(event.at_unix_s, &record.map_err(|error| CliError::Failed(error.to_string()))?);
    }
    for job in super::jobs::fetch(&mut client, true).await? {
        if let Some(end) = job.ended_unix_s {
            timeline.ended(job.id, end);
        }
    }
    if let Some(file) = &args.svg {
        let svg = timeline.svg().map_err(|error| CliError::Failed(error.to_string()))?;
        std::fs::write(file, svg)
            .map_err(|error| CliError::Usage(format!("{}: {error}", file.display())))?;
    }
    match &args.svg {
        _ if args.coordinator.json => json::print("timeline", &rows(&timeline))?,
        Some(file) => table::print(&format!("wrote {}", file.display()))?,
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(timeline: &History) -> Vec<Row<'_>> {
    let start = timeline.range().map_or(0.0, |(from, _)| from);
    timeline.rows().map(|row| Row::of(row, start)).collect()
}

impl<'a> Row<'a> {
    /// The row of `row`, with times counted from `start_unix_s`.
    fn of(row: &'a history::Row, start_unix_s: f64) -> Self {
        let span = |span: &history::Span| Span {
            from_s: span.from_unix_s - start_unix_s,
            to_s: span.to_unix_s.map(|to| to - start_unix_s),
            batch: span.batch,
        };
        Self {
            job: row.job,
            name: &row.name,
            submitted_s: row.submitted_unix_s - start_unix_s,
            finished_s: row.finished_unix_s.map(|at| at - start_unix_s),
            ended_s: row.ended_unix_s.map(|at| at - start_unix_s),
            preemptions: row.preemptions,
            spans: row.spans.iter().map(span).collect(),
        }
    }
}
