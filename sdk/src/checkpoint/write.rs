//! Writes one checkpoint folder so that it is either whole or absent.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{HostTensor, MODEL_FILE, STATE_FILE, SUMS_FILE, Snapshot, TRAINING_FILE};
use crate::Error;

/// The SHA-256 sum of a file, in hexadecimal digits.
pub(super) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hasher.update(&buffer[..n]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Makes the entries of a folder durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|f| f.sync_all()).map_err(Error::io("sync", path))
}

fn write_tensors(path: &Path, tensors: &BTreeMap<String, HostTensor>) -> Result<(), Error> {
    // One entry only: the order of several would differ from run to run, and with it the file's bytes. PyTorch's
    // readers look for this one.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(tensors.iter(), Some(metadata), path).map_err(|e| {
        let source = match e {
            safetensors::SafeTensorError::IoError(e) => e,
            other => io::Error::other(other),
        };
        Error::Io { action: "write", path: path.to_owned(), source }
    })
}

fn write_text(path: &Path, text: &[u8]) -> Result<(), Error> {
    let write = || File::create(path)?.write_all(text);
    write().map_err(Error::io("write", path))
}

/// Writes tensors as one plain safetensors file, durably: the file is the old one or the whole new one.
///
/// # Errors
/// [`Error::Io`].
pub fn write_safetensors(path: &Path, tensors: &BTreeMap<String, HostTensor>) -> Result<(), Error> {
    replace(path, |temporary| write_tensors(temporary, tensors))
}

/// Replaces a small file so that it is either the old or the new one, durably.
pub(super) fn replace_file(path: &Path, text: &[u8]) -> Result<(), Error> {
    replace(path, |temporary| write_text(temporary, text))
}

fn replace(path: &Path, write: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    write(&temporary)?;
    File::open(&temporary).and_then(|f| f.sync_all()).map_err(Error::io("sync", &temporary))?;
    fs::rename(&temporary, path).map_err(Error::io("rename", path))?;
    // A bare file name: the folder is the current one.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_folder(parent.unwrap_or(Path::new(".")))
}

/// What was written.
pub(super) struct Written {
    /// Sum of the model file.
    pub model_sha256: String,
    /// Size of all files.
    pub bytes: u64,
}

/// Writes `snapshot` into the new folder `temporary` and renames it to `target`.
pub(super) fn write(
    temporary: &Path,
    target: &Path,
    snapshot: &Snapshot,
) -> Result<Written, Error> {
    fs::create_dir(temporary).map_err(Error::io("create", temporary))?;
    write_tensors(&temporary.join(MODEL_FILE), &snapshot.model)?;
    write_tensors(&temporary.join(TRAINING_FILE), &snapshot.training)?;
    let state = serde_json::to_vec_pretty(&snapshot.state)
        .map_err(|e| Error::io("write", &temporary.join(STATE_FILE))(e.into()))?;
    write_text(&temporary.join(STATE_FILE), &state)?;
    let mut sums = String::new();
    let mut written = Written { model_sha256: String::new(), bytes: 0 };
    for file in [MODEL_FILE, TRAINING_FILE, STATE_FILE] {
        let path = temporary.join(file);
        File::open(&path).and_then(|f| f.sync_all()).map_err(Error::io("sync", &path))?;
        let sum = sha256_of(&path).map_err(Error::io("read", &path))?;
        sums.push_str(&format!("{sum}  {file}\n"));
        let length = fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        written.bytes += length;
        if file == MODEL_FILE {
            written.model_sha256 = sum;
        }
    }
    let path = temporary.join(SUMS_FILE);
    write_text(&path, sums.as_bytes())?;
    File::open(&path).and_then(|f| f.sync_all()).map_err(Error::io("sync", &path))?;
    sync_folder(temporary)?;
    fs::rename(temporary, target).map_err(Error::io("rename", target))?;
    sync_folder(target.parent().unwrap_or(Path::new(".")))?;
    Ok(written)
}
