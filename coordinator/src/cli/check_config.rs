//! `shockwave check-config`: says whether a settings file and the files that it names can be used,
//! without using them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::connect::{CliError, finish};
use super::{json, serve_settings, table};

/// Checks a settings file without starting anything
#[derive(Debug, Args)]
pub struct CheckConfigArgs {
    /// Settings file (TOML)
    pub file: PathBuf,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub(super) fn run(args: &CheckConfigArgs) -> ExitCode {
    finish(check(args))
}

fn check(args: &CheckConfigArgs) -> Result<ExitCode, CliError> {
    let settings = serve_settings::read(&args.file)?;
    let name = |what: String| CliError::Usage(format!("{}: {what}", args.file.display()));
    let options = settings.options().map_err(|error| name(error.to_string()))?;
    options.configuration.engine().map_err(|error| name(error.to_string()))?;
    if let Some(files) = &options.tls {
        files.config().map_err(|error| name(format!("TLS: {error}")))?;
    }
    if args.json {
        json::print("configuration", &options.configuration)?;
    } else {
        table::print(&format!("{} can be used", args.file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
