//! How far the log had come, in a file beside the database: what a damaged database cannot tell.
//!
//! SQLite takes a broken write-ahead log for its end, and an empty file for a new database. The mark
//! is written after each commit, so it never says more than was durable; it is not synced, so it may
//! say less after a power loss, never after a kill.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::files::{FileError, MODE_PRIVATE, at};

/// Name of the file in the state folder.
const FILE: &str = "high-water";
/// Digits of the number: one write of the same length every time.
const WIDTH: usize = 20;

/// The open file.
#[derive(Debug)]
pub(super) struct Mark(File);

impl Mark {
    /// Opens the file beside a database.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(database: &Path) -> Result<Self, FileError> {
        let path = database.with_file_name(FILE);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(MODE_PRIVATE);
        at("open", &path, options.open(&path)).map(Self)
    }

    /// Notes the last durable record. What cannot be written protects nothing, and costs nothing.
    pub(super) fn note(&self, number: u64) {
        let _ = self.0.write_all_at(format!("{number:0WIDTH$}\n").as_bytes(), 0);
    }
}

/// The last record that is known to have been durable; 0: none.
pub(super) fn read(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    text.get(..WIDTH).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Whether a state folder was used before: then its database cannot be new.
pub(super) fn is_used(folder: &Path) -> bool {
    let has_jobs = std::fs::read_dir(folder.join("jobs")).is_ok_and(|mut it| it.next().is_some());
    has_jobs || read(folder) > 0
}
