//! What a policy sees when it decides.

use serde::{Deserialize, Serialize};

use super::JobId;
use crate::predictor::{Forecast, RegimeForecast};

/// One active job (queued or running).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// The job.
    pub id: JobId,
    /// Gang size, GPUs.
    pub gpus: u32,
    /// Market budget relative to other jobs.
    pub weight: f64,
    /// When it was submitted, seconds.
    pub arrival_s: f64,
    /// Whether it holds its gang now.
    pub running: bool,
    /// Epochs that it will train.
    pub epochs_total: f64,
    /// Epochs (whole and part) trained so far.
    pub epochs_done: f64,
    /// Service time received, seconds.
    pub attained_s: f64,
    /// Optimiser steps left at the current batch size (below 0 only in the published semantics,
    /// for a job that was credited more than it had left).
    pub steps_left: f64,
    /// Optimiser steps per second of the whole job at the current batch size.
    pub steps_per_s: f64,
    /// What a stop and a later start cost it, seconds of its gang (measured, else declared).
    pub restart_s: f64,
    /// What the predictor says of the rest, at the information level that the policy asked for.
    pub forecast: Forecast,
    /// Ways that the rest may go, drawn from the posterior, when the policy asks for them.
    #[serde(default)]
    pub samples: Vec<Vec<RegimeForecast>>,
    /// Highest contention seen while active, at least 1.
    pub contention_max: f64,
    /// Mean contention seen while active, at least 1 (N_avg of eq. 9).
    pub contention_mean: f64,
}

impl JobView {
    /// Time since submission, seconds (attained service plus waiting: L_j + W_j of eq. 9).
    #[must_use]
    pub fn elapsed_s(&self, now_s: f64) -> f64 {
        (now_s - self.arrival_s).max(0.0)
    }

    /// Remaining time if the throughput of this moment stayed: what a reactive scheduler believes.
    #[must_use]
    pub fn reactive_left_s(&self) -> f64 {
        if self.steps_per_s > 0.0 {
            self.steps_left.max(0.0) / self.steps_per_s
        } else {
            f64::INFINITY
        }
    }
}

/// The cluster and its active jobs at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterView {
    /// The moment, seconds on the driver's clock.
    pub now_s: f64,
    /// Length of a round, seconds (D).
    pub round_s: f64,
    /// Index of the next round.
    pub round: u64,
    /// GPUs in service (M).
    pub gpus: u32,
    /// Active jobs in order of admission.
    pub jobs: Vec<JobView>,
}

impl ClusterView {
    /// Jobs over GPUs, at least 1: the contention of this moment (N/M of section 6.2).
    #[must_use]
    pub fn contention(&self) -> f64 {
        (self.jobs.len() as f64 / f64::from(self.gpus.max(1))).max(1.0)
    }
}
