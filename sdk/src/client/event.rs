//! What a job tells the coordinator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One thing that happened in a job.
///
/// Epochs count from 0. A step is one optimiser step, counted from the job's very beginning. A
/// sample index counts the samples of the current epoch that have been trained on. Batches are
/// global: of all workers of the job together, in samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Training begins or goes on, from a checkpoint or from nothing.
    Started {
        /// Epoch that the job stands in.
        epoch: u64,
        /// Steps done so far.
        step: u64,
        /// Samples of this epoch done so far.
        sample: u64,
        /// Batch size, in samples.
        batch: u64,
        /// Device, as "cpu" or "cuda:0".
        device: String,
        /// SHA-256 of the checkpoint that it goes on from; none: from the beginning.
        checkpoint_sha256: Option<String>,
    },
    /// An epoch is complete.
    EpochDone {
        /// The epoch.
        epoch: u64,
        /// Steps done so far.
        step: u64,
        /// Batch size that it ended with, in samples.
        batch: u64,
        /// Samples trained on in this epoch, by this and earlier processes.
        samples: u64,
        /// Seconds of training for them, over all processes that took part; without waiting,
        /// restarts and evaluation.
        duration_s: f64,
        /// Mean training loss, where the loop gives it.
        loss: Option<f64>,
        /// The user's metrics by name (test accuracy, ...).
        metrics: BTreeMap<String, f64>,
        /// Gradient norm that the policy saw, where it is measured.
        grad_norm: Option<f64>,
        /// Simple noise scale B_noise, in samples, where it is measured.
        noise_scale: Option<f64>,
    },
    /// The policy has changed the batch size.
    RegimeChanged {
        /// Epoch of the first batch of the new size.
        epoch: u64,
        /// Samples of this epoch done before the change.
        sample: u64,
        /// Batch size before, in samples.
        old_batch: u64,
        /// Batch size from now on, in samples.
        new_batch: u64,
        /// The statistic that the policy decided on (Accordion: the norm's relative change; GNS: B_noise).
        estimate: Option<f64>,
        /// Its confidence interval, where there is one.
        interval: Option<(f64, f64)>,
        /// Why, in words.
        reason: String,
    },
    /// A checkpoint is durable on disk.
    CheckpointSaved {
        /// Epoch that it resumes in.
        epoch: u64,
        /// Steps that it holds.
        step: u64,
        /// Where it lies (an absolute folder, or a URI).
        uri: String,
        /// SHA-256 of its content, in lower case hex.
        sha256: String,
        /// Samples of that epoch that it holds.
        sample: u64,
        /// Its size.
        size_bytes: u64,
        /// Seconds that training stood still for it.
        duration_s: f64,
    },
    /// Training is complete. Said once; saying it again changes nothing.
    Finished {
        /// Steps in all.
        step: u64,
        /// The user's last metrics by name.
        metrics: BTreeMap<String, f64>,
        /// SHA-256 of the final checkpoint, in lower case hex.
        checkpoint_sha256: Option<String>,
    },
    /// The process ends before training is complete; the checkpoint reported before holds its work.
    Yielded {
        /// Epoch that training will go on in.
        epoch: u64,
        /// Steps done so far.
        step: u64,
        /// What asked for it.
        cause: YieldCause,
    },
}

/// Why a process ends before training is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum YieldCause {
    /// The coordinator asked for the devices.
    Yield,
    /// The lease was revoked.
    Revoked,
    /// No answer for longer than the lease.
    Ttl,
    /// SIGTERM or SIGINT.
    Signal,
}

impl YieldCause {
    /// The cause as the protocol spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::Revoked => "revoked",
            Self::Ttl => "ttl",
            Self::Signal => "signal",
        }
    }
}

impl Event {
    /// Whether the event may be dropped when the spool is full: it only informs the forecast, and
    /// a later one says more.
    #[must_use]
    pub fn is_expendable(&self) -> bool {
        matches!(self, Self::EpochDone { .. } | Self::Started { .. } | Self::Yielded { .. })
    }

    /// The event without numbers that are not finite: a loss that has diverged must not keep the
    /// epoch from being reported, and neither JSON nor the coordinator takes NaN.
    #[must_use]
    pub fn sanitised(mut self) -> Self {
        match &mut self {
            Self::EpochDone { loss, metrics, grad_norm, noise_scale, duration_s, .. } => {
                metrics.retain(|_, value| value.is_finite());
                for value in [loss, grad_norm, noise_scale] {
                    *value = value.filter(|number| number.is_finite());
                }
                *duration_s = if duration_s.is_finite() { duration_s.max(0.0) } else { 0.0 };
            }
            Self::RegimeChanged { estimate, interval, .. } => {
                *estimate = estimate.filter(|number| number.is_finite());
                *interval = interval.filter(|(low, high)| low.is_finite() && high.is_finite());
            }
            Self::CheckpointSaved { duration_s, .. } => {
                *duration_s = if duration_s.is_finite() { duration_s.max(0.0) } else { 0.0 };
            }
            Self::Finished { metrics, .. } => metrics.retain(|_, value| value.is_finite()),
            Self::Started { .. } | Self::Yielded { .. } => {}
        }
        self
    }
}

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbered {
    /// Number within the job, over all its processes: from 1, without gaps.
    pub number: u64,
    /// Epoch (fencing number) of the lease under which it happened.
    pub lease_epoch: u64,
    /// When it happened, seconds since 1970 by the local clock; for display only.
    pub at_unix_s: f64,
    /// What happened.
    pub event: Event,
}
