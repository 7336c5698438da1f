//! `shockwave fairness`: who got how much of the devices, and how fairly.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use shockwave_proto::v1::{FairnessReply, FairnessRequest};

use super::connect::{CoordinatorArgs, run_async};
use super::json;
use super::table::{self, duration, or_dash};

/// Shows who got how much of the devices, and how fairly
#[derive(Debug, Args)]
pub struct FairnessArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

#[derive(Debug, Serialize)]
struct Fairness {
    finished_jobs: u32,
    unfair_jobs: u32,
    worst_rho: Option<f64>,
    mean_jct_s: Option<f64>,
    short_jobs: u32,
    users: Vec<User>,
}

#[derive(Debug, Serialize)]
struct User {
    user: String,
    jobs: u32,
    active_jobs: u32,
    gpu_s: f64,
    share: f64,
    wasted_gpu_s: f64,
    preemptions: u32,
    mean_rho: Option<f64>,
    worst_rho: Option<f64>,
    weight: f64,
    gpus_max: Option<u32>,
}

impl From<FairnessReply> for Fairness {
    fn from(reply: FairnessReply) -> Self {
        let user = |it: shockwave_proto::v1::UserShare| {
            let terms = it.terms.unwrap_or_default();
            User {
                user: it.user,
                jobs: it.jobs,
                active_jobs: it.active_jobs,
                gpu_s: it.gpu_s,
                share: it.share,
                wasted_gpu_s: it.wasted_gpu_s,
                preemptions: it.preemptions,
                mean_rho: it.mean_rho,
                worst_rho: it.worst_rho,
                weight: terms.weight,
                gpus_max: terms.gpus_max,
            }
        };
        Self {
            finished_jobs: reply.finished_jobs,
            unfair_jobs: reply.unfair_jobs,
            worst_rho: reply.worst_rho,
            mean_jct_s: reply.mean_jct_s,
            short_jobs: reply.short_jobs,
            users: reply.users.into_iter().map(user).collect(),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &FairnessArgs) -> ExitCode {
    run_async(async {
        let mut client = args.coordinator.connect().await?;
        let reply = client.fairness(FairnessRequest {}).await?.into_inner();
        let fairness = Fairness::from(reply);
        if args.coordinator.json {
            json::print("fairness", &fairness)?;
        } else {
            table::print(&render(&fairness))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn render(fairness: &Fairness) -> String {
    let row = |it: &User| {
        vec![
            it.user.clone(),
            format!("{} ({} active)", it.jobs, it.active_jobs),
            duration(it.gpu_s),
            format!("{:.1} %", it.share * 100.0),
            duration(it.wasted_gpu_s),
            it.preemptions.to_string(),
            or_dash(it.mean_rho.map(|rho| format!("{rho:.2}"))),
            or_dash(it.worst_rho.map(|rho| format!("{rho:.2}"))),
            it.weight.to_string(),
            or_dash(it.gpus_max.map(|cap| cap.to_string())),
        ]
    };
    let rows: Vec<_> = fairness.users.iter().map(row).collect();
    let header = [
        "USER",
        "JOBS",
        "DEVICE TIME",
        "SHARE",
        "WASTED",
        "PREEMPTED",
        "MEAN RHO",
        "WORST RHO",
        "WEIGHT",
        "CAP",
    ];
    let mut text = table::table(&header, &rows);
    text.push_str(&format!(
        "\n{} jobs finished, {} of them with rho above 1",
        fairness.finished_jobs, fairness.unfair_jobs
    ));
    if let (Some(worst), Some(mean_s)) = (fairness.worst_rho, fairness.mean_jct_s) {
        text.push_str(&format!("; worst rho {worst:.2}, mean completion {}", duration(mean_s)));
    }
    if fairness.short_jobs > 0 {
        text.push_str(&format!(
            "\n{} of them had less than two rounds of service: their rho tells of waiting for a \
             round's begin, not of their share",
            fairness.short_jobs
        ));
    }
    text
}
