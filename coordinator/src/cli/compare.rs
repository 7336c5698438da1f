//! `shockwave compare`: several policies on one trace.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use shockwave_core::{policies, predictor};

use crate::simulation::{self, Run, Semantics, Setup, SimulationError, Source};

/// Plays a trace against several policies and compares them.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The workload.
    #[command(flatten)]
    pub source: Source,
    /// GPUs in the cluster.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus: u32,
    /// Policies, separated by commas; the first one is the reference of relative values. All when
    /// not given.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policies: Vec<String>,
    /// Whose behaviour is simulated.
    #[arg(long, value_enum, default_value_t = Semantics::Published)]
    pub semantics: Semantics,
    /// How run times are forecast.
    #[arg(long, value_name = "NAME", default_value = predictor::DEFAULT)]
    pub predictor: String,
    /// Seed of everything that is drawn.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Writes the results as a JSON array.
    #[arg(long)]
    pub json: bool,
    /// Leaves measured times out of the JSON, so that the same seed gives the same bytes.
    #[arg(long, requires = "json")]
    pub untimed: bool,
    /// Draws bars of the metrics and distributions of rho and completion times, as SVG.
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &CompareArgs) -> ExitCode {
    match compare(args) {
        Ok(runs) => {
            if args.json {
                let all = runs.iter().map(|run| simulation::report(run, !args.untimed)).collect();
                println!("{}", Value::Array(all));
            } else {
                print!("{}", simulation::comparison(&runs.iter().collect::<Vec<_>>()));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("shockwave compare: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare(args: &CompareArgs) -> Result<Vec<Run>, SimulationError> {
    let workload = args.source.load()?;
    let all = || policies::REGISTRY.iter().map(|entry| entry.0.to_owned()).collect();
    let names = if args.policies.is_empty() { all() } else { args.policies.clone() };
    let runs = names
        .into_iter()
        .map(|policy| {
            let setup = Setup {
                gpus: args.gpus,
                policy,
                predictor: args.predictor.clone(),
                samples: 1,
                semantics: args.semantics,
                seed: args.seed,
                record: false,
            };
            simulation::run(&workload, &setup)
        })
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(folder) = &args.figures {
        simulation::save(folder, simulation::of_comparison(&runs.iter().collect::<Vec<_>>()))?;
    }
    Ok(runs)
}
