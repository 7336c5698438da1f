//! The command line: one file per command.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 3 the coordinator cannot be reached.

mod plan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shares GPUs fairly and fast among training jobs that change their own batch size.
#[derive(Debug, Parser)]
#[command(name = "shockwave", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a window of rounds.
    Plan(plan::PlanArgs),
}

/// Runs one command and maps its error to an exit code.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Plan(args) => plan::run(&args),
    }
}
