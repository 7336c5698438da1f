//! The folder that holds a run's checkpoints.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Loaded, Name, Snapshot, read, write};
use crate::Error;

/// Pauses before the second and third attempt to write a checkpoint.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// Damaged checkpoints that are kept for a look; older ones are removed.
const KEPT_CORRUPT: usize = 2;

/// A checkpoint that was written durably.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Its name.
    pub name: Name,
    /// Its folder.
    pub path: PathBuf,
    /// SHA-256 of the model file, in hexadecimal digits.
    pub sha256: String,
    /// Size of all its files.
    pub size_bytes: u64,
}

/// The checkpoint with the best value of a metric; it is never removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The checkpoint's folder name.
    pub checkpoint: String,
    /// The metric.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

/// File that names the best checkpoint.
const BEST_FILE: &str = "best.json";

/// The checkpoints of one run.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep_last: usize,
}

impl Checkpoints {
    /// Uses `folder` (created if need be) and keeps the newest `keep_last` checkpoints in it.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder cannot be made; [`Error::Invalid`] when nothing would be kept.
    pub fn new(folder: impl Into<PathBuf>, keep_last: usize) -> Result<Self, Error> {
        let folder = folder.into();
        if keep_last == 0 {
            return Err(Error::invalid("the number of kept checkpoints", 0, "at least one"));
        }
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        Ok(Self { folder, keep_last })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names in the folder.
    fn entries(&self) -> Result<Vec<String>, Error> {
        let read = fs::read_dir(&self.folder).map_err(Error::io("list", &self.folder))?;
        Ok(read.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect())
    }

    /// All checkpoints, newest first, damaged ones among them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self) -> Result<Vec<Name>, Error> {
        let mut names: Vec<Name> = self.entries()?.iter().filter_map(|e| Name::parse(e)).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    /// The best checkpoint, if one was marked.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file that names it is damaged.
    pub fn best(&self) -> Result<Option<Best>, Error> {
        let path = self.folder.join(BEST_FILE);
        let text = match fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io("read", &path))?,
        };
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|e| Error::Corrupt { path, reason: e.to_string() })
    }

    /// Marks `name` as the best checkpoint, durably.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn mark_best(&self, name: Name, metric: &str, value: f64) -> Result<(), Error> {
        let best = Best { checkpoint: name.to_string(), metric: metric.to_owned(), value };
        let path = self.folder.join(BEST_FILE);
        let text =
            serde_json::to_vec_pretty(&best).map_err(|e| Error::io("write", &path)(e.into()))?;
        write::replace_file(&path, &text)
    }

    /// Where the checkpoint `name` lies.
    pub fn path(&self, name: Name) -> PathBuf {
        self.folder.join(name.to_string())
    }

    /// Reads and verifies one checkpoint.
    ///
    /// # Errors
    /// [`Error::Corrupt`] says what is wrong with it.
    pub fn load(&self, name: Name) -> Result<Loaded, Error> {
        read::read(&self.path(name), name)
    }

    /// The newest checkpoint that can be read; `None` when there is none at all. A damaged one is put aside, with a
    /// warning, and the one before is used.
    ///
    /// # Errors
    /// [`Error::NoUsableCheckpoint`] when there are some but all are damaged: a run never silently starts anew.
    pub fn load_newest(&self) -> Result<Option<Loaded>, Error> {
        let names = self.list()?;
        let mut newest = None;
        for &name in &names {
            match self.load(name) {
                Ok(loaded) => {
                    if newest.is_some() {
                        self.set_aside_newer(name)?;
                        let folder = loaded.path.display();
                        crate::progress::warn(format_args!(
                            "resuming from the checkpoint before: {folder}"
                        ));
                    }
                    return Ok(Some(loaded));
                }
                Err(error) => {
                    crate::progress::warn(format_args!("{error}"));
                    newest.get_or_insert(error.to_string());
                }
            }
        }
        let Some(newest) = newest else { return Ok(None) };
        Err(Error::NoUsableCheckpoint { folder: self.folder.clone(), count: names.len(), newest })
    }

    /// Puts the damaged checkpoints newer than `name` aside, under a name that is not a checkpoint's.
    fn set_aside_newer(&self, name: Name) -> Result<(), Error> {
        for newer in self.list()?.into_iter().filter(|&n| n > name) {
            let (from, to) = (self.path(newer), self.folder.join(format!("{newer}.corrupt")));
            remove(&to)?;
            fs::rename(&from, &to).map_err(Error::io("rename", &from))?;
        }
        Ok(())
    }

    /// Writes a checkpoint durably, then removes those that need not be kept. A failed write is tried three times in
    /// all; checkpoints that exist are not touched by it.
    ///
    /// # Errors
    /// [`Error::Io`] of the last attempt.
    pub fn save(&self, name: Name, snapshot: &Snapshot) -> Result<Saved, Error> {
        let mut pauses = RETRY_PAUSES.iter();
        loop {
            match self.try_save(name, snapshot) {
                Ok(saved) => {
                    if let Err(error) = self.prune(name) {
                        crate::progress::warn(format_args!("old checkpoints stay: {error}"));
                    }
                    return Ok(saved);
                }
                Err(error) => {
                    let Some(pause) = pauses.next() else { return Err(error) };
                    crate::progress::warn(format_args!(
                        "checkpoint not written, trying again: {error}"
                    ));
                    std::thread::sleep(*pause);
                }
            }
        }
    }

    fn try_save(&self, name: Name, snapshot: &Snapshot) -> Result<Saved, Error> {
        fs::create_dir_all(&self.folder).map_err(Error::io("create", &self.folder))?;
        let path = self.path(name);
        let temporary = self.folder.join(format!(".tmp-{name}-{}", std::process::id()));
        remove(&temporary)?;
        let written = write::write(&temporary, &path, snapshot).inspect_err(|_| {
            // What is left is removed at the next start at the latest.
            let _ = remove(&temporary);
        })?;
        Ok(Saved { name, path, sha256: written.model_sha256, size_bytes: written.bytes })
    }

    /// Removes all but the newest checkpoints, of generations up to `newest`'s.
    fn prune(&self, newest: Name) -> Result<(), Error> {
        let own = self.list()?.into_iter().filter(|n| *n <= newest);
        let best = self.best()?.map(|b| b.checkpoint);
        for old in own.skip(self.keep_last).filter(|n| best != Some(n.to_string())) {
            // Renamed first, so that a crash in the middle of the removal leaves no half checkpoint.
            let going = self.folder.join(format!(".old-{old}-{}", std::process::id()));
            fs::rename(self.path(old), &going).map_err(Error::io("rename", &self.path(old)))?;
            remove(&going)?;
        }
        let mut corrupt: Vec<String> =
            self.entries()?.into_iter().filter(|e| e.ends_with(".corrupt")).collect();
        corrupt.sort_unstable();
        let surplus = corrupt.len().saturating_sub(KEPT_CORRUPT);
        corrupt.iter().take(surplus).try_for_each(|e| remove(&self.folder.join(e)))
    }

    /// Removes what interrupted writes and removals left behind. Call it before training, by the lease's holder.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clean(&self) -> Result<(), Error> {
        let left = |e: &String| e.starts_with(".tmp-ckpt-") || e.starts_with(".old-ckpt-");
        self.entries()?.iter().filter(|e| left(e)).try_for_each(|e| remove(&self.folder.join(e)))
    }
}

/// Removes a folder with its contents, if it exists.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
        _ => Ok(()),
    }
}
