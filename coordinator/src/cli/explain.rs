//! `shockwave explain` and `eta`: why a job runs or waits, and when it ends.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use shockwave_proto::v1::{ExplainReply, ShowJobRequest};

use super::connect::{CoordinatorArgs, run_async};
use super::json::{self, Job};
use super::table::{self, duration};

/// A job to explain
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Number of the job
    pub id: u64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs `explain`.
pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    run_async(async {
        let mut client = args.coordinator.connect().await?;
        let reply = client.explain(ShowJobRequest { job_id: args.id }).await?.into_inner();
        if args.coordinator.json {
            let value = json!({
                "sentence": reply.sentence,
                "remedy": reply.remedy,
                "budget": reply.budget,
                "rho": reply.rho,
                "contention": reply.contention,
                "contention_mean": reply.contention_mean,
                "ahead": reply.ahead,
                "gpus_ahead": reply.gpus_ahead,
                "planned_rounds": reply.planned_rounds,
                "left_s": reply.left_s,
                "job": reply.job.map(Job::from),
            });
            json::print("explanation", &value)?;
        } else {
            table::print(&render(args.id, &reply))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn render(id: u64, reply: &ExplainReply) -> String {
    let mut lines = vec![format!("job {id}: {}", reply.sentence)];
    if !reply.remedy.is_empty() {
        lines.push(format!("what would change it: {}", reply.remedy));
    }
    if reply.budget > 0.0 {
        let rho = reply.rho.map_or_else(|| "unknown yet".into(), |rho| format!("{rho:.2}"));
        lines.push(format!(
            "budget {:.2}, forecast rho {rho}, contention {:.2} now and {:.2} on average",
            reply.budget, reply.contention, reply.contention_mean
        ));
    }
    if let Some(left_s) = reply.left_s {
        lines.push(format!("{} of service left as forecast", duration(left_s)));
    }
    lines.join("\n")
}

/// Runs `eta`.
pub(super) fn eta(args: &ExplainArgs) -> ExitCode {
    run_async(async {
        let mut client = args.coordinator.connect().await?;
        let info = client.show_job(ShowJobRequest { job_id: args.id }).await?.into_inner();
        let job = Job::from(info);
        if args.coordinator.json {
            json::print("eta", &job.eta)?;
        } else {
            let text = match (&job.eta, job.jct_s) {
                (_, Some(jct_s)) => {
                    format!("job {} is {} after {}", job.id, job.state, duration(jct_s))
                }
                (Some(eta), None) => format!(
                    "job {} ends in {}; four in five such jobs end in {} to {}",
                    job.id,
                    duration(eta.mean_s),
                    duration(eta.low_s),
                    duration(eta.high_s)
                ),
                (None, None) => {
                    format!("job {}: nothing is known yet of its speed or its length", job.id)
                }
            };
            table::print(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
