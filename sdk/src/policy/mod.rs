//! Batch-size policies: when a training run changes its own batch size, and to what.

mod accordion;
mod compose;
mod critical;
mod curvature;
mod fixed;
mod gns;
mod ladder;
mod target;

pub use accordion::Accordion;
pub use compose::{AccuracyGuard, Compose, Mode};
pub use critical::{CriticalDetector, Measure};
pub use curvature::{CURVATURE_METRIC, Curvature};
pub use fixed::{Expert, Static};
pub use gns::{Gns, GnsRule};
pub use target::{Target, TargetPolicy};

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Error;
use crate::monitor::NoiseEstimate;

/// What a policy wants to be measured. Nothing is measured that no policy needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// The norm of each variable's gradient summed over the epoch (Accordion); costs one parameter-sized buffer and one
    /// addition per step.
    pub layer_norms: bool,
    /// The gradient noise scale; some steps split their batch in two, with one parameter-sized buffer.
    pub noise: bool,
    /// Decide every this many steps too, not only at the end of an epoch; each decision costs one host read.
    pub every_steps: Option<u64>,
}

/// What a policy knows when it decides. Nothing of the future is in it.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    /// The epoch that just ended, or the current one when `epoch_ended` is false; from 0.
    pub epoch: u64,
    /// Whether this is the end of an epoch.
    pub epoch_ended: bool,
    /// Epochs of the whole run.
    pub epochs: u64,
    /// Steps taken in all.
    pub step: u64,
    /// Samples seen in all.
    pub sample: u64,
    /// The batch size until now, in samples.
    pub batch: u64,
    /// The learning rate's schedule (without batch rule and warm-up) at the start of this epoch.
    pub lr: f64,
    /// The same at the start of the next epoch.
    pub next_lr: f64,
    /// The learning rate of the last step, with batch rule and warm-up.
    pub rate: f64,
    /// The epoch's metrics as given to `end_epoch`; those of the epoch before while an epoch goes on.
    pub metrics: &'a BTreeMap<String, f64>,
    /// Mean loss per sample over the epoch so far.
    pub loss: f64,
    /// L2 norm of each variable's gradient summed over the epoch's steps, in order of names. The sum is in units of
    /// steps at the initial batch size. Only when [`Needs::layer_norms`] asked for it and an epoch ended.
    pub layer_norms: Option<&'a [f64]>,
    /// The gradient noise scale, when [`Needs::noise`] asked for it and there are samples.
    pub noise: Option<&'a NoiseEstimate>,
}

/// A policy's answer: the batch size from now on, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The batch size in samples.
    pub batch: u64,
    /// The number that the decision rests on (a ratio of norms, a noise scale, ...), if there is one.
    pub estimate: Option<f64>,
    /// Its 95 % confidence interval, if known.
    pub interval: Option<(f64, f64)>,
    /// One sentence for people.
    pub reason: String,
}

impl Choice {
    /// A choice without an estimate.
    pub fn new(batch: u64, reason: impl Into<String>) -> Self {
        Self { batch, estimate: None, interval: None, reason: reason.into() }
    }
}

/// What can happen in a run under a policy: all that a forecast may use.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PolicyDeclaration {
    /// The policy's kind: "static", "expert", "accordion", "gns", or a user's own name.
    pub kind: String,
    /// The batch size at the start, in samples.
    pub initial: u64,
    /// Every batch size that can occur, ascending, in samples.
    pub configurations: Vec<u64>,
    /// Smallest batch size that the user allows.
    pub min: u64,
    /// Largest batch size that the user allows.
    pub max: u64,
    /// Whether the batch size can shrink again.
    pub can_shrink: bool,
    /// The epochs at which the batch size changes and to what, when that is fixed beforehand; else empty.
    pub schedule: Vec<(u64, u64)>,
}

/// A record of one change of the batch size.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Decision {
    /// The epoch in which the new batch size is first used.
    pub epoch: u64,
    /// Samples seen in all when it was decided.
    pub sample: u64,
    /// The batch size before.
    pub old_batch: u64,
    /// The batch size from now on.
    pub new_batch: u64,
    /// The number that the decision rests on.
    #[serde(with = "crate::json")]
    pub estimate: Option<f64>,
    /// Its 95 % confidence interval.
    #[serde(with = "crate::json")]
    pub interval: Option<(f64, f64)>,
    /// One sentence for people.
    pub reason: String,
}

/// A rule that sets the batch size of a running training. Implement it for a policy of your own.
pub trait BatchPolicy: Send {
    /// A stable name, kept in checkpoints: a checkpoint of another policy is refused.
    fn kind(&self) -> &str;

    /// The batch size that the run starts with, in samples.
    fn initial(&self) -> u64;

    /// What can happen; `min` and `max` are replaced by the user's bounds.
    fn declare(&self) -> PolicyDeclaration;

    /// What must be measured.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Refuses settings that make no sense; called once, before training.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The batch size from now on. Called at the end of every epoch, and every [`Needs::every_steps`] steps.
    ///
    /// # Errors
    /// Whatever keeps the policy from deciding; it ends the training.
    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error>;

    /// Everything that later decisions depend on. It becomes part of each checkpoint.
    fn state(&self) -> Value;

    /// The inverse of [`state`](Self::state).
    ///
    /// # Errors
    /// [`Error::Invalid`] when `state` does not come from this policy.
    fn restore(&mut self, state: &Value) -> Result<(), Error>;
}

impl BatchPolicy for Box<dyn BatchPolicy> {
    fn kind(&self) -> &str {
        (**self).kind()
    }

    fn initial(&self) -> u64 {
        (**self).initial()
    }

    fn declare(&self) -> PolicyDeclaration {
        (**self).declare()
    }

    fn needs(&self) -> Needs {
        (**self).needs()
    }

    fn check(&self) -> Result<(), Error> {
        (**self).check()
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        (**self).decide(now)
    }

    fn state(&self) -> Value {
        (**self).state()
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        (**self).restore(state)
    }
}

/// Reads a policy's or estimator's state back from JSON.
pub(crate) fn from_state<T: serde::de::DeserializeOwned>(
    what: &str,
    state: &Value,
) -> Result<T, Error> {
    serde_json::from_value(state.clone())
        .map_err(|e| Error::invalid(format!("the saved state of {what}"), e, "what it exported"))
}

/// Refuses a batch size of zero.
pub(crate) fn check_batch(what: &str, batch: u64) -> Result<(), Error> {
    if batch == 0 {
        return Err(Error::invalid(what, batch, "at least one sample"));
    }
    Ok(())
}

/// Refuses a batch size of zero, and a largest one below the initial one.
fn check_range(policy: &str, initial: u64, max: u64) -> Result<(), Error> {
    check_batch(&format!("{policy}'s initial batch"), initial)?;
    if max < initial {
        let expected = format!("at least the initial batch ({initial})");
        return Err(Error::invalid(format!("{policy}'s maximum"), max, expected));
    }
    Ok(())
}
