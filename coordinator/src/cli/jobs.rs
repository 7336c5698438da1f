//! `shockwave jobs`: lists jobs.

use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::ListJobsRequest;

use super::connect::{CliError, Client, CoordinatorArgs, run_async};
use super::json::{self, Job};
use super::table::{self, duration, or_dash};

/// Lists jobs
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Also those that have ended
    #[arg(long, short)]
    pub all: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &JobsArgs) -> ExitCode {
    run_async(jobs(args))
}

/// Every job, page by page.
pub(super) async fn fetch(client: &mut Client, all: bool) -> Result<Vec<Job>, CliError> {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let after_id = jobs.last().map_or(0, |job| job.id);
        let request = ListJobsRequest { all, after_id, limit: 0 };
        let page = client.list_jobs(request).await?.into_inner();
        jobs.extend(page.jobs.into_iter().map(Job::from));
        if !page.more {
            return Ok(jobs);
        }
    }
}

async fn jobs(args: &JobsArgs) -> Result<ExitCode, CliError> {
    let mut client = args.coordinator.connect().await?;
    let jobs = fetch(&mut client, args.all).await?;
    if args.coordinator.json {
        json::print("jobs", &jobs)?;
    } else if jobs.is_empty() {
        let all =
            if args.all { "there are no jobs" } else { "no job is active (--all lists ended)" };
        table::print(all)?;
    } else {
        table::print(&render(&jobs))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The table of jobs.
pub(super) fn render(jobs: &[Job]) -> String {
    let header =
        ["ID", "NAME", "STATE", "GPUS", "POLICY", "EPOCH", "BATCH", "PREEMPTED", "RHO", "ETA"];
    let row = |job: &Job| {
        let epoch = job.epochs.map(|total| format!("{:.1}/{total}", job.epochs_done));
        let eta = match (&job.eta, job.jct_s) {
            (_, Some(jct_s)) => Some(format!("took {}", duration(jct_s))),
            (Some(eta), None) => {
                let range = (duration(eta.low_s), duration(eta.high_s));
                Some(format!("{} ({} .. {})", duration(eta.mean_s), range.0, range.1))
            }
            (None, None) => job.epochs.map(|_| "not known yet".to_owned()),
        };
        vec![
            job.id.to_string(),
            job.name.clone(),
            job.state.to_owned(),
            job.gpus.to_string(),
            or_dash(job.policy.map(str::to_owned)),
            or_dash(epoch),
            or_dash(job.batch.map(|batch| batch.to_string())),
            job.preemptions.to_string(),
            or_dash(job.rho.map(|rho| format!("{rho:.2}{}", marked(job).unwrap_or_default()))),
            or_dash(eta),
        ]
    };
    let mut text = table::table(&header, &jobs.iter().map(row).collect::<Vec<_>>());
    if jobs.iter().any(|job| marked(job).is_some()) {
        text.push_str(
            "\n* less than two rounds of service: rho tells of waiting for a round, not of fairness",
        );
    }
    text
}

/// The mark at a rho that frightens for no reason.
fn marked(job: &Job) -> Option<&'static str> {
    (job.rho_says_little && job.rho.is_some_and(|rho| rho > 1.0)).then_some("*")
}
