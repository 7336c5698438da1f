//! Notes which samples were trained on.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use shockwave_sdk::Error;
use shockwave_sdk::data::{Batch, Dataset, Draw};
use shockwave_sdk::session::Epoch;

/// A log that may be off. Over all processes of an interrupted run it shows whether every sample was
/// trained on exactly once in each epoch.
#[derive(Debug, Clone)]
pub struct SampleLog(Option<Arc<File>>);

impl SampleLog {
    /// Opens the file for appending; without one the log is off.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("--sample-log {}", path.display()))?;
        Ok(Self(Some(Arc::new(file))))
    }

    /// A data set whose training batches are noted: `batch 17,4,96`.
    pub fn watch<D: Dataset>(&self, inner: D) -> Logged<D> {
        Logged { inner, log: self.clone() }
    }

    /// Notes where an epoch begins or goes on, `epoch 3 done 96`, and passes it through.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn epoch(&self, epoch: Option<Epoch>) -> std::io::Result<Option<Epoch>> {
        if let Some(Epoch { index, done, .. }) = epoch {
            self.line(|| format!("epoch {index} done {done}\n"))?;
        }
        Ok(epoch)
    }

    /// One write for a whole line: a killed process leaves no half line before another's.
    fn line(&self, line: impl FnOnce() -> String) -> std::io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        file.as_ref().write_all(line().as_bytes())
    }
}

/// A data set with a log.
#[derive(Debug)]
pub struct Logged<D> {
    inner: D,
    log: SampleLog,
}

impl<D: Dataset> Dataset for Logged<D> {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        self.inner.batch(indices)
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        let line = || {
            let indices: Vec<String> = indices.iter().map(ToString::to_string).collect();
            format!("batch {}\n", indices.join(","))
        };
        self.log.line(line).map_err(|error| Error::Data(format!("sample log: {error}")))?;
        self.inner.training_batch(indices, draw)
    }
}
