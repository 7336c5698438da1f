//! The command line: one file per command.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 3 the coordinator cannot be reached.

mod plan;
mod compare;
mod reproduce;
mod simulate;
mod trace;

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
    /// Plays a trace against a policy in virtual time.
    Simulate(simulate::SimulateArgs),
    /// Plays a trace against several policies and compares them.
    Compare(compare::CompareArgs),
    /// Runs the paper's evaluation and writes evaluation.md with its pictures.
    #[command(hide = true)]
    Reproduce(reproduce::ReproduceArgs),
    /// Generates and converts traces.
    Trace(trace::TraceArgs),
}

/// Runs one command and maps its error to an exit code.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Plan(args) => plan::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Trace(args) => trace::run(&args),
    }
}
