//! What a run leaves for people and their tools: JSON lines, TensorBoard's event files, Prometheus's text format, and a
//! picture of the learning curve at the end.
//!
//! A thread of its own writes them, from numbers that the session has read anyway: no step waits for a disk, and a disk
//! that fails costs the files, not the training.
//!
//! ```text
//! metrics.jsonl             one record a line, see [`Record`]; a process that resumes goes on in it
//! events.out.tfevents.*     TensorBoard: tensorboard --logdir FOLDER
//! metrics.prom              the newest numbers, for Prometheus's node exporter (its textfile collector)
//! curve.svg                 loss, metrics, batch size and noise scale over the epochs
//! ```

mod crc32c;
mod curve;
mod jsonl;
mod prometheus;
mod record;
mod tensorboard;
mod writer;

pub use jsonl::history;
pub use record::{EpochRecord, Place, Record, Stamped};
pub(crate) use writer::Recorder;

use std::path::PathBuf;

use crate::Error;

/// Names the folder, where the program does not.
pub const FOLDER_VARIABLE: &str = "SHOCKWAVE_METRICS_DIR";
/// Chooses the files, separated by commas: `tensorboard`, `prometheus`, `curve`. JSON lines are always written.
pub const FILES_VARIABLE: &str = "SHOCKWAVE_METRICS";

/// Where a run's metrics are written, and in which formats (all, unless told otherwise).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsFiles {
    folder: PathBuf,
    tensorboard: bool,
    prometheus: bool,
    curve: bool,
}

impl<P: Into<PathBuf>> From<P> for MetricsFiles {
    fn from(folder: P) -> Self {
        Self::new(folder)
    }
}

impl MetricsFiles {
    /// All files, in `folder` (created if need be).
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), tensorboard: true, prometheus: true, curve: true }
    }

    /// Whether TensorBoard's event file is written.
    #[must_use]
    pub fn tensorboard(mut self, write: bool) -> Self {
        self.tensorboard = write;
        self
    }

    /// Whether Prometheus's text file is written.
    #[must_use]
    pub fn prometheus(mut self, write: bool) -> Self {
        self.prometheus = write;
        self
    }

    /// Whether the picture is drawn at the end.
    #[must_use]
    pub fn curve(mut self, draw: bool) -> Self {
        self.curve = draw;
        self
    }

    /// What the environment asks for: [`FOLDER_VARIABLE`] and [`FILES_VARIABLE`].
    ///
    /// # Errors
    /// [`Error::Invalid`] names a format that does not exist.
    pub fn from_env() -> Result<Option<Self>, Error> {
        let get = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::from_variables(get(FOLDER_VARIABLE), get(FILES_VARIABLE))
    }

    fn from_variables(
        folder: Option<String>,
        files: Option<String>,
    ) -> Result<Option<Self>, Error> {
        let Some(folder) = folder else { return Ok(None) };
        let mut chosen = Self::new(folder);
        let Some(files) = files else { return Ok(Some(chosen)) };
        chosen = chosen.tensorboard(false).prometheus(false).curve(false);
        for name in files.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "tensorboard" => chosen.tensorboard = true,
                "prometheus" => chosen.prometheus = true,
                "curve" => chosen.curve = true,
                "jsonl" => {}
                other => {
                    let expected = "jsonl, tensorboard, prometheus and curve, separated by commas";
                    return Err(Error::invalid(FILES_VARIABLE, format!("'{other}'"), expected));
                }
            }
        }
        Ok(Some(chosen))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_folder_and_files() {
        let read = |folder: Option<&str>, files: Option<&str>| {
            MetricsFiles::from_variables(folder.map(Into::into), files.map(Into::into))
        };
        assert_eq!(read(None, Some("curve")).unwrap(), None);
        assert_eq!(read(Some("a"), None).unwrap(), Some(MetricsFiles::new("a")));
        let only = MetricsFiles::new("a").tensorboard(false).prometheus(false);
        assert_eq!(read(Some("a"), Some("jsonl, curve")).unwrap(), Some(only));
        let error = read(Some("a"), Some("csv")).unwrap_err().to_string();
        assert!(error.starts_with("SHOCKWAVE_METRICS is 'csv'; expected jsonl"), "{error}");
    }
}
