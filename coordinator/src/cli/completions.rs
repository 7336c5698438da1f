//! `shockwave completions` and `shockwave man`: made from the command line's own description.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::connect::{CliError, finish};
use super::{Cli, table};

/// Prints a shell's completions of this program's commands and options
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell; for bash: `shockwave completions bash > ~/.local/share/bash-completion/completions/shockwave`
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Writes the manual pages of all commands
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for them; made when there is none, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Runs `completions`.
pub(super) fn run(args: &CompletionsArgs) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shockwave", &mut text);
    let printed = table::print(String::from_utf8_lossy(&text).trim_end());
    finish(printed.map(|()| ExitCode::SUCCESS))
}

/// Runs `man`.
pub(super) fn man(args: &ManArgs) -> ExitCode {
    let made = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.folder));
    finish(made.map(|()| ExitCode::SUCCESS).map_err(|error| {
        let folder = args.folder.display();
        CliError::Failed(format!("cannot write manual pages to {folder}: {error}"))
    }))
}
