//! A job as the coordinator keeps it.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Demand, Outcome, Settings, Terms, contention::Seen, track::Track};
use crate::types::{Checkpoint, JobId, JobSpec, Placement};

/// Ended jobs that are remembered: late reports and dependencies refer to them.
const ENDED_MAX: usize = 100_000;
/// Weight of the newest measurement of a start's or a yield's duration.
const NEWEST: f64 = 0.5;

/// A job that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) user: String,
    pub(super) demand: Demand,
    pub(super) terms: Terms,
    /// Jobs that must finish before it queues.
    pub(super) after: Vec<JobId>,
    pub(super) held: bool,
    /// Order of admission.
    pub(super) seq: u64,
    /// Not to be started before, after a failure.
    pub(super) not_before_s: f64,
    pub(super) track: Track,
    pub(super) seen: Seen,
    /// Newest lease; 0 before the first.
    pub(super) lease_epoch: u64,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) last_placement: Option<Placement>,
    /// Failures since the last checkpoint.
    pub(super) failures: u32,
    pub(super) failures_total: u32,
    pub(super) last_failure: Option<String>,
    pub(super) leases: u32,
    pub(super) preemptions: u32,
    pub(super) wasted_gpu_s: f64,
    /// Measured time from grant to training, seconds.
    pub(super) start_s: Option<f64>,
    /// Measured time from the request to yield to the release, seconds.
    pub(super) yield_s: Option<f64>,
}

impl Job {
    /// Whether it competes for devices: queued or running.
    pub(super) fn is_active(&self) -> bool {
        !self.held && self.after.is_empty()
    }

    pub(super) fn grace_s(&self, settings: &Settings) -> f64 {
        self.terms.grace_s.unwrap_or(settings.grace_s)
    }

    pub(super) fn min_run_s(&self, settings: &Settings) -> f64 {
        self.terms.min_run_s.unwrap_or(settings.min_run_s)
    }

    pub(super) fn retries(&self, settings: &Settings) -> u32 {
        self.terms.retries.unwrap_or(settings.retries)
    }

    /// What a stop and a later start cost, seconds.
    pub(super) fn restart_s(&self, settings: &Settings) -> f64 {
        let declared = self.terms.restart_s.unwrap_or(settings.restart_s);
        self.start_s.map_or(declared, |start_s| start_s + self.yield_s.unwrap_or(0.0))
    }

    pub(super) fn measure_start(&mut self, seconds: f64) {
        self.start_s = Some(smooth(self.start_s, seconds));
    }

    pub(super) fn measure_yield(&mut self, seconds: f64) {
        self.yield_s = Some(smooth(self.yield_s, seconds));
    }

    /// Training epochs in the state from which it would resume.
    pub(super) fn resumes_at(&self) -> f64 {
        self.checkpoint.as_ref().map_or(0.0, |checkpoint| checkpoint.epochs_done)
    }
}

fn smooth(before: Option<f64>, newest: f64) -> f64 {
    before.map_or(newest, |mean| mean + NEWEST * (newest - mean))
}

/// Jobs that have ended, the newest ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ended {
    records: BTreeMap<JobId, EndRecord>,
    order: VecDeque<JobId>,
}

/// What is remembered of a job that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct EndRecord {
    pub(super) outcome: Outcome,
    pub(super) lease_epoch: u64,
    pub(super) at_s: f64,
}

impl Ended {
    pub(super) fn get(&self, job: JobId) -> Option<&EndRecord> {
        self.records.get(&job)
    }

    pub(super) fn insert(&mut self, job: JobId, record: EndRecord) {
        self.records.insert(job, record);
        self.order.push_back(job);
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.records.remove(&oldest);
        }
    }
}
