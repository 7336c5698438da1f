//! `cargo xtask setup`: lays libtorch, cmake and libclang in the ignored folder `.deps`.
//!
//! Needs Rust, a C++ compiler and python3 with pip or venv; no root. Each item is laid in a
//! temporary folder and renamed when complete, under a lock: interrupted, repeated and concurrent
//! set-ups are safe. `.cargo/config.toml` points the build scripts at the result.

mod compiler;
mod libtorch;
mod pip;
pub(crate) mod slurm;
mod unpack;
mod wheels;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process;

/// Options of the set-up.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Prints one JSON object at the end, nothing else on standard output
    #[arg(long)]
    json: bool,
}

/// What was laid, or found.
#[derive(Debug, Serialize)]
struct Item {
    name: &'static str,
    /// Version, or where a user's own lies.
    what: String,
    /// Whether this run has laid it.
    laid_now: bool,
}

/// Runs the set-up and says what it has laid.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let items = lay()?;
    if args.json {
        println!("{}", serde_json::json!({ "items": items }));
        return Ok(true);
    }
    for item in &items {
        let state = if item.laid_now { "laid" } else { "ready" };
        println!("{:10} {state:6} {}", item.name, item.what);
    }
    Ok(true)
}

/// Makes everything ready that the build needs, before another task.
pub(crate) fn ensure() -> Result<()> {
    lay().map(|_| ())
}

/// The folder of libtorch's libraries, where doc tests must be told of it: they are linked without
/// the search path that the packages' other programs get.
pub(crate) fn library_path() -> Option<PathBuf> {
    libtorch::libraries(&process::root().join(".deps"))
}

/// The version of tch and torch-sys that is made for [`lay_gpu`]'s libtorch.
pub(crate) const GPU_BINDINGS: &str = "0.24.0";

/// Lays the libtorch with which programs for GPUs are built (about 730 MB to download, once), and says where it lies and
/// its version.
pub(crate) fn lay_gpu() -> Result<(PathBuf, &'static str)> {
    let set = &wheels::LIBTORCH_GPU;
    let (deps, _lock) = locked()?;
    compiler::lay(&deps)?;
    if !set.is_laid(&deps) {
        set.lay(&deps).with_context(|| format!("{} cannot be laid", set.name))?;
    }
    Ok((deps.join(set.name), set.version))
}

/// The folder `.deps`, with nothing half done in it, and the lock on it.
fn locked() -> Result<(PathBuf, File)> {
    let deps = process::root().join(".deps");
    fs::create_dir_all(&deps).with_context(|| format!("{} cannot be made", deps.display()))?;
    let lock = File::create(deps.join(".lock")).context(".deps/.lock cannot be opened")?;
    lock.lock().context(".deps/.lock cannot be taken")?;
    remove_left_overs(&deps)?;
    Ok((deps, lock))
}

fn lay() -> Result<Vec<Item>> {
    let (deps, _lock) = locked()?;
    let mut items = vec![compiler::lay(&deps)?];
    let mut wanted = Vec::new();
    for tool in wheels::TOOLS {
        match process::users_own(tool.variable) {
            Some(path) => items.push(Item { name: tool.name, what: path, laid_now: false }),
            None => wanted.push(tool),
        }
    }
    match libtorch::users_own()? {
        Some(found) => items.push(Item { name: "libtorch", what: found, laid_now: false }),
        None => wanted.push(&wheels::LIBTORCH),
    }
    for set in wanted {
        let laid_now = !set.is_laid(&deps);
        if laid_now {
            set.lay(&deps).with_context(|| format!("{} cannot be laid", set.name))?;
        }
        items.push(Item { name: set.name, what: set.version.to_owned(), laid_now });
    }
    Ok(items)
}

/// Removes the temporary folders of interrupted set-ups: the lock is held, nobody uses them.
fn remove_left_overs(deps: &Path) -> Result<()> {
    for entry in fs::read_dir(deps).context(".deps cannot be read")? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(".tmp-") {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("{} cannot be removed", entry.path().display()))?;
        }
    }
    Ok(())
}
