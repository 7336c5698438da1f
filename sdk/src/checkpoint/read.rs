//! Reads one checkpoint folder and verifies it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use sha2::{Digest, Sha256};

use super::{HostTensor, MODEL_FILE, Name, STATE_FILE, SUMS_FILE, Snapshot, TRAINING_FILE};
use crate::Error;

/// A checkpoint that was read and verified.
#[derive(Debug)]
pub struct Loaded {
    /// Its name.
    pub name: Name,
    /// Its folder.
    pub path: PathBuf,
    /// SHA-256 of the model file, in hexadecimal digits.
    pub sha256: String,
    /// Its contents.
    pub snapshot: Snapshot,
}

fn corrupt(path: &Path, reason: impl Into<String>) -> Error {
    Error::Corrupt { path: path.to_owned(), reason: reason.into() }
}

fn tensors(folder: &Path, file: &str, bytes: &[u8]) -> Result<BTreeMap<String, HostTensor>, Error> {
    let parsed = SafeTensors::deserialize(bytes)
        .map_err(|e| corrupt(folder, format!("{file} is no safetensors file: {e}")))?;
    Ok(parsed.iter().map(|(name, view)| (name.to_owned(), HostTensor::from_view(&view))).collect())
}

/// The bytes of each of the checkpoint's files, verified against `SHA256SUMS`, and the model file's sum.
fn verified_files(folder: &Path) -> Result<([Vec<u8>; 3], String), Error> {
    let read = |file: &str| {
        fs::read(folder.join(file)).map_err(|e| corrupt(folder, format!("cannot read {file}: {e}")))
    };
    let sums = String::from_utf8(read(SUMS_FILE)?)
        .map_err(|_| corrupt(folder, format!("{SUMS_FILE} is not text")))?;
    let mut model_sum = String::new();
    let verified = |file: &str, model_sum: &mut String| {
        let bytes = read(file)?;
        let sum: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        if !sums.lines().any(|line| line == format!("{sum}  {file}")) {
            return Err(corrupt(folder, format!("{file} does not have its SHA-256 sum")));
        }
        if file == MODEL_FILE {
            *model_sum = sum;
        }
        Ok(bytes)
    };
    let files = [
        verified(MODEL_FILE, &mut model_sum)?,
        verified(TRAINING_FILE, &mut model_sum)?,
        verified(STATE_FILE, &mut model_sum)?,
    ];
    Ok((files, model_sum))
}

/// Reads and verifies the checkpoint in `folder`.
///
/// # Errors
/// [`Error::Corrupt`] says which file is wrong and how.
pub(super) fn read(folder: &Path, name: Name) -> Result<Loaded, Error> {
    let ([model, training, state], sha256) = verified_files(folder)?;
    let snapshot = Snapshot {
        model: tensors(folder, MODEL_FILE, &model)?,
        training: tensors(folder, TRAINING_FILE, &training)?,
        state: serde_json::from_slice(&state)
            .map_err(|e| corrupt(folder, format!("{STATE_FILE} is no JSON: {e}")))?,
    };
    Ok(Loaded { name, path: folder.to_owned(), sha256, snapshot })
}
