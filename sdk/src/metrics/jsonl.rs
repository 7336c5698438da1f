//! `metrics.jsonl`: one record a line, over all processes of a run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::record::{EpochRecord, Record, Stamped};
use crate::Error;

/// The file in the folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("metrics.jsonl")
}

/// Appends records.
#[derive(Debug)]
pub(super) struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Opens the file. A half line of a process that was killed is ended, so that the next stands alone.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let path = path(folder);
        let open = || {
            let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
            let mut last = [b'\n'];
            if file.seek(SeekFrom::End(0))? > 0 {
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
            }
            if last != [b'\n'] {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        let file = open().map_err(Error::io("open", &path))?;
        Ok(Self { file, path })
    }

    /// Writes a line, in one call: a killed process leaves no half of it before another's.
    pub(super) fn write(&mut self, record: &Stamped) -> Result<(), Error> {
        let mut line =
            serde_json::to_vec(record).map_err(|e| Error::io("write", &self.path)(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(Error::io("write", &self.path))
    }
}

/// The epochs of the run whose metrics are in `folder`, each as it was last trained. Lines that cannot be read (of a
/// process that was killed) are left out.
///
/// # Errors
/// [`Error::Io`] when there is no `metrics.jsonl`.
pub fn history(folder: &Path) -> Result<Vec<EpochRecord>, Error> {
    let path = path(folder);
    let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let mut epochs = BTreeMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Stamped { record: Record::Start(place), .. }) => {
                epochs.retain(|epoch, _| *epoch < place.epoch);
            }
            Ok(Stamped { record: Record::Epoch(epoch), .. }) => {
                epochs.insert(epoch.place.epoch, epoch);
            }
            _ => {}
        }
    }
    Ok(epochs.into_values().collect())
}
