//! Unpacks wheels. Python does it: it is there anyway, and its standard library reads zip files.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::wheels::Part;
use crate::process;

/// Unpacks `parts` of the wheel at `wheel` under `target`, every file checked by its digest.
pub(super) fn unpack(wheel: &Path, parts: &[Part], target: &Path) -> Result<()> {
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("unpack.py")]).arg(wheel);
    for part in parts {
        command.arg(format!("{}={}", part.inside, target.join(part.folder).display()));
    }
    let output = process::capture(&mut command)?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{} is damaged: {}", wheel.display(), told.trim());
    }
    Ok(())
}
