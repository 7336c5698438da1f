//! The part of a session's state that is not a tensor: `state.json` of a checkpoint.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Position;
use crate::checkpoint::Fingerprint;
use crate::gradient::ControlState;
use crate::lr::RateState;
use crate::monitor::MonitorState;
use crate::policy::Decision;

/// Version of the format; a checkpoint of another version is refused.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SessionState {
    pub version: u32,
    pub fingerprint: Fingerprint,
    pub settings: Settings,
    pub position: Position,
    /// Samples of the current epoch that are used up.
    pub cursor: usize,
    pub optimizer_steps: u64,
    pub rate: RateState,
    pub monitor: MonitorState,
    /// Counts of skipped steps and the loss scale, when there are.
    #[serde(default)]
    pub control: Option<ControlState>,
    /// The ceiling on the samples of a forward pass, when it was found.
    #[serde(default)]
    pub micro_batch: Option<usize>,
    pub policy: Value,
    pub decisions: Vec<Decision>,
    #[serde(with = "crate::json")]
    pub metrics: BTreeMap<String, f64>,
    /// The best value of the metric whose best checkpoint is kept.
    #[serde(with = "crate::json")]
    pub best: Option<f64>,
    /// Seconds of training in the current epoch.
    pub epoch_train_s: f64,
}

/// What must not change between the run that wrote a checkpoint and the one that reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub seed: u64,
    pub shuffle: bool,
    pub samples: usize,
    pub initial_batch: u64,
    pub optimizer: String,
    pub policy: String,
}

impl Settings {
    /// The first setting that differs: its name, the value here and the other's.
    pub(super) fn difference(&self, now: &Self) -> Option<(&'static str, String, String)> {
        let rows = [
            ("the seed", self.seed.to_string(), now.seed.to_string()),
            ("shuffling", self.shuffle.to_string(), now.shuffle.to_string()),
            ("the number of training samples", self.samples.to_string(), now.samples.to_string()),
            (
                "the initial batch size",
                self.initial_batch.to_string(),
                now.initial_batch.to_string(),
            ),
            ("the optimiser", self.optimizer.clone(), now.optimizer.clone()),
            ("the policy", self.policy.clone(), now.policy.clone()),
        ];
        rows.into_iter().find(|(_, then, now)| then != now)
    }
}
