//! `shockwave reproduce`: writes the evaluation (called by `cargo xtask reproduce`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

/// Runs the paper's evaluation and writes evaluation.md with its pictures.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Folder with the public traces, profiles, throughputs and results.
    #[arg(long, value_name = "DIR", default_value = "../shared/reference")]
    pub reference: PathBuf,
    /// Folder to write into.
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub output: PathBuf,
    /// Reports as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
#[must_use]
pub fn run(args: &ReproduceArgs) -> ExitCode {
    match crate::reproduce::run(&args.reference, &args.output) {
        Ok(()) => {
            let written = args.output.join("evaluation.md");
            if args.json {
                println!("{}", json!({ "output": written }));
            } else {
                println!("{} written", written.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("shockwave reproduce: {error}");
            ExitCode::from(2)
        }
    }
}
