//! Checks on one device what the SDK promises: what monitoring costs, how often the host waits, bf16, one worker over
//! NCCL, exact resume, the search for a micro-batch.
//!
//! `cargo xtask gpu-bundle` packs it for a machine with a GPU. With `--device cpu` the same checks run at sizes that a CPU
//! ends in a minute; goals that are set for GPUs are not judged then.
//!
//! Each result is a row of JSON (`name, value, unit, goal, holds, against`), printed as it comes and kept in
//! `device_check.json` of the output folder. Exit codes: 0 every goal holds; 1 one does not, or a check failed; 2 options
//! that the command line cannot have; 3 the device is not there.

mod machine;
mod memory;
mod monitoring;
mod precision;
mod resume;
mod rows;
mod training;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use machine::Machine;
use rows::Rows;

/// Checks the SDK on one device.
#[derive(Debug, Parser)]
struct Options {
    /// Where to train: cuda, cuda:1, ..., or cpu (small sizes).
    #[arg(long, default_value = "cuda")]
    device: String,
    /// Folder for the results; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Runs these checks only.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(CHECKS.map(|(name, _)| name)))]
    only: Vec<String>,
}

/// A check: adds its rows.
type Check = fn(&Machine, &mut Rows) -> Result<()>;

const CHECKS: [(&str, Check); 6] = [
    ("monitoring", monitoring::check),
    ("syncs", monitoring::count_syncs),
    ("bf16", precision::check),
    ("workers", workers::check),
    ("resume", resume::check),
    ("memory", memory::check),
];

fn main() -> ExitCode {
    if let Some(code) = workers::run_as_worker() {
        return code;
    }
    let options = Options::parse();
    let machine = match Machine::find(&options.device, &options.out) {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(3);
        }
    };
    match run(&options, &machine) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the checks; whether every goal holds.
fn run(options: &Options, machine: &Machine) -> Result<bool> {
    let mut rows = Rows::open(&options.out, machine)?;
    eprintln!("{}, libtorch {}", machine.name, machine.libtorch);
    for (name, check) in CHECKS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        eprintln!("== {name}");
        if let Err(error) = check(machine, &mut rows) {
            // The others may still tell something.
            rows.add(rows::failed(name, &error))?;
        }
    }
    let missed = rows.missed();
    for name in &missed {
        eprintln!("does not hold: {name}");
    }
    eprintln!("{}", rows.file().display());
    Ok(missed.is_empty())
}
