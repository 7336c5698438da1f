//! `cargo xtask torture`: long runs of what the tests do a few times.

mod training;

use anyhow::{Result, bail};

/// Options of torture.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to torture: training
    name: String,
    /// How often
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
}

/// Runs one; whether all held.
pub(crate) fn run(args: &Args) -> Result<bool> {
    match args.name.as_str() {
        "training" => training::run(args.runs),
        other => bail!("there is nothing to torture by the name '{other}'; there is: training"),
    }
}
