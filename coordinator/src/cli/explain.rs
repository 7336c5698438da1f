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
                "price": reply.price,
                "lowest_price": reply.lowest_price,
                "ahead_ids": reply.ahead_ids,
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
    if reply.rho.is_some_and(|rho| rho > 1.0)
        && reply.job.as_ref().is_some_and(|job| job.rho_says_little)
    {
        lines.push("  (rho says little yet: it has had less than two rounds of service)".into());
    }
    if let Some(price) = reply.price {
        let later = reply.lowest_price.map_or_else(String::new, |lowest| {
            format!(", {lowest:.3} in the cheapest round planned")
        });
        lines.push(format!("price of a device {price:.3} in this round{later}"));
    }
    if !reply.ahead_ids.is_empty() {
        let names: Vec<String> = reply.ahead_ids.iter().map(u64::to_string).collect();
        let more = reply.ahead as usize - reply.ahead_ids.len().min(reply.ahead as usize);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("jobs before it: {}{more}", names.join(", ")));
    }
    if let Some(left_s) = reply.left_s {
        lines.push(format!("{} of service left as forecast", duration(left_s)));
    }
    lines.join("\n")
}

/// How well intervals have held so far.
fn past(eta: &json::Eta) -> String {
    if eta.past_given == 0 {
        return "\nno job has finished yet that such an interval was given for".into();
    }
    let share = 100.0 * eta.past_held as f64 / eta.past_given as f64;
    format!("\nof {} intervals given before, {share:.0} % held (80 % is meant)", eta.past_given)
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
                    "job {} ends in {}; four in five such jobs end in {} to {}{}",
                    job.id,
                    duration(eta.mean_s),
                    duration(eta.low_s),
                    duration(eta.high_s),
                    past(eta)
                ),
                (None, None) if job.epochs.is_some() => {
                    format!("job {}: not known yet, no epoch of it has been measured", job.id)
                }
                (None, None) => {
                    format!("job {}: not known, it has declared nothing of its length", job.id)
                }
            };
            table::print(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
