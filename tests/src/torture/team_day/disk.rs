//! A disk so small that it can be filled.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Its size, bytes: room for a day's log, filled in no time.
const SIZE_BYTES: u64 = 48 << 20;

/// A disk in memory; it is unmounted with this value.
pub(super) struct SmallDisk {
    at: PathBuf,
}

/// A file that takes all the room; it is deleted with this value.
pub(super) struct Filled {
    file: PathBuf,
}

impl SmallDisk {
    /// Mounts one at a folder, which is made; none, with a message, where this account may not.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(super) fn mount(at: &Path) -> Result<Option<Self>> {
        std::fs::create_dir_all(at).with_context(|| at.display().to_string())?;
        let options = format!("size={SIZE_BYTES},mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "shockwave-day"]).arg(at);
        let why = match mount.output() {
            Ok(output) if output.status.success() => {
                return Ok(Some(Self { at: at.to_owned() }));
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("no disk is filled: {why} (mounting a tmpfs takes root)");
        Ok(None)
    }

    /// Fills it to the last byte.
    ///
    /// # Errors
    /// It does not fill up.
    pub(super) fn fill(&self) -> Result<Filled> {
        let filled = Filled { file: self.at.join("filler") };
        let mut file = File::create(&filled.file)?;
        let zeros = vec![0; 4096];
        let mut written = 0;
        while file.write_all(&zeros).is_ok() {
            written += zeros.len() as u64;
            ensure!(written <= SIZE_BYTES, "{} does not fill up", self.at.display());
        }
        Ok(filled)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is about to end may still be there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).output();
    }
}
