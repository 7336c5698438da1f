//! The records of a run, as `metrics.jsonl` holds them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::Decision;

/// Where training stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps taken in all.
    pub step: u64,
    /// Samples seen in all.
    pub sample: u64,
    /// The batch size, in samples.
    pub batch: u64,
}

/// What an epoch gave. Numbers that are not finite are strings: "NaN", "inf", "-inf".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Its end.
    #[serde(flatten)]
    pub place: Place,
    /// Mean training loss per sample.
    #[serde(with = "crate::json")]
    pub loss: f64,
    /// L2 norm of the last step's gradient.
    #[serde(with = "crate::json")]
    pub grad_norm: f64,
    /// The noise scale, in samples, where it is measured.
    #[serde(with = "crate::json")]
    pub noise_scale: Option<f64>,
    /// Its 95 % confidence interval.
    #[serde(with = "crate::json")]
    pub noise_interval: Option<(f64, f64)>,
    /// The learning rate of the next step.
    #[serde(with = "crate::json")]
    pub learning_rate: f64,
    /// Samples trained on per second of training, over the epoch.
    #[serde(with = "crate::json")]
    pub samples_per_s: f64,
    /// Steps skipped in all.
    pub skipped_steps: u64,
    /// The loss scale, where steps may be skipped.
    #[serde(with = "crate::json")]
    pub loss_scale: Option<f64>,
    /// The metrics given to `end_epoch`.
    #[serde(with = "crate::json")]
    pub metrics: BTreeMap<String, f64>,
}

/// One thing that a run notes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// A process begins here, from a checkpoint or from nothing. Records of this place and later ones that come before
    /// this one are void: that work was lost.
    Start(Place),
    /// Training goes on; about every ten seconds.
    Progress(Place),
    /// An epoch has ended.
    Epoch(EpochRecord),
    /// The batch size has changed.
    Decision(Decision),
    /// A checkpoint is durable.
    Checkpoint {
        /// Its folder.
        path: String,
        /// Size of its files.
        size_bytes: u64,
        /// Seconds that training stood still for it.
        stood_still_s: f64,
    },
    /// The process ends here.
    End {
        /// "finished", or why it stopped.
        outcome: String,
    },
}

/// A record with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// Seconds since 1970.
    pub at_unix_s: f64,
    /// What was noted.
    #[serde(flatten)]
    pub record: Record,
}
