//! A copy of a store in use, by SQLite's backup interface.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::{LogReader, StoreError};
use crate::files::{MODE_PRIVATE, at, make_folder, sync_folder};

/// Copies a store into a folder that must not exist yet; returns the last record's number and the
/// size in bytes.
///
/// # Errors
/// When the folder exists, or the copy cannot be made; what was begun is left for inspection.
pub fn copy(database: &Path, folder: &Path) -> Result<(u64, u64), StoreError> {
    if folder.exists() {
        let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Ok(at("create", folder, Err(error))?);
    }
    make_folder(folder)?;
    let target = folder.join("shockwave.db");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(MODE_PRIVATE);
    at("create", &target, options.open(&target).map(drop))?;
    let source = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    source.busy_timeout(Duration::from_secs(5))?;
    let mut copy = Connection::open(&target)?;
    // In one step: a read transaction of its own, beside which the writer goes on. Copied in parts
    // it would begin again at every write.
    Backup::new(&source, &mut copy)?.step(-1)?;
    drop(copy);
    at("sync", &target, std::fs::File::open(&target).and_then(|file| file.sync_all()))?;
    sync_folder(folder)?;
    let size_bytes = at("measure", &target, std::fs::metadata(&target))?.len();
    Ok((LogReader::open(&target)?.last_number()?, size_bytes))
}
