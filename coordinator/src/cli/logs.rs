//! `shockwave logs`: what a job printed, followed over restarts of the coordinator.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::{LogsRequest, ShowJobRequest};

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::follow::Patience;
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
    let mut patience = Patience::default();
    let mut request = LogsRequest {
        job_id: args.id,
        follow: args.follow,
        tail_bytes: args.tail_bytes,
        from_place: String::new(),
    };
    loop {
        match read(args, &mut request, &mut patience).await {
            Ok(true) => return Ok(ExitCode::SUCCESS),
            broken if args.follow => patience.wait(broken.map(|_| ())).await?,
            broken => return broken.map(|_| ExitCode::SUCCESS),
        }
    }
}

/// Prints what comes, and notes in the request up to where; whether that was all.
async fn read(
    args: &LogsArgs,
    request: &mut LogsRequest,
    patience: &mut Patience,
) -> Result<bool, CliError> {
    let mut client = args.coordinator.connect().await?;
    let mut chunks = client.logs(request.clone()).await?.into_inner();
    patience.heard();
    while let Some(chunk) = chunks.message().await? {
        patience.heard();
        request.from_place = chunk.place;
        if args.coordinator.json {
            json::print("text", &String::from_utf8_lossy(&chunk.data))?;
            continue;
        }
        let mut out = std::io::stdout().lock();
        table::printed(out.write_all(&chunk.data).and_then(|()| out.flush()))?;
    }
    if !args.follow {
        return Ok(true);
    }
    // A coordinator that stops in good order ends the stream too.
    let info = client.show_job(ShowJobRequest { job_id: args.id }).await?.into_inner();
    Ok(json::has_ended(info.state()))
}
