//! The mark in the jobs' folder, by which a coordinator and its agents know that they share it.
//!
//! A job goes on elsewhere from its checkpoint in that folder: on a machine that has another folder
//! of the same name it would begin anew, and nobody would notice.

use std::path::Path;

use crate::files::{FileError, at, write_atomic};
use crate::secrets;

/// Name of the file.
pub const FILE: &str = ".shockwave-jobs";

/// The mark of a folder; empty: it has none, or there is no such folder.
#[must_use]
pub fn read(jobs_dir: &Path) -> String {
    std::fs::read_to_string(jobs_dir.join(FILE)).unwrap_or_default().trim().to_owned()
}

/// The mark of a folder, which is made when it has none.
///
/// # Errors
/// The folder cannot be written to.
pub fn make(jobs_dir: &Path) -> Result<String, FileError> {
    let found = read(jobs_dir);
    if !found.is_empty() {
        return Ok(found);
    }
    let mark = secrets::random_hex(16);
    let path = jobs_dir.join(FILE);
    write_atomic(&path, format!("{mark}\n").as_bytes())?;
    // No secret: agents may run under another account.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    at("open for all", &path, std::fs::set_permissions(&path, mode))?;
    Ok(mark)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), "");
        let mark = make(folder.path()).unwrap();
        assert_eq!(mark.len(), 32);
        assert_eq!(make(folder.path()).unwrap(), mark);
        assert_eq!(read(folder.path()), mark);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(make(other.path()).unwrap(), mark);
    }
}
