//! Downloads pinned wheels with pip.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::wheels::{Set, Wheel};
use crate::process;

/// How pip says that it could not reach anything.
const UNREACHABLE: [&str; 8] = [
    "NewConnectionError",
    "NameResolutionError",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "Connection refused",
    "ConnectTimeoutError",
    "ProxyError",
];

/// Downloads the wheels of a set into `folder/wheels`, checked by their digests.
///
/// # Errors
/// No pip, no network, or a wheel that is not the pinned one: one sentence each.
pub(super) fn download(set: &Set, folder: &Path) -> Result<Vec<PathBuf>> {
    let python = with_pip(folder)?;
    let requirements = folder.join("requirements.txt");
    let lines: Vec<String> = set.wheels.iter().map(Wheel::requirement).collect();
    fs::write(&requirements, lines.join("\n")).context("requirements cannot be written")?;

    let target = folder.join("wheels");
    let mut command = Command::new(&python);
    command.args(["-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]);
    // The tags are fixed, so that every python fetches the very same files.
    command.args(["--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]);
    command.args(["--abi=cp311", "--abi=none"]);
    for glibc in ["2_28", "2_25", "2_18", "2_17"] {
        command.arg(format!("--platform=manylinux_{glibc}_x86_64"));
    }
    command.args(["--platform=manylinux2014_x86_64", "--platform=manylinux2010_x86_64"]);
    command.args(["--retries=2", "--timeout=60", "--disable-pip-version-check", "--no-cache-dir"]);
    command.arg("--dest").arg(&target).arg("--requirement").arg(&requirements);
    // What an interrupted pip leaves behind then lies in the folder that the next set-up removes.
    command.env("TMPDIR", folder).env_remove("PIP_NO_INDEX");
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("pip cannot be started")?;
    let (succeeded, told) = watch(child, set, folder)?;
    if !succeeded {
        bail!(explain(&told));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&target).context("pip has downloaded nothing")? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// A python whose pip works: the system's, or one in a temporary virtual environment.
fn with_pip(folder: &Path) -> Result<PathBuf> {
    let python = PathBuf::from("python3");
    if process::capture(Command::new(&python).arg("--version")).is_err() {
        bail!(
            "python3 is missing: install it, for example with 'apt install python3 python3-venv'"
        );
    }
    let works = |python: &Path| {
        process::stdout_of(Command::new(python).args(["-m", "pip", "--version"])).is_ok()
    };
    if works(&python) {
        return Ok(python);
    }
    let environment = folder.join("venv");
    let made = process::capture(Command::new(&python).args(["-m", "venv"]).arg(&environment))?;
    let inner = environment.join("bin/python");
    if made.status.success() && works(&inner) {
        return Ok(inner);
    }
    bail!(
        "python3 has neither pip nor venv: install one, for example with 'apt install python3-venv' \
         (or set LIBTORCH, CMAKE and LIBCLANG_PATH to installations of your own)"
    )
}

/// Waits for pip with a bar that grows with its folder; whether it succeeded and what it said.
fn watch(mut child: Child, set: &Set, folder: &Path) -> Result<(bool, String)> {
    let size_bytes: u64 = set.wheels.iter().map(|wheel| wheel.size_bytes).sum();
    let bar = ProgressBar::new(size_bytes);
    let style = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}";
    bar.set_style(ProgressStyle::with_template(style).context("the bar's template")?);
    bar.set_message(format!("{} {}", set.name, set.version));
    if bar.is_hidden() {
        eprintln!("downloading {} {} ({} MB)", set.name, set.version, size_bytes / 1_000_000);
    }
    let stderr = child.stderr.take().context("pip's messages are not connected")?;
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        lines.collect::<Vec<_>>().join("\n")
    });
    let status = loop {
        if let Some(status) = child.try_wait().context("pip was lost")? {
            break status;
        }
        bar.set_position(folder_bytes(folder).min(size_bytes));
        std::thread::sleep(Duration::from_millis(200));
    };
    bar.finish_and_clear();
    let told = reader.join().unwrap_or_default();
    Ok((status.success(), told))
}

/// Bytes under a folder that is being written: what vanishes meanwhile counts as nothing.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// One sentence from all that pip says.
fn explain(told: &str) -> String {
    if UNREACHABLE.iter().any(|sign| told.contains(sign)) {
        return "there is no network: set-up downloads about 600 MB once; connect and run \
                'cargo xtask setup' again (or set LIBTORCH, CMAKE and LIBCLANG_PATH to \
                installations of your own)"
            .into();
    }
    if told.contains("DO NOT MATCH THE HASHES") {
        return "a downloaded file is not the expected one (its digest differs): run \
                'cargo xtask setup' again; if it stays so, something between you and the package \
                registry alters files"
            .into();
    }
    let mut errors: Vec<&str> = told.lines().filter(|line| line.starts_with("ERROR")).collect();
    if errors.is_empty() {
        errors = told.lines().collect();
    }
    format!("pip failed: {}", errors.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_become_one_sentence() {
        let offline = "WARNING: Retrying after connection broken by \
                       'NewConnectionError(...)'\nERROR: No matching distribution found";
        assert!(explain(offline).starts_with("there is no network"));
        let altered = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.";
        assert!(explain(altered).starts_with("a downloaded file is not the expected one"));
        let full = "x\nERROR: Could not install: [Errno 28] No space left on device";
        assert_eq!(
            explain(full),
            "pip failed: ERROR: Could not install: [Errno 28] No space left on device"
        );
    }
}
