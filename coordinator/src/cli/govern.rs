//! `shockwave hold`, `release` and `weight`: what a user changes of jobs that are in.

use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::{HoldJobRequest, JobInfo, SetWeightRequest};
use tonic::{Response, Status};

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
        let client = args.coordinator.connect().await?;
        let (jobs, failed) = each(&args.ids, |job_id| {
            let mut client = client.clone();
            async move { client.hold_job(HoldJobRequest { job_id, held }).await }
        })
        .await?;
        let done = print(jobs, &args.coordinator)?;
        Ok(if failed { ExitCode::FAILURE } else { done })
    })
}

/// Does something to each of several jobs: one that refuses is told of, and keeps the others from
/// nothing. The jobs that were found, and whether one refused.
///
/// # Errors
/// The coordinator is away.
pub(super) async fn each<F>(
    ids: &[u64],
    act: impl Fn(u64) -> F,
) -> Result<(Vec<JobInfo>, bool), CliError>
where
    F: Future<Output = Result<Response<JobInfo>, Status>>,
{
    let (mut jobs, mut failed) = (Vec::new(), false);
    for &id in ids {
        match act(id).await.map_err(CliError::from) {
            Ok(info) => jobs.push(info.into_inner()),
            Err(CliError::Failed(why)) => {
                eprintln!("error: {why}");
                failed = true;
            }
            Err(error) => return Err(error),
        }
    }
    Ok((jobs, failed))
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
