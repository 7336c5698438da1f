//! The C++ compiler, and its own headers, which the wheel's libclang comes without.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Item;
use crate::process;

const MISSING: &str = "no C++ compiler was found (tried $CXX, c++, g++, clang++): \
                       install one, for example with 'apt install g++'";

/// Links `.deps/cc-include` to the compiler's include folder.
pub(super) fn lay(deps: &Path) -> Result<Item> {
    let include = include_folder()?;
    let link = deps.join("cc-include");
    let laid_now = fs::read_link(&link).ok().as_deref() != Some(&include);
    if laid_now {
        let fresh = deps.join(".cc-include.new");
        let _ = fs::remove_file(&fresh);
        symlink(&include, &fresh)
            .and_then(|()| fs::rename(&fresh, &link))
            .with_context(|| format!("{} cannot be linked", link.display()))?;
    }
    Ok(Item { name: "compiler", what: include.display().to_string(), laid_now })
}

fn include_folder() -> Result<PathBuf> {
    let own = std::env::var("CXX").ok();
    let usual = ["c++", "g++", "clang++"].map(str::to_owned);
    for compiler in own.into_iter().chain(usual) {
        let asked = process::stdout_of(Command::new(&compiler).arg("-print-file-name=include"));
        let Ok(printed) = asked else { continue };
        let folder = PathBuf::from(printed.trim());
        // A compiler that does not know the file prints the bare name back.
        if folder.join("stddef.h").exists() {
            return Ok(folder);
        }
    }
    bail!(MISSING)
}
