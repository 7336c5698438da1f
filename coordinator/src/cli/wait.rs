//! `shockwave wait`: returns when jobs have ended.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use shockwave_proto::v1::ShowJobRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::follow::Patience;
use super::json::{self, Job, has_ended};
use super::table;

/// Waits until jobs have ended; fails when one of them did not finish
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Numbers of the jobs
    #[arg(required = true)]
    pub ids: Vec<u64>,
    /// Give up after this long, seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout_s: Option<f64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &WaitArgs) -> ExitCode {
    run_async(async {
        let Some(timeout_s) = args.timeout_s else { return wait(args, &Cell::new(0)).await };
        let limit = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| CliError::Usage(format!("--timeout-s is {timeout_s}")))?;
        let waited = Cell::new(0);
        tokio::time::timeout(limit, wait(args, &waited)).await.unwrap_or_else(|_| {
            let id = waited.get();
            Err(CliError::Failed(format!(
                "after {timeout_s} s job {id} has not ended yet (`shockwave explain {id}`)"
            )))
        })
    })
}

/// Waits for one job after the other; `waited` is the one that it waits for.
async fn wait(args: &WaitArgs, waited: &Cell<u64>) -> Result<ExitCode, CliError> {
    let mut jobs = Vec::new();
    for &id in &args.ids {
        waited.set(id);
        let job = wait_for(&args.coordinator, id).await?;
        if !args.coordinator.json {
            let reason =
                if job.reason.is_empty() { String::new() } else { format!(": {}", job.reason) };
            table::print(&format!("job {} ({}) is {}{reason}", job.id, job.name, job.state))?;
        }
        jobs.push(job);
    }
    let all_finished = jobs.iter().all(|job| job.state == "finished");
    if args.coordinator.json {
        json::print("jobs", &jobs)?;
    }
    Ok(if all_finished { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Follows a job to its end, over restarts of the coordinator.
async fn wait_for(coordinator: &CoordinatorArgs, id: u64) -> Result<Job, CliError> {
    let mut patience = Patience::default();
    loop {
        match follow(coordinator, id, &mut patience).await {
            Ok(Some(job)) => return Ok(job),
            broken => patience.wait(broken.map(|_| ())).await?,
        }
    }
}

async fn follow(
    coordinator: &CoordinatorArgs,
    id: u64,
    patience: &mut Patience,
) -> Result<Option<Job>, CliError> {
    let mut client = coordinator.connect().await?;
    let mut changes = client.watch_job(ShowJobRequest { job_id: id }).await?.into_inner();
    patience.heard();
    let mut last = None;
    while let Some(info) = changes.message().await? {
        patience.heard();
        last = Some(info);
    }
    Ok(last.filter(|info| has_ended(info.state())).map(Job::from))
}
