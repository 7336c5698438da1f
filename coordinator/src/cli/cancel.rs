//! `shockwave cancel`: ends jobs.

use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::CancelJobRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::govern::each;
use super::json::{self, Job};
use super::table;

/// Ends jobs; their processes get their grace. Fails when one of them had finished or failed before
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Numbers of the jobs
    #[arg(required = true)]
    pub ids: Vec<u64>,
    /// Why, for the log
    #[arg(long, default_value = "")]
    pub reason: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &CancelArgs) -> ExitCode {
    run_async(cancel(args))
}

async fn cancel(args: &CancelArgs) -> Result<ExitCode, CliError> {
    let client = args.coordinator.connect().await?;
    let (jobs, failed) = each(&args.ids, |job_id| {
        let mut client = client.clone();
        let request = CancelJobRequest { job_id, reason: args.reason.clone() };
        async move { client.cancel_job(request).await }
    })
    .await?;
    let jobs: Vec<Job> = jobs.into_iter().map(Job::from).collect();
    if args.coordinator.json {
        json::print("jobs", &jobs)?;
    } else {
        for job in &jobs {
            let already = if had_ended(job) { " already: there was nothing to cancel" } else { "" };
            table::print(&format!("job {} ({}) is {}{already}", job.id, job.name, job.state))?;
        }
    }
    let nothing = failed || jobs.iter().any(had_ended);
    Ok(if nothing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether a job had ended otherwise before it was to be cancelled.
fn had_ended(job: &Job) -> bool {
    matches!(job.state, "finished" | "failed")
}
