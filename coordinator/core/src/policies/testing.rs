//! A job for tests of policies.

use crate::predictor::Forecast;
use crate::types::{JobId, JobView};

/// A job of one GPU and one epoch that has just come; nothing is known of it.
pub(super) fn job(id: u64) -> JobView {
    JobView {
        id: JobId(id),
        gpus: 1,
        weight: 1.0,
        arrival_s: 0.0,
        running: false,
        epochs_total: 1.0,
        epochs_done: 0.0,
        attained_s: 0.0,
        steps_left: 1.0,
        steps_per_s: 1.0,
        restart_s: 0.0,
        forecast: Forecast::default(),
        samples: Vec::new(),
        contention_max: 1.0,
        contention_mean: 1.0,
    }
}
