//! `cargo xtask`: set-up, checks, tests, benchmarks and the demo.
//!
//! Exit codes: 0 done, 1 something failed, 2 wrong usage.

mod bench;
mod check;
mod demo;
mod gpu_bundle;
mod licences;
mod process;
mod reproduce;
mod setup;
mod suite;
mod tidy;
mod torture;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Work on the Shockwave workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lays libtorch, cmake and libclang in the ignored folder .deps (needs python3 and a network)
    Setup(setup::Args),
    /// Runs every test of the workspace, after the set-up
    Test(suite::Args),
    /// Runs all that CI runs besides the tests: formatting, lints, tidy, licences, documentation
    Check(check::Args),
    /// Checks sizes, module docs, the purity of the core, crate walls, words and links
    Tidy(tidy::Args),
    /// Shares one device among three adaptive training jobs, and shows what happened
    Demo(demo::Args),
    /// Runs the paper's evaluation anew: docs/evaluation.md and its pictures
    Reproduce(reproduce::Args),
    /// Runs a benchmark and writes target/bench/NAME.json; without a name, lists them
    Bench(bench::Args),
    /// Packs the checks for a machine with a GPU, libtorch 2.11 for CUDA 13 and nothing else
    GpuBundle(gpu_bundle::Args),
    /// Breaks the coordinator on purpose and counts what is lost, invented or run twice
    Torture(torture::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Setup(args) => setup::run(&args),
        Command::Test(args) => suite::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::GpuBundle(args) => gpu_bundle::run(&args),
        Command::Torture(args) => torture::run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
