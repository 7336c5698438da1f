//! `shockwave hold`, `release` and `weight`: what a user changes of jobs that are in.

use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::{HoldJobRequest, JobInfo, SetWeightRequest};

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::json::{self, Job};
use super::table;

/// Jobs to keep back, or to release
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// Numbers of the jobs
    #[arg(required = true)]
    pub ids: Vec<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// A job's new budget
#[derive(Debug, Args)]
pub struct WeightArgs {
    /// Number of the job
    pub id: u64,
    /// Market budget relative to other jobs, above 0
    pub weight: f64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs `hold` (or, with `held` false, `release`).
pub(super) fn hold(args: &HoldArgs, held: bool) -> ExitCode {
    run_async(async {
        let mut client = args.coordinator.connect().await?;
        let mut jobs = Vec::new();
        for &job_id in &args.ids {
            let request = HoldJobRequest { job_id, held };
            jobs.push(client.hold_job(request).await?.into_inner());
        }
        print(jobs, &args.coordinator)
    })
}

/// Runs `weight`.
pub(super) fn weight(args: &WeightArgs) -> ExitCode {
    run_async(async {
        let mut client = args.coordinator.connect().await?;
        let request = SetWeightRequest { job_id: args.id, weight: args.weight };
        print(vec![client.set_weight(request).await?.into_inner()], &args.coordinator)
    })
}

fn print(jobs: Vec<JobInfo>, coordinator: &CoordinatorArgs) -> Result<ExitCode, CliError> {
    let jobs: Vec<Job> = jobs.into_iter().map(Job::from).collect();
    if coordinator.json {
        json::print("jobs", &jobs)?;
    } else {
        for job in &jobs {
            let (id, name, state, weight) = (job.id, &job.name, job.state, job.weight);
            table::print(&format!("job {id} ({name}) is {state}, weight {weight}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
