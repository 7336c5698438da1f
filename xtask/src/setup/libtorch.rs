//! A user's own libtorch: by `LIBTORCH`, or the one of their python by `LIBTORCH_USE_PYTORCH=1`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// The libtorch that the bindings in Cargo.lock are made for.
const LOCKED: (u32, u32) = (2, 13);
/// Older ones that work once Cargo.lock names the bindings made for them.
const OLDER: [((u32, u32), &str); 2] = [((2, 12), "0.25.0"), ((2, 11), "0.24.0")];

/// Where the user's own libtorch lies and its version, or nothing when there is none.
///
/// # Errors
/// When it is not there, or of a version that the bindings do not know.
pub(super) fn users_own() -> Result<Option<String>> {
    // As torch-sys does: this wins over LIBTORCH, whatever its value.
    if std::env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        let version = pythons_version()?;
        check(&version, "LIBTORCH_USE_PYTORCH is set, and python's torch")?;
        return Ok(Some(format!("{version} of python")));
    }
    let Some(folder) = process::users_own("LIBTORCH") else { return Ok(None) };
    let version = folders_version(Path::new(&folder))?;
    check(&version, &format!("LIBTORCH={folder}"))?;
    Ok(Some(format!("{version} in {folder}")))
}

/// The folder of the libraries of the libtorch in use.
pub(super) fn libraries(deps: &Path) -> Option<PathBuf> {
    if std::env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        let find = "import torch, os; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))";
        let printed = process::stdout_of(Command::new(python()).args(["-c", find])).ok()?;
        return Some(PathBuf::from(printed.trim()));
    }
    let folder = process::users_own("LIBTORCH").map_or(deps.join("libtorch"), PathBuf::from);
    Some(folder.join("lib"))
}

/// The python that torch-sys asks.
fn python() -> &'static str {
    if std::env::var_os("VIRTUAL_ENV").is_some() { "python" } else { "python3" }
}

fn pythons_version() -> Result<String> {
    let python = python();
    let mut command = Command::new(python);
    match process::stdout_of(command.args(["-c", "import torch; print(torch.__version__)"])) {
        Ok(printed) => Ok(printed.trim().to_owned()),
        Err(error) => {
            // The last line of python's traceback says what it is.
            let told = error.to_string();
            let reason = told.lines().last().unwrap_or_default();
            bail!(
                "LIBTORCH_USE_PYTORCH is set, but {python} cannot import torch ({reason}): install \
                 torch {}.{}, or unset the variable",
                LOCKED.0,
                LOCKED.1
            )
        }
    }
}

/// The version of the libtorch in a folder, from its version file or its headers.
fn folders_version(folder: &Path) -> Result<String> {
    let library = ["libtorch_cpu.so", "libtorch_cpu.dylib"];
    if !library.iter().any(|name| folder.join("lib").join(name).exists()) {
        bail!(
            "LIBTORCH={}: there is no lib/libtorch_cpu.so in it; it must be the folder that holds \
             libtorch's include and lib (or unset it, and set-up lays one)",
            folder.display()
        );
    }
    if let Ok(version) = fs::read_to_string(folder.join("build-version")) {
        return Ok(version.trim().to_owned());
    }
    for header in ["torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"] {
        let Ok(text) = fs::read_to_string(folder.join("include").join(header)) else { continue };
        if let Some(version) = version_in_header(&text) {
            return Ok(version);
        }
    }
    bail!(
        "LIBTORCH={}: neither build-version nor include/torch/headeronly/version.h tells its version",
        folder.display()
    )
}

fn version_in_header(text: &str) -> Option<String> {
    let number = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("#define {name} ")))?;
        line.split_whitespace().nth(2)?.parse::<u32>().ok()
    };
    let (major, minor) = (number("TORCH_VERSION_MAJOR")?, number("TORCH_VERSION_MINOR")?);
    Some(format!("{major}.{minor}.{}", number("TORCH_VERSION_PATCH")?))
}

/// Accepts what the bindings in Cargo.lock are made for.
fn check(version: &str, whose: &str) -> Result<()> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let found = (numbers.next().flatten().unwrap_or(0), numbers.next().flatten().unwrap_or(0));
    let locked = locked_bindings();
    if bindings_for(found).is_some_and(|wanted| locked.starts_with(&wanted[..4])) {
        return Ok(());
    }
    match bindings_for(found) {
        Some(bindings) => bail!(
            "{whose} is libtorch {version}; Cargo.lock has the bindings for another one: run \
             'cargo update -p tch --precise {bindings} && cargo update -p torch-sys --precise \
             {bindings}' once, then again"
        ),
        None => bail!(
            "{whose} is libtorch {version}; 2.11, 2.12 and 2.13 are supported: point LIBTORCH at \
             one of them, or unset it and set-up lays {}.{}",
            LOCKED.0,
            LOCKED.1
        ),
    }
}

/// The version of the bindings for a libtorch.
fn bindings_for(libtorch: (u32, u32)) -> Option<&'static str> {
    if libtorch == LOCKED {
        return Some("0.26.0");
    }
    OLDER.iter().find(|(version, _)| *version == libtorch).map(|(_, bindings)| *bindings)
}

/// The version of tch in Cargo.lock.
fn locked_bindings() -> String {
    let lock = fs::read_to_string(process::root().join("Cargo.lock")).unwrap_or_default();
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"tch\"");
    let version = lines.nth(1).unwrap_or_default();
    version.trim_start_matches("version = ").trim_matches('"').to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_headers() {
        let header = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n\
                      #define TORCH_VERSION_PATCH 1\n";
        assert_eq!(version_in_header(header).as_deref(), Some("2.11.1"));
        assert_eq!(version_in_header("#define TORCH_VERSION_MAJOR x"), None);
    }

    #[test]
    fn wrong_versions_are_named() {
        let error = check("2.9.1+cpu", "LIBTORCH=/opt/torch").unwrap_err().to_string();
        assert!(
            error.starts_with("LIBTORCH=/opt/torch is libtorch 2.9.1+cpu; 2.11, 2.12 and 2.13")
        );
    }

    #[test]
    fn folder_without_libtorch_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = folders_version(folder.path()).unwrap_err().to_string();
        assert!(error.contains("there is no lib/libtorch_cpu.so in it"), "{error}");
    }
}
