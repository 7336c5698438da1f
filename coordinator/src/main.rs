//! The `shockwave` program: parses, wires, maps errors to exit codes.

use std::process::ExitCode;

use clap::Parser;
use shockwave::cli::{self, Cli};

fn main() -> ExitCode {
    cli::run(Cli::parse())
}
