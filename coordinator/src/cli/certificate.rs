//! `shockwave certificate`: certificates for a coordinator that other machines reach.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::connect::{CliError, finish};
use super::{json, table};
use crate::tls;

/// Makes an authority, and certificates for the coordinator and for agents signed by it
#[derive(Debug, Args)]
pub struct CertificateArgs {
    /// Folder for them; made when there is none
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Host name or IP at which others reach the coordinator, besides this machine's own loopback
    /// (repeatable)
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub(super) fn run(args: &CertificateArgs) -> ExitCode {
    finish(make(args))
}

fn make(args: &CertificateArgs) -> Result<ExitCode, CliError> {
    let written = tls::generate(&args.folder, &args.host);
    let written = written.map_err(|error| CliError::Failed(error.to_string()))?;
    if args.json {
        json::print("files", &written)?;
        return Ok(ExitCode::SUCCESS);
    }
    for path in &written {
        table::print(&path.display().to_string())?;
    }
    let folder = args.folder.display();
    table::print(&format!(
        "start with: shockwave serve --tls-certificate {folder}/coordinator.pem --tls-key \
         {folder}/coordinator.key --tls-authority {folder}/ca.pem"
    ))?;
    Ok(ExitCode::SUCCESS)
}
