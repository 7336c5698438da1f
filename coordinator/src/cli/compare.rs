//! `shockwave compare`: several policies on one trace.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use shockwave_core::policies;

use super::playing::{PlayArgs, give};
use crate::simulation::{self, Run, SimulationError};

/// Plays a trace against several policies and compares them.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// What is played.
    #[command(flatten)]
    pub play: PlayArgs,
    /// Policies, separated by commas. All when not given.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policies: Vec<String>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &CompareArgs) -> ExitCode {
    give("compare", compare(args))
}

fn compare(args: &CompareArgs) -> Result<String, SimulationError> {
    let workload = args.play.source.load()?;
    let all = || policies::REGISTRY.iter().map(|entry| entry.0.to_owned()).collect();
    let names = if args.policies.is_empty() { all() } else { args.policies.clone() };
    let one = |policy: &String| {
        let mut setup = args.play.setup(policy, false);
        // With several, what only a market has is left out of the others.
        if names.len() > 1 {
            setup.tuning = setup.tuning.within(policy);
        }
        simulation::run(&workload, &setup)
    };
    let runs = names.iter().map(one).collect::<Result<Vec<Run>, _>>()?;
    let all: Vec<&Run> = runs.iter().collect();
    if let Some(folder) = &args.play.figures {
        simulation::save(folder, simulation::of_comparison(&all))?;
    }
    if args.play.json {
        let reports = all.iter().map(|run| simulation::report(run, !args.play.untimed));
        return Ok(format!("{}\n", Value::Array(reports.collect())));
    }
    Ok(simulation::comparison(&all))
}
