//! `cargo xtask reproduce`: the paper's evaluation, run anew: writes docs/evaluation.md and its
//! pictures.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{process, setup};

/// Options of reproduce.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with the public traces, profiles, throughputs and results; ../shared/reference when
    /// not given
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    /// Folder to write evaluation.md and evaluation/ into; docs when not given
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Reports as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the evaluation; whether it succeeded.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let root = process::root();
    let reference = match &args.reference {
        Some(folder) => std::path::absolute(folder)?,
        None => root.join("../shared/reference"),
    };
    if !reference.is_dir() {
        bail!(
            "the reference folder {} is not there, and nothing can be compared without it: give \
             the folder with the public traces (trace_120_32gpu.csv and others), profiles, \
             throughputs and reference_results.csv with --reference DIR",
            reference.display()
        );
    }
    let output = match &args.output {
        Some(folder) => std::path::absolute(folder)?,
        None => root.join("docs"),
    };
    setup::ensure()?;
    // In the dev profile, which optimises the core as well: so HiGHS is not built a second time.
    let mut build = process::cargo();
    build.args(["build", "--quiet", "--locked", "--workspace", "--bin", "shockwave"]);
    if !process::succeeds(&mut build)? {
        return Ok(false);
    }
    let mut shockwave = Command::new(root.join("target/debug/shockwave"));
    shockwave.args(["reproduce", "--reference"]).arg(reference).arg("--output").arg(output);
    if args.json {
        shockwave.arg("--json");
    }
    process::succeeds(&mut shockwave)
}
