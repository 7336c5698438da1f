//! `shockwave plan` without an instance: the plan that the coordinator is carrying out.

use std::process::ExitCode;

use serde::Serialize;
use shockwave_proto::v1::{PlanReply, PlanRequest};

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::json;
use super::table::{self, duration, or_dash};

/// The plan now in force.
#[derive(Debug, Serialize)]
struct LivePlan {
    policy: String,
    round: u64,
    round_s: f64,
    round_left_s: f64,
    gpus: u32,
    solve_s: f64,
    gap: Option<f64>,
    objective: Option<f64>,
    bound: Option<f64>,
    rounds: Vec<Round>,
    jobs: Vec<PlannedJob>,
}

#[derive(Debug, Serialize)]
struct Round {
    round: u64,
    jobs: Vec<u64>,
    price: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PlannedJob {
    id: u64,
    rounds: u32,
    rho: Option<f64>,
    budget: f64,
}

impl From<PlanReply> for LivePlan {
    fn from(it: PlanReply) -> Self {
        let rounds = it.planned.into_iter();
        let jobs = it.jobs.into_iter();
        Self {
            policy: it.policy,
            round: it.round,
            round_s: it.round_s,
            round_left_s: it.round_left_s,
            gpus: it.gpus,
            solve_s: it.solve_s,
            gap: it.gap,
            objective: it.objective,
            bound: it.bound,
            rounds: rounds
                .map(|it| Round { round: it.round, jobs: it.job_ids, price: it.price })
                .collect(),
            jobs: jobs
                .map(|it| PlannedJob {
                    id: it.job_id,
                    rounds: it.rounds,
                    rho: it.rho,
                    budget: it.budget,
                })
                .collect(),
        }
    }
}

/// Asks the coordinator and prints its plan.
pub(super) fn run(coordinator: &CoordinatorArgs) -> ExitCode {
    run_async(async {
        let mut client = coordinator.connect().await?;
        let plan = LivePlan::from(client.plan(PlanRequest {}).await?.into_inner());
        if coordinator.json {
            json::print("plan", &plan)?;
        } else {
            table::print(&render(&plan))?;
        }
        Ok::<_, CliError>(ExitCode::SUCCESS)
    })
}

fn render(plan: &LivePlan) -> String {
    let mut text = format!(
        "round {} of {}, {} left; {} devices; {} planned in {:.3} s",
        plan.round,
        duration(plan.round_s),
        duration(plan.round_left_s),
        plan.gpus,
        plan.policy,
        plan.solve_s
    );
    if let (Some(gap), Some(objective), Some(bound)) = (plan.gap, plan.objective, plan.bound) {
        text.push_str(&format!(
            "\nobjective {objective:.6}, at most {bound:.6} is possible: gap {:.1e}",
            gap.max(0.0)
        ));
    }
    if let Some(price) = plan.rounds.iter().find_map(|round| round.price) {
        text.push_str(&format!("\na device costs {price:.3e} of the objective a round"));
    }
    if plan.jobs.is_empty() {
        text.push_str("\nno job is active");
        return text;
    }
    if plan.rounds.len() <= 1 {
        let next = plan.round + 1;
        text.push_str(&format!(
            "\nnothing is planned yet: round {next} is, shortly before it begins"
        ));
    }
    // One column a round: # runs, . does not.
    let row = |job: &PlannedJob| {
        let mark = |round: &Round| if round.jobs.contains(&job.id) { '#' } else { '.' };
        vec![
            job.id.to_string(),
            plan.rounds.iter().map(mark).collect(),
            job.rounds.to_string(),
            format!("{:.2}", job.budget),
            or_dash(job.rho.map(|rho| format!("{rho:.2}"))),
        ]
    };
    let rows: Vec<_> = plan.jobs.iter().map(row).collect();
    text.push('\n');
    text.push_str(&table::table(&["JOB", "ROUNDS", "COUNT", "BUDGET", "RHO"], &rows));
    text
}
