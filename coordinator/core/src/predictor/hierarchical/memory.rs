//! What was learnt, as text that outlives a restart.

use serde::{Deserialize, Serialize};

use super::Hierarchical;
use super::family::{SavedSteps, StepTimes};
use super::history::{History, Record};
use super::mixture::Trust;
use super::noise::Noise;
use crate::types::{JobId, MemoryError};

#[derive(Serialize)]
struct Saved<'a> {
    records: Vec<(JobId, &'a str, &'a Record)>,
    steps: Vec<SavedSteps>,
    accordion: &'a Trust,
    gns: &'a Trust,
    noise: &'a Noise,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    records: Vec<(JobId, String, Record)>,
    steps: Vec<SavedSteps>,
    accordion: Trust,
    gns: Trust,
    /// Older memories have none.
    #[serde(default)]
    noise: Noise,
}

impl Hierarchical {
    pub(super) fn save(&self) -> String {
        let saved = Saved {
            records: self.history.save(),
            steps: self.times.save(),
            accordion: &self.accordion,
            gns: &self.gns,
            noise: &self.noise,
        };
        // Plain maps, lists and numbers: nothing that JSON cannot hold. Without it, a restart
        // begins with the paper's rule.
        serde_json::to_string(&saved).unwrap_or_default()
    }

    pub(super) fn restore(&mut self, memory: &str) -> Result<(), MemoryError> {
        if memory.is_empty() {
            return Ok(());
        }
        let read: Read = serde_json::from_str(memory)
            .map_err(|error| MemoryError::new("predictor hierarchical", error))?;
        self.history = History::restore(read.records);
        self.times = StepTimes::restore(read.steps);
        (self.accordion, self.gns, self.noise) = (read.accordion, read.gns, read.noise);
        Ok(())
    }
}
