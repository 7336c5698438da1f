//! How a job's batch size and run time go on (paper section 5).
//!
//! A job's declared [`Adaptation`](crate::types::Adaptation) says which configurations lie ahead
//! ([`regime`]), a posterior says how long each lasts ([`posterior`]), a step-time model says how
//! fast each runs ([`throughput`]), and together they give a run time with its spread
//! ([`runtime`]). Every predictor is a function of what was declared and what has been observed:
//! none can see a trace.

mod baseline;
mod hierarchical;
pub mod posterior;
#[cfg(test)]
mod properties;
pub mod regime;
mod registry;
mod rules;
pub mod runtime;
mod sampling;
pub mod throughput;

use serde::{Deserialize, Serialize};

use crate::types::{JobProgress, JobSpec, MemoryError};

pub use baseline::{Agnostic, Greedy};
pub use hierarchical::Hierarchical;
pub use registry::{DEFAULT, NAMES, UnknownPredictor, by_name};
pub use rules::{Bayes, Restatement};
pub use runtime::RunTime;
pub use throughput::Profile;

/// A regime that lies ahead: a micro-job of constant throughput (Appendix G).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegimeForecast {
    /// Batch size over the whole gang, samples.
    pub batch: u32,
    /// Epochs left in it.
    pub epochs: f64,
    /// Duration of an epoch in it, seconds.
    pub epoch_s: f64,
}

/// What a predictor says about the rest of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The posterior mean trajectory: regimes left, in order.
    pub regimes: Vec<RegimeForecast>,
    /// Mean remaining run time on the whole gang, seconds (R_j of eq. 9).
    pub left_s: f64,
    /// Standard deviation of the remaining run time, seconds.
    pub left_sd_s: f64,
    /// Upper estimate of the remaining run time, seconds: what the makespan term must use, since a
    /// long job that is forecast too short loses its lane.
    pub left_upper_s: f64,
    /// Predicted exclusive run time from start to end, seconds (P_j of eq. 9).
    pub total_s: f64,
    /// The remaining run time as a distribution: quantiles and intervals.
    pub left: RunTime,
}

/// A way to forecast. Implementations may learn across jobs, but only from facts that were
/// declared or observed before the moment of the forecast.
pub trait Predictor: Send {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// Takes note of where a running job stands, so that other jobs profit from what it has shown
    /// so far. To be called when a job reports; later calls replace earlier ones.
    fn observed(&mut self, _spec: &JobSpec, _progress: &JobProgress) {}

    /// Takes note of a job that has ended, so that later jobs of its family profit.
    fn finished(&mut self, spec: &JobSpec, progress: &JobProgress);

    /// Forecasts the rest of one job.
    fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast;

    /// `count` trajectories drawn from the posterior, deterministic in `seed` (Appendix F).
    fn sample(
        &self,
        spec: &JobSpec,
        progress: &JobProgress,
        count: usize,
        seed: u64,
    ) -> Vec<Vec<RegimeForecast>>;

    /// What it has learnt, as text (JSON): part of every snapshot. Empty when it learns nothing.
    fn memory(&self) -> String {
        String::new()
    }

    /// Takes over what [`Predictor::memory`] of the same predictor gave.
    ///
    /// # Errors
    /// [`MemoryError`] when the text is not such a memory.
    fn recall(&mut self, memory: &str) -> Result<(), MemoryError> {
        if memory.is_empty() { Ok(()) } else { Err(MemoryError::new(self.name(), "none expected")) }
    }
}
