//! Brings a session back to where a checkpoint was written.

use std::collections::BTreeMap;

use tch::Tensor;

use super::Session;
use super::state::{SessionState, VERSION};
use crate::Error;
use crate::checkpoint::{Fingerprint, HostTensor, Loaded};
use crate::policy::Decision;

fn mismatch(
    what: impl Into<String>,
    checkpoint: impl Into<String>,
    now: impl Into<String>,
) -> Error {
    Error::Mismatch { what: what.into(), checkpoint: checkpoint.into(), now: now.into() }
}

/// Checks that both sides name the same tensors, then copies the values.
fn restore_tensors(
    saved: &BTreeMap<String, HostTensor>,
    mut targets: BTreeMap<String, Tensor>,
) -> Result<(), Error> {
    if let Some(name) = targets.keys().find(|n| !saved.contains_key(*n)) {
        return Err(mismatch(format!("the tensor '{name}'"), "absent", "present"));
    }
    for (name, tensor) in saved {
        let Some(target) = targets.get_mut(name) else {
            return Err(mismatch(format!("the tensor '{name}'"), "present", "absent"));
        };
        tensor.restore(name, target)?;
    }
    Ok(())
}

impl Session {
    /// Restores everything from a checkpoint. Policy and estimators come first: nothing is validated against a state
    /// that is not theirs.
    pub(super) fn restore(&mut self, loaded: Loaded) -> Result<(), Error> {
        let corrupt = |reason: String| Error::Corrupt { path: loaded.path.clone(), reason };
        let version = loaded.snapshot.state.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            let found = version.map_or("missing".to_owned(), |v| v.to_string());
            return Err(mismatch("the checkpoint format", found, VERSION.to_string()));
        }
        let state: SessionState = serde_json::from_value(loaded.snapshot.state.clone())
            .map_err(|e| corrupt(format!("state.json: {e}")))?;
        if let Some((what, then, now)) = state.settings.difference(&self.settings()) {
            return Err(mismatch(what, then, now));
        }
        let fingerprint = state.fingerprint.clone();
        self.adopt(state)?;
        restore_tensors(&loaded.snapshot.model, self.arena.named_variables())?;
        restore_tensors(&loaded.snapshot.training, self.training_buffers())?;
        self.warn_if_approximate(&fingerprint);
        self.apply_bounds();
        Ok(())
    }

    /// Takes over everything that is not a tensor.
    pub(super) fn adopt(&mut self, state: SessionState) -> Result<(), Error> {
        self.policy.restore(&state.policy)?;
        self.monitor.restore(state.monitor)?;
        self.control.restore(state.control, state.optimizer_steps)?;
        if self.ceiling.find && state.micro_batch.is_some() {
            self.ceiling.samples = state.micro_batch;
        }
        self.rate.restore(state.rate);
        self.optimizer.set_steps(state.optimizer_steps);
        self.position = state.position;
        self.sampler.seek(self.position.epoch, state.cursor);
        self.decisions = state.decisions;
        self.metrics = state.metrics;
        self.best = state.best;
        self.stopwatch.set(state.epoch_train_s);
        Ok(())
    }

    fn warn_if_approximate(&mut self, then: &Fingerprint) {
        let differences = then.differences(&self.fingerprint());
        self.exact = differences.is_empty();
        if !self.exact {
            crate::progress::warn(format_args!(
                "the resume is approximate, not to the last bit ({})",
                differences.join("; ")
            ));
        }
    }

    /// A batch size that the user's bounds no longer allow is moved to the nearest one that they do.
    fn apply_bounds(&mut self) {
        let (min, max) = self.bounds;
        let (old_batch, new_batch) = (self.position.batch, self.position.batch.clamp(min, max));
        if old_batch == new_batch {
            return;
        }
        self.position.batch = new_batch;
        self.rate.change(new_batch, self.position.sample, None);
        self.decisions.push(Decision {
            epoch: self.position.epoch,
            sample: self.position.sample,
            old_batch,
            new_batch,
            estimate: None,
            interval: None,
            reason: format!("resumed with the bounds {min}..={max}"),
        });
    }
}
