//! Builds the programs in a copy of the workspace, whose lock names the bindings for another libtorch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::setup::GPU_BINDINGS;

/// Builds `programs` against `libtorch`, under the folder `own`; where each lies.
pub(super) fn programs(own: &Path, libtorch: &Path, programs: &[&str]) -> Result<Vec<PathBuf>> {
    let source = own.join("source");
    copy_sources(&source)?;
    choose_bindings(&source)?;
    eprintln!("building {} for libtorch in {}", programs.join(", "), libtorch.display());
    let target = own.join("target");
    let mut cargo = cargo_in(&source, libtorch);
    cargo.args(["build", "--release", "--locked", "--package", "shockwave-examples"]);
    cargo.args(programs.iter().flat_map(|name| ["--bin", name]));
    cargo.env("CARGO_TARGET_DIR", &target);
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols").env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    // What the CUDA code itself is linked with lies on the other machine.
    cargo.env("RUSTFLAGS", "-C link-arg=-Wl,--allow-shlib-undefined");
    if !process::succeeds(&mut cargo)? {
        bail!("the programs for GPUs cannot be built: see above");
    }
    Ok(programs.iter().map(|name| target.join("release").join(name)).collect())
}

/// `cargo` in the copy, with the libtorch for GPUs and nothing of the machine's own.
fn cargo_in(source: &Path, libtorch: &Path) -> Command {
    let mut cargo = process::cargo();
    cargo.current_dir(source).env("LIBTORCH", libtorch);
    cargo.env("SHOCKWAVE_CUDA_INCLUDE", libtorch.join("cuda/include"));
    for other in ["LIBTORCH_USE_PYTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_STATIC"] {
        cargo.env_remove(other);
    }
    cargo
}

/// Copies what git tracks or would track. A file that is the same stays as it is, so that a second build is short.
fn copy_sources(source: &Path) -> Result<()> {
    let root = process::root();
    let mut git = Command::new("git");
    git.current_dir(&root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let listed = process::stdout_of(&mut git).context("the list of files comes from git")?;
    let wanted: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    remove_others(source, source, &wanted)?;
    for path in wanted.iter().filter(|path| **path != "Cargo.lock") {
        let (from, to) = (root.join(path), source.join(path));
        // Listed but deleted.
        let Ok(fresh) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|old| old == fresh) {
            continue;
        }
        let failed = || format!("{} cannot be copied", from.display());
        fs::create_dir_all(to.parent().unwrap_or(source)).with_context(failed)?;
        fs::copy(&from, &to).with_context(failed)?;
    }
    Ok(())
}

/// Removes files of an earlier copy that are no more, but for its lock.
fn remove_others(folder: &Path, source: &Path, wanted: &[&str]) -> Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        let inside = path.strip_prefix(source)?.to_string_lossy().into_owned();
        if path.is_dir() {
            remove_others(&path, source, wanted)?;
        } else if inside != "Cargo.lock" && !inside.starts_with("Cargo.lock.") {
            let gone = !wanted.contains(&inside.as_str());
            if gone {
                fs::remove_file(&path)
                    .with_context(|| format!("{} cannot be removed", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Gives the copy a lock of its own: the workspace's, with the bindings for the other libtorch. Made anew only when the
/// workspace's has changed.
fn choose_bindings(source: &Path) -> Result<()> {
    let (lock, of) = (source.join("Cargo.lock"), source.join("Cargo.lock.of"));
    let workspaces = fs::read(process::root().join("Cargo.lock")).context("Cargo.lock")?;
    if lock.exists() && fs::read(&of).is_ok_and(|old| old == workspaces) {
        return Ok(());
    }
    fs::write(&lock, &workspaces)
        .with_context(|| format!("{} cannot be written", lock.display()))?;
    for package in ["tch", "torch-sys"] {
        let mut cargo = process::cargo();
        cargo.current_dir(source);
        cargo.args(["update", "--quiet", "--package", package, "--precise", GPU_BINDINGS]);
        process::stdout_of(&mut cargo)
            .with_context(|| format!("{package} {GPU_BINDINGS} cannot be locked"))?;
    }
    fs::write(&of, &workspaces).with_context(|| format!("{} cannot be written", of.display()))
}
