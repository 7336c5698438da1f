//! What a simulation reads: a trace, profiles, throughputs.

use std::path::{Path, PathBuf};

use clap::Args;
use shockwave_core::policies::PolicyError;
use shockwave_core::simulator::profiles::{Profiles, Throughputs};
use shockwave_core::simulator::{InputError, Workload};

/// What can be wrong with a simulation's input.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file whose content cannot be.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file or folder.
        path: PathBuf,
        /// Line, column, and what would be right.
        source: InputError,
    },
    /// A policy that cannot be.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A predictor that does not exist.
    #[error("there is no predictor `{got}`, expected one of {known}")]
    Predictor {
        /// What was asked for.
        got: String,
        /// What exists.
        known: String,
    },
    /// An option that cannot be.
    #[error("{option}: got {got}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// What was given.
        got: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A simulation that cannot go on.
    #[error(transparent)]
    Product(#[from] shockwave_core::simulator::product::ProductError),
    /// A picture that cannot be drawn.
    #[error(transparent)]
    Figure(#[from] crate::figures::FigureError),
    /// A job that the cluster can never run.
    #[error("job {id} needs {gpus} GPUs, expected at most the cluster's {cluster}")]
    TooLarge {
        /// The job.
        id: u64,
        /// Its gang.
        gpus: u32,
        /// The cluster.
        cluster: u32,
    },
}

/// Where a workload comes from.
#[derive(Clone, Debug, Args)]
pub struct Source {
    /// The trace: a CSV file (columns in docs/simulator.md).
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Folder with datasets.csv, gns_rules.csv and accordion_rules.csv.
    #[arg(long, value_name = "DIR")]
    pub profiles: PathBuf,
    /// Steps per second by model, batch size and gang size: a CSV file.
    #[arg(long, value_name = "FILE")]
    pub throughputs: PathBuf,
}

impl Source {
    /// Reads everything and joins it.
    ///
    /// # Errors
    /// [`SimulationError`] names the file, line and column.
    pub fn load(&self) -> Result<Workload, SimulationError> {
        let profiles = load_profiles(&self.profiles)?;
        let throughputs = load_throughputs(&self.throughputs)?;
        let content = |source| SimulationError::Content { path: self.trace.clone(), source };
        Workload::parse(&read(&self.trace)?, &profiles, &throughputs).map_err(content)
    }
}

/// Reads the three profile tables of a folder.
///
/// # Errors
/// [`SimulationError`] names the file, line and column.
pub fn load_profiles(folder: &Path) -> Result<Profiles, SimulationError> {
    let table = |name: &str| read(&folder.join(name));
    Profiles::parse(
        &table("datasets.csv")?,
        &table("gns_rules.csv")?,
        &table("accordion_rules.csv")?,
    )
    .map_err(|source| SimulationError::Content { path: folder.to_owned(), source })
}

/// Reads a throughput table.
///
/// # Errors
/// [`SimulationError`] names the file, line and column.
pub fn load_throughputs(path: &Path) -> Result<Throughputs, SimulationError> {
    Throughputs::parse(&read(path)?)
        .map_err(|source| SimulationError::Content { path: path.to_owned(), source })
}

/// Reads a text file.
///
/// # Errors
/// [`SimulationError::File`] when it cannot be read.
pub fn read(path: &Path) -> Result<String, SimulationError> {
    std::fs::read_to_string(path)
        .map_err(|source| SimulationError::File { path: path.to_owned(), source })
}

/// Writes a text file, making its folder when there is none.
///
/// # Errors
/// [`SimulationError::File`] when it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), SimulationError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|source| SimulationError::File { path: path.to_owned(), source })
}
