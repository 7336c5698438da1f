//! `shockwave events`: the durable log, one JSON object a line; followed over restarts of the
//! coordinator.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use shockwave_proto::v1::EventsRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::follow::Patience;
use super::{json, table};

/// Prints the durable log, one JSON object a line
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only what concerns this job
    #[arg(long, value_name = "ID", default_value_t = 0)]
    pub job: u64,
    /// First record
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub from: u64,
    /// Go on with new ones
    #[arg(long, short)]
    pub follow: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &EventsArgs) -> ExitCode {
    run_async(async {
        let (mut next, mut patience) = (args.from, Patience::default());
        loop {
            match read(args, &mut next, &mut patience).await {
                broken if args.follow => patience.wait(broken).await?,
                done => return done.map(|()| ExitCode::SUCCESS),
            }
        }
    })
}

/// Prints records, and notes which is the next.
async fn read(args: &EventsArgs, next: &mut u64, patience: &mut Patience) -> Result<(), CliError> {
    let mut client = args.coordinator.connect().await?;
    let request = EventsRequest { from: *next, follow: args.follow, job_id: args.job };
    let mut records = client.events(request).await?.into_inner();
    patience.heard();
    while let Some(record) = records.message().await? {
        patience.heard();
        let body: Value = serde_json::from_str(&record.json)
            .map_err(|error| CliError::Failed(format!("record {}: {error}", record.number)))?;
        let line = json!({
            "version": json::VERSION,
            "number": record.number,
            "at_unix_s": record.at_unix_s,
            "event": body.get("record").cloned().unwrap_or(body),
        });
        table::print_raw(&line.to_string())?;
        *next = record.number + 1;
    }
    Ok(())
}
