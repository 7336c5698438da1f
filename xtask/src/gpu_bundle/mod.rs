//! `cargo xtask gpu-bundle`: the checks of the SDK on a GPU, packed for a machine that has one.
//!
//! The programs are built here against libtorch 2.11 with CUDA 13, without a GPU. The other machine needs that libtorch
//! (or PyTorch 2.11) and NVIDIA's driver, but no compiler, no Rust and no network: `run` finds libtorch, runs
//! `device_check` and leaves its rows in a folder.

mod build;
mod pack;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{process, setup};

/// Options of gpu-bundle.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the bundle is laid, as a folder and as a .tar.gz beside it [default:
    /// target/gpu-bundle/shockwave-gpu]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The programs that travel: the checks, and a training program to try.
const PROGRAMS: [&str; 2] = ["device_check", "resnet_cifar"];

/// Builds and packs; an error says what is missing.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let (libtorch, version) = setup::lay_gpu()?;
    let own = process::root().join("target/gpu-bundle");
    fs::create_dir_all(&own).with_context(|| format!("{} cannot be made", own.display()))?;
    let built = build::programs(&own, &libtorch, &PROGRAMS)?;
    let folder = args.folder.clone().unwrap_or_else(|| own.join("shockwave-gpu"));
    let bundle = pack::pack(&built, &folder, version)?;
    println!("{}: {:.1} MB", bundle.folder.display(), megabytes(bundle.folder_bytes));
    println!("{}: {:.1} MB", bundle.archive.display(), megabytes(bundle.archive_bytes));
    println!(
        "on a machine with a GPU and libtorch {version} for CUDA 13: unpack it, then ./{}/run RESULTS",
        name(&folder)
    );
    Ok(true)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The last part of a path.
fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
