//! Where the workspace lies, and how other programs are started in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Variables that `.cargo/config.toml` sets to folders of the workspace.
const CONFIGURED: [&str; 4] = ["LIBTORCH", "CMAKE", "LIBCLANG_PATH", "C_INCLUDE_PATH"];

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or(manifest.clone(), Path::to_path_buf)
}

/// The value of a variable, unless it is only the default that `.cargo/config.toml` gave it.
pub(crate) fn users_own(name: &str) -> Option<String> {
    let value = env::var(name).ok().filter(|value| !value.is_empty())?;
    let configured = CONFIGURED.contains(&name) && Path::new(&value).starts_with(root());
    (!configured).then_some(value)
}

/// `cargo`, in the root folder.
///
/// What the outer cargo put into this process's environment is taken out again: otherwise the
/// inner one would see "changed" variables and rebuild libtorch's bindings and HiGHS each time that
/// `cargo` and `cargo xtask` take turns.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for name in CONFIGURED {
        if env::var_os(name).is_some() && users_own(name).is_none() {
            command.env_remove(name);
        }
    }
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let inner = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
        if inner.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command with this process's outputs; whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let name = name_of(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{name} cannot be started: is it installed and on PATH?"))?;
    Ok(status.success())
}

/// Runs a command silently and returns what it printed, whether or not it succeeded.
pub(crate) fn capture(command: &mut Command) -> Result<Output> {
    let name = name_of(command);
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name} cannot be started: is it installed and on PATH?"))
}

/// Runs a command silently and returns its standard output.
///
/// # Errors
/// With the command's standard error, when it fails.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
    let output = capture(command)?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}", name_of(command), told.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    name.to_string_lossy().into_owned()
}
