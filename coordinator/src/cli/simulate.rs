//! `shockwave simulate`: one policy on one trace.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use shockwave_core::predictor;
use shockwave_core::simulator::report::Contention;

use crate::simulation::{self, Run, Semantics, Setup, SimulationError, Source};

/// Plays a trace against a policy in virtual time.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The workload.
    #[command(flatten)]
    pub source: Source,
    /// GPUs in the cluster.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus: u32,
    /// Policy.
    #[arg(long, value_name = "NAME")]
    pub policy: String,
    /// Whose behaviour is simulated.
    #[arg(long, value_enum, default_value_t = Semantics::Published)]
    pub semantics: Semantics,
    /// How run times are forecast; `exact` knows the future, for comparison.
    #[arg(long, value_name = "NAME", default_value = predictor::DEFAULT)]
    pub predictor: String,
    /// Trajectories of each job that the policy shockwave plans for; 1: the mean forecast.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub samples: usize,
    /// Seed of everything that is drawn.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Writes the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Leaves measured times out of the JSON, so that the same seed gives the same bytes.
    #[arg(long, requires = "json")]
    pub untimed: bool,
    /// Draws the run's timeline, GPUs by size of job, distribution of rho, and for a market its
    /// price and forecasts, as SVG.
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &SimulateArgs) -> ExitCode {
    match simulate(args) {
        Ok(run) => {
            if args.json {
                println!("{}", simulation::report(&run, !args.untimed));
            } else {
                print!("{}", summary(&run));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("shockwave simulate: {error}");
            ExitCode::from(2)
        }
    }
}

fn simulate(args: &SimulateArgs) -> Result<Run, SimulationError> {
    let workload = args.source.load()?;
    let setup = Setup {
        gpus: args.gpus,
        policy: args.policy.clone(),
        predictor: args.predictor.clone(),
        samples: args.samples,
        semantics: args.semantics,
        seed: args.seed,
        record: args.figures.is_some(),
    };
    let run = simulation::run(&workload, &setup)?;
    if let Some(folder) = &args.figures {
        simulation::save(folder, simulation::of_run(&run))?;
    }
    Ok(run)
}

fn summary(run: &Run) -> String {
    let metrics = run.outcome.metrics(Contention::Trace);
    let themis = run.outcome.metrics(Contention::WhileActive);
    let percent = |share: f64| share * 100.0;
    [
        format!("policy             {} ({} semantics)", run.setup.policy, run.setup.semantics.name()),
        format!("makespan           {:.2} h", metrics.makespan_s / 3600.0),
        format!(
            "completion time    {:.2} h mean, {:.2} h 95th percentile",
            metrics.mean_jct_s / 3600.0,
            metrics.p95_jct_s / 3600.0
        ),
        format!(
            "worst rho          {:.2} by the trace's contention, {:.2} by the contention while active",
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
