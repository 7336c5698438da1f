//! `shockwave-checkpoint`: lists, inspects, verifies and exports the checkpoints of training runs. It changes none.
//!
//! Exit codes: 0 done, 1 a checkpoint is damaged or a file cannot be written, 2 wrong usage or nothing there to look at.

mod export;
mod find;
mod inspect;
mod list;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks at the checkpoints of training runs
#[derive(Debug, Parser)]
#[command(name = "shockwave-checkpoint", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the checkpoints in a folder, newest first
    List(list::Args),
    /// Shows where training stood, its settings and the tensors
    Inspect(inspect::Args),
    /// Reads every file and compares it with its SHA-256 sum
    Verify(verify::Args),
    /// Writes the weights as one plain safetensors file, which PyTorch reads
    Export(export::Args),
}

/// What went wrong, and for whom to mend.
#[derive(Debug)]
enum Failure {
    /// What was asked for cannot be: exit code 2.
    Usage(String),
    /// A damaged checkpoint, a disk: exit code 1.
    Damage(String),
}

impl From<shockwave_sdk::Error> for Failure {
    fn from(error: shockwave_sdk::Error) -> Self {
        Self::Damage(error.to_string())
    }
}

/// Prints a result: as JSON if wanted, else `text`.
fn show(
    json: bool,
    value: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = if json {
        let printed = serde_json::to_string_pretty(value);
        printed.map_err(|error| Failure::Damage(format!("no JSON for the result: {error}")))?
    } else {
        text()
    };
    println!("{}", text.trim_end());
    Ok(())
}

fn main() -> ExitCode {
    let options = Options::parse();
    let json = options.json;
    let done = match &options.command {
        Command::List(args) => list::run(args, json),
        Command::Inspect(args) => inspect::run(args, json),
        Command::Verify(args) => verify::run(args, json),
        Command::Export(args) => export::run(args, json),
    };
    let (message, code) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Damage(message)) => (message, 1),
        Err(Failure::Usage(message)) => (message, 2),
    };
    eprintln!("error: {message}");
    ExitCode::from(code)
}
