//! What `simulate` and `compare` have in common: what is played, and how the result is given.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use shockwave_core::policies::Tuning;
use shockwave_core::predictor;
use shockwave_core::simulator::Faults;

use crate::simulation::{Semantics, Setup, SimulationError, Source};

/// What is played, and how the result is given.
#[derive(Debug, Args)]
pub struct PlayArgs {
    /// The workload.
    #[command(flatten)]
    pub source: Source,
    /// GPUs in the cluster.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus: u32,
    /// Whose behaviour is simulated.
    #[arg(long, value_enum, default_value_t = Semantics::Published)]
    pub semantics: Semantics,
    /// GPUs in each machine (product semantics); the published semantics only count GPUs.
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub gpus_per_node: u32,
    /// What goes wrong, parts separated by commas: loss=HOURS and slow=HOURS (mean time between
    /// losses and slow spells of one machine), away=SECONDS and spell=SECONDS (their mean length),
    /// factor=X (how slow), late=SECONDS (longest delay of a report), forecast=PERCENT (error of
    /// the forecasts). All but forecast need the product semantics.
    #[arg(long, value_name = "WHAT")]
    pub faults: Option<Faults>,
    /// How run times are forecast; `exact` knows the future, for comparison.
    #[arg(long, value_name = "NAME", default_value = predictor::DEFAULT)]
    pub predictor: String,
    /// T: rounds of the planning window of a market policy.
    #[arg(long, value_name = "ROUNDS")]
    pub window_t: Option<usize>,
    /// k: the power of rho in a job's budget.
    #[arg(long, value_name = "NUMBER")]
    pub power_k: Option<f64>,
    /// lambda: the weight of the makespan.
    #[arg(long, value_name = "NUMBER")]
    pub makespan_lambda: Option<f64>,
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
    /// Draws pictures into a folder, as SVG: of one run its timeline, GPUs by size of job,
    /// distribution of rho, forecasts and (of a market) prices; of several the bars of their
    /// metrics and the distributions of rho and completion times.
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
}

impl PlayArgs {
    /// The simulation of one policy.
    pub(super) fn setup(&self, policy: &str, record: bool) -> Setup {
        Setup {
            predictor: self.predictor.clone(),
            tuning: Tuning {
                rounds: self.window_t,
                k: self.power_k,
                lambda: self.makespan_lambda,
                samples: self.samples,
            },
            semantics: self.semantics,
            gpus_per_node: self.gpus_per_node,
            faults: self.faults.unwrap_or_default(),
            seed: self.seed,
            record,
            ..Setup::published(self.gpus, policy)
        }
    }
}

/// Prints the result of a command, or why there is none.
pub(super) fn give(command: &str, result: Result<String, SimulationError>) -> ExitCode {
    match result {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("shockwave {command}: {error}");
            ExitCode::from(2)
        }
    }
}
