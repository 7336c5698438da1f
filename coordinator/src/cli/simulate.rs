//! `shockwave simulate`: one policy on one trace.

use std::process::ExitCode;

use clap::Args;
use shockwave_core::policies::Tuning;
use shockwave_core::simulator::report::Contention;

use super::playing::{PlayArgs, give};
use crate::simulation::{self, Run, Setup, SimulationError};

/// Plays a trace against a policy in virtual time.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// What is played.
    #[command(flatten)]
    pub play: PlayArgs,
    /// Policy.
    #[arg(long, value_name = "NAME")]
    pub policy: String,
}

/// Runs the command.
#[must_use]
pub fn run(args: &SimulateArgs) -> ExitCode {
    give("simulate", simulate(args))
}

fn simulate(args: &SimulateArgs) -> Result<String, SimulationError> {
    let workload = args.play.source.load()?;
    let setup = args.play.setup(&args.policy, args.play.figures.is_some());
    let run = simulation::run(&workload, &setup)?;
    if let Some(folder) = &args.play.figures {
        simulation::save(folder, simulation::of_run(&run))?;
    }
    if args.play.json {
        return Ok(format!("{}\n", simulation::report(&run, !args.play.untimed)));
    }
    // What the third definition of rho divides by.
    // What the policy is tuned to is not for the other one.
    let plain = args.play.setup("gandiva-fair", false);
    let plain = Setup { tuning: Tuning::default(), ..plain };
    let isolated = simulation::run(&workload, &plain)?;
    Ok(summary(&run, &isolated))
}

fn summary(run: &Run, isolated: &Run) -> String {
    let metrics = run.outcome.metrics(Contention::Trace);
    let themis = run.outcome.metrics(Contention::WhileActive);
    let beside = run.outcome.rhos_beside(&isolated.outcome).into_iter().fold(0.0, f64::max);
    let percent = |share: f64| share * 100.0;
    [
        format!(
            "policy             {} ({} semantics)",
            run.setup.policy,
            run.setup.semantics.name()
        ),
        format!("makespan           {:.2} h", metrics.makespan_s / 3600.0),
        format!(
            "completion time    {:.2} h mean, {:.2} h 95th percentile",
            metrics.mean_jct_s / 3600.0,
            metrics.p95_jct_s / 3600.0
        ),
        format!(
            "worst rho          {:.2} by the trace's contention (trace), {:.2} by the contention \
             while active (themis), {beside:.2} by completion under equal shares (isolated-plus)",
            metrics.worst_rho, themis.worst_rho
        ),
        format!(
            "jobs with rho over 1.0 / 1.05 / 1.1: {:.1} / {:.1} / {:.1} %",
            percent(metrics.unfair_1_0),
            percent(metrics.unfair_1_05),
            percent(metrics.unfair_1_1)
        ),
        format!("utilisation        {:.1} %", percent(metrics.utilisation)),
        format!("restarts           {}", metrics.restarts),
        format!("simulated in       {:.3} s", run.wall.as_secs_f64()),
    ]
    .join("\n")
        + "\n"
}
