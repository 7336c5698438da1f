//! `shockwave logs`: what a job printed.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::LogsRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::{json, table};

/// Prints what a job printed
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Number of the job
    pub id: u64,
    /// Go on until the job has ended
    #[arg(long, short)]
    pub follow: bool,
    /// Only this many bytes from the end
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub tail_bytes: u64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &LogsArgs) -> ExitCode {
    run_async(logs(args))
}

async fn logs(args: &LogsArgs) -> Result<ExitCode, CliError> {
    let mut client = args.coordinator.connect().await?;
    let request = LogsRequest { job_id: args.id, follow: args.follow, tail_bytes: args.tail_bytes };
    let mut chunks = client.logs(request).await?.into_inner();
    while let Some(chunk) = chunks.message().await? {
        if args.coordinator.json {
            json::print("text", &String::from_utf8_lossy(&chunk.data))?;
            continue;
        }
        let mut out = std::io::stdout().lock();
        table::printed(out.write_all(&chunk.data).and_then(|()| out.flush()))?;
    }
    Ok(ExitCode::SUCCESS)
}
