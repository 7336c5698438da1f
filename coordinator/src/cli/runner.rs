//! `shockwave runner` (hidden): keeps one lease's training processes; started by the agent.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::connect::{CliError, finish};
use crate::runner;

/// Keeps one lease's training processes; started by the agent, not by hand
#[derive(Debug, Args)]
pub struct RunnerArgs {
    /// Folder of the lease
    pub folder: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &RunnerArgs) -> ExitCode {
    finish(runner::run(&args.folder).map(|()| ExitCode::SUCCESS).map_err(CliError::Failed))
}
