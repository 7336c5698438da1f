//! A job: what its user declares, and what has been observed of it so far.

use serde::{Deserialize, Serialize};

use super::JobId;

/// How a job may change its own batch size, as declared at submission (paper section 5).
///
/// This and the [`JobProgress`] are all that a forecast may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adaptation {
    /// The batch size never changes.
    Static,
    /// Accordion: alternates between two batch sizes, in either direction, any number of times.
    Accordion {
        /// Batch size of critical regimes, samples.
        small: u32,
        /// Batch size of all other regimes, samples.
        large: u32,
    },
    /// Gradient noise scale: doubles up to a limit, never shrinks.
    Gns {
        /// Batch size of the first epoch, samples.
        initial: u32,
        /// Largest batch size, samples.
        max: u32,
    },
    /// A table that the user declares: `(first epoch, batch size)`, epochs ascending from 0.
    Schedule(Vec<(u32, u32)>),
}

/// What is declared about a job when it is submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The job's number.
    pub id: JobId,
    /// Gang size: GPUs that the job needs together in every round it runs.
    pub gpus: u32,
    /// Market budget relative to other jobs; 1 by default.
    pub weight: f64,
    /// When it was submitted, seconds on the driver's clock.
    pub arrival_s: f64,
    /// Epochs that it will train.
    pub epochs_total: u32,
    /// Samples in an epoch.
    pub samples_per_epoch: u64,
    /// Batch size of the first epoch over the whole gang, samples.
    pub initial_batch: u32,
    /// What can happen to the batch size.
    pub adaptation: Adaptation,
    /// Model and data set, free text: jobs of the same family share a learnt prior.
    pub family: String,
}

/// A declared fact that cannot be.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("job {id}: {field} is {got}, expected {expected}")]
pub struct SpecError {
    /// The job.
    pub id: JobId,
    /// Which field.
    pub field: &'static str,
    /// What it was.
    pub got: String,
    /// What would be right.
    pub expected: &'static str,
}

impl JobSpec {
    /// Checks every field.
    ///
    /// # Errors
    /// [`SpecError`] names the first field that cannot be.
    pub fn validate(&self) -> Result<(), SpecError> {
        let error =
            |field, got: String, expected| Err(SpecError { id: self.id, field, got, expected });
        if self.gpus == 0 {
            return error("gpus", "0".into(), "at least 1");
        }
        if !(self.weight.is_finite() && self.weight > 0.0) {
            return error("weight", self.weight.to_string(), "a finite number above 0");
        }
        if !self.arrival_s.is_finite() {
            return error("arrival_s", self.arrival_s.to_string(), "a finite number");
        }
        if self.epochs_total == 0 {
            return error("epochs_total", "0".into(), "at least 1");
        }
        if self.samples_per_epoch == 0 {
            return error("samples_per_epoch", "0".into(), "at least 1");
        }
        if self.initial_batch == 0 {
            return error("initial_batch", "0".into(), "at least 1");
        }
        match &self.adaptation {
            Adaptation::Static => Ok(()),
            Adaptation::Accordion { small, large } if *small == 0 || large < small => {
                error("adaptation", format!("accordion {small}..{large}"), "0 < small <= large")
            }
            Adaptation::Gns { initial, max } if *initial == 0 || max < initial => {
                error("adaptation", format!("gns {initial}..{max}"), "0 < initial <= max")
            }
            Adaptation::Schedule(table)
                if table.first().is_none_or(|first| first.0 != 0)
                    || table.windows(2).any(|pair| pair[0].0 >= pair[1].0)
                    || table.iter().any(|entry| entry.1 == 0) =>
            {
                let expected = "epochs ascending from 0, batch sizes above 0";
                error("adaptation", format!("schedule {table:?}"), expected)
            }
            _ => Ok(()),
        }
    }
}

/// A regime as observed: a phase of constant batch size (paper section 5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegimeRecord {
    /// Batch size over the whole gang, samples.
    pub batch: u32,
    /// Epochs (whole and part) trained in it so far.
    pub epochs: f64,
    /// Measured duration of an epoch in it, seconds, once there is a measurement.
    pub epoch_s: Option<f64>,
}

/// What has been observed of a job so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobProgress {
    /// Regimes in order; the last one is going on. Empty before the first start.
    pub regimes: Vec<RegimeRecord>,
    /// Service time received, seconds on its whole gang (L_j of eq. 9).
    pub attained_s: f64,
    /// Highest contention (GPUs requested by active jobs over GPUs, or jobs over GPUs, at least 1)
    /// that the job has seen while active.
    pub contention_max: f64,
    /// Time-weighted mean contention that the job has seen (N_avg of eq. 9), at least 1.
    pub contention_mean: f64,
}

impl JobProgress {
    /// Epochs (whole and part) trained so far.
    #[must_use]
    pub fn epochs_done(&self) -> f64 {
        self.regimes.iter().map(|regime| regime.epochs).sum()
    }
}
