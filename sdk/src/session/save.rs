//! Saves a session.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tch::Tensor;

use super::Session;
use super::state::{SessionState, Settings, VERSION};
use crate::Error;
use crate::checkpoint::{Checkpoints, Fingerprint, HostTensor, Name, Saved, Snapshot};

/// When checkpoints are written, besides at a stop and at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// After every this many epochs.
    Epochs(u64),
    /// After every this many steps.
    Steps(u64),
    /// After this much time, at the next step's end.
    Time(Duration),
}

impl Every {
    pub(super) fn check(self) -> Result<(), Error> {
        match self {
            Self::Epochs(0) | Self::Steps(0) => {
                Err(Error::invalid("the period of checkpoints", 0, "at least one"))
            }
            _ => Ok(()),
        }
    }
}

/// Where and when a session saves, and what it last saved.
#[derive(Debug)]
pub(super) struct Saving {
    pub checkpoints: Checkpoints,
    pub every: Every,
    /// The epoch of the lease; 0 without a coordinator.
    pub generation: u64,
    /// Number of the last checkpoint.
    pub number: u64,
    pub last: Option<Saved>,
    /// The position (epoch, step, samples of the epoch) at the last checkpoint.
    pub saved_at: Option<(u64, u64, usize)>,
    pub saved_time: Instant,
}

/// Copies named tensors to host memory.
fn copies<'a>(
    tensors: impl IntoIterator<Item = (String, &'a Tensor)>,
) -> Result<BTreeMap<String, HostTensor>, Error> {
    tensors
        .into_iter()
        .map(|(name, tensor)| {
            let copy = HostTensor::copy_of(&name, tensor)?;
            Ok((name, copy))
        })
        .collect()
}

impl Session {
    /// The flat buffers that a checkpoint holds besides the model.
    pub(super) fn training_buffers(&self) -> BTreeMap<String, Tensor> {
        let moments = self.optimizer.moments().into_iter();
        let moments = moments.map(|(n, t)| (format!("optimizer.{n}"), t));
        let monitor = self.monitor.buffers().into_iter().map(|(n, t)| (format!("monitor.{n}"), t));
        moments.chain(monitor).collect()
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            shuffle: self.shuffle,
            samples: self.sampler.len(),
            initial_batch: self.initial_batch,
            optimizer: self.optimizer.name().to_owned(),
            policy: self.policy.kind().to_owned(),
        }
    }

    /// Copies the whole state to host memory (one host read for the numbers, one copy per tensor).
    pub(super) fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let model = self.arena.named_variables();
        let model = copies(model.iter().map(|(n, t)| (n.clone(), t)))?;
        let training = self.training_buffers();
        let training = copies(training.iter().map(|(n, t)| (n.clone(), t)))?;
        let state = SessionState {
            version: VERSION,
            fingerprint: Fingerprint::of(&self.arena),
            settings: self.settings(),
            position: self.position.clone(),
            cursor: self.sampler.cursor(),
            optimizer_steps: self.optimizer.steps(),
            rate: self.rate.state(),
            monitor: tch::no_grad(|| self.monitor.state())?,
            policy: self.policy.state(),
            decisions: self.decisions.clone(),
            metrics: self.metrics.clone(),
        };
        let state = serde_json::to_value(state)
            .map_err(|e| Error::invalid("the session's state", e, "a value that JSON can hold"))?;
        Ok(Snapshot { model, training, state })
    }

    pub(super) fn save_position(&self) -> (u64, u64, usize) {
        (self.position.epoch, self.position.step, self.sampler.cursor())
    }

    /// Saves a checkpoint now, unless this position is saved already or there is no folder for it.
    ///
    /// # Errors
    /// [`Error::Io`] when it could not be written in three attempts; older checkpoints are untouched.
    pub fn save(&mut self) -> Result<(), Error> {
        self.take_pending();
        let position = self.save_position();
        let Some(saving) = &self.saving else { return Ok(()) };
        if saving.saved_at == Some(position) {
            return Ok(());
        }
        let snapshot = self.snapshot()?;
        let Some(saving) = &mut self.saving else { return Ok(()) };
        let name = Name { generation: saving.generation, number: saving.number + 1 };
        let saved = saving.checkpoints.save(name, &snapshot)?;
        saving.number = name.number;
        saving.saved_at = Some(position);
        saving.saved_time = Instant::now();
        saving.last = Some(saved);
        Ok(())
    }

    /// Saves if it is time for it. A write that fails is reported, and training goes on: the older checkpoints are
    /// there, and the next one is tried at its time.
    pub(super) fn save_if_due(&mut self, epoch_ended: bool) -> Result<(), Error> {
        let Some(saving) = &mut self.saving else { return Ok(()) };
        let due = match saving.every {
            Every::Epochs(n) => epoch_ended && self.position.epoch.is_multiple_of(n),
            Every::Steps(n) => !epoch_ended && self.position.step.is_multiple_of(n),
            Every::Time(period) => saving.saved_time.elapsed() >= period,
        };
        if !due {
            return Ok(());
        }
        saving.saved_time = Instant::now();
        match self.save() {
            Err(error @ Error::Io { .. }) => {
                crate::progress::warn(format_args!(
                    "training goes on without a checkpoint: {error}"
                ));
                Ok(())
            }
            other => other,
        }
    }
}
