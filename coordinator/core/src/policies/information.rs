//! What a policy is told about a job's future, at each level of information.

use super::tuning::SAMPLES_SEED;
use super::{Information, Policy};
use crate::predictor::{Forecast, Predictor, RegimeForecast, RunTime};
use crate::types::{JobProgress, JobSpec};

/// The forecast that a policy of this information level gets.
///
/// `batch` and `steps_per_s` are those of this moment, `first_steps_per_s` the throughput at the
/// first batch size.
#[must_use]
pub fn forecast(
    information: Information,
    predictor: &dyn Predictor,
    spec: &JobSpec,
    progress: &JobProgress,
    now: CurrentSpeed,
) -> Forecast {
    let epochs_left = (f64::from(spec.epochs_total) - progress.epochs_done()).max(0.0);
    match information {
        Information::Proactive => predictor.forecast(spec, progress),
        Information::Reactive => constant(spec, progress, now.batch, epochs_left, now.steps_per_s),
        Information::Agnostic => {
            constant(spec, progress, spec.initial_batch, epochs_left, now.first_steps_per_s)
        }
    }
}

/// The trajectories that a policy of this information level gets when it asks for `samples` of
/// them; none when it plans for the posterior mean.
#[must_use]
pub fn samples(
    policy: &dyn Policy,
    predictor: &dyn Predictor,
    spec: &JobSpec,
    progress: &JobProgress,
) -> Vec<Vec<RegimeForecast>> {
    match (policy.information(), policy.samples()) {
        (Information::Proactive, 2..) => {
            predictor.sample(spec, progress, policy.samples(), SAMPLES_SEED)
        }
        _ => Vec::new(),
    }
}

/// A job's throughput now and at its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurrentSpeed {
    /// Batch size of this moment, samples.
    pub batch: u32,
    /// Steps per second at it.
    pub steps_per_s: f64,
    /// Steps per second at the first batch size.
    pub first_steps_per_s: f64,
}

/// One throughput for ever.
fn constant(
    spec: &JobSpec,
    progress: &JobProgress,
    batch: u32,
    epochs_left: f64,
    steps_per_s: f64,
) -> Forecast {
    let steps_per_epoch = spec.samples_per_epoch.div_ceil(u64::from(batch.max(1)));
    let epoch_s =
        if steps_per_s > 0.0 { steps_per_epoch as f64 / steps_per_s } else { f64::INFINITY };
    let left_s = if epochs_left > 0.0 { epochs_left * epoch_s } else { 0.0 };
    Forecast {
        regimes: vec![RegimeForecast { batch, epochs: epochs_left, epoch_s }],
        left_s,
        left_sd_s: 0.0,
        left_upper_s: left_s,
        total_s: progress.attained_s + left_s,
        left: RunTime::Exact(left_s),
    }
}
