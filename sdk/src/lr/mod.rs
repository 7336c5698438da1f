//! The learning rate: a schedule over samples, times a rule for the batch size, with warm-up after each change.
//!
//! `lr = base_lr * schedule(samples) * rule(batch)`. Schedules count samples (or epochs, which are samples), not steps,
//! so a change of the batch size does not move their milestones.

mod rule;
mod schedule;

pub use rule::BatchRule;
pub(crate) use rule::gain;
pub use schedule::Schedule;

use serde::{Deserialize, Serialize};

use crate::Error;

/// How the learning rate follows the position in the data and the batch size.
pub struct LearningRate {
    schedule: Schedule,
    rule: BatchRule,
    warmup_epochs: f64,
    reference_batch: Option<u64>,
}

impl Default for LearningRate {
    /// Constant, linear in the batch size, without warm-up.
    fn default() -> Self {
        Self {
            schedule: Schedule::Constant,
            rule: BatchRule::Linear,
            warmup_epochs: 0.0,
            reference_batch: None,
        }
    }
}

impl LearningRate {
    /// Constant, linear in the batch size, without warm-up.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the schedule.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Sets the rule for the batch size.
    pub fn rule(mut self, rule: BatchRule) -> Self {
        self.rule = rule;
        self
    }

    /// After a change of the batch size, goes from the old to the new rate linearly over this many epochs' samples
    /// (Goyal et al. 2017 use 5 at the start of a large-batch run).
    pub fn warmup_epochs(mut self, epochs: f64) -> Self {
        self.warmup_epochs = epochs;
        self
    }

    /// The batch size that the optimiser's learning rate was chosen for (default: the policy's initial one). A run that
    /// starts above it begins at the base rate and warms up.
    pub fn reference_batch(mut self, batch: u64) -> Self {
        self.reference_batch = Some(batch);
        self
    }

    /// Checks the settings, and fixes the units: `samples` in an epoch, `initial` batch size.
    pub(crate) fn resolve(self, samples: u64, initial: u64) -> Result<Rate, Error> {
        if !(self.warmup_epochs >= 0.0 && self.warmup_epochs.is_finite()) {
            let expected = "a number of epochs, zero or more";
            return Err(Error::invalid("the warm-up", self.warmup_epochs, expected));
        }
        let reference = self.reference_batch.unwrap_or(initial);
        crate::policy::check_batch("the reference batch size", reference)?;
        self.schedule.check()?;
        let target = self.rule.factor(initial, reference, None);
        let start = if reference == initial { target } else { 1.0 };
        Ok(Rate {
            schedule: self.schedule,
            rule: self.rule,
            samples_per_epoch: samples,
            warmup_samples: self.warmup_epochs * samples as f64,
            reference,
            state: RateState { from: start, to: target, changed_at: 0 },
        })
    }
}

/// What the rate depends on besides its settings; part of each checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct RateState {
    /// The batch factor before the last change, and the one that the warm-up leads to.
    from: f64,
    to: f64,
    /// Samples seen in all at the last change.
    changed_at: u64,
}

/// A resolved [`LearningRate`].
pub(crate) struct Rate {
    schedule: Schedule,
    rule: BatchRule,
    samples_per_epoch: u64,
    warmup_samples: f64,
    reference: u64,
    state: RateState,
}

impl Rate {
    /// The schedule's factor after `samples` samples in all.
    pub(crate) fn schedule_at(&self, samples: u64) -> f64 {
        self.schedule.factor(samples as f64 / self.samples_per_epoch as f64)
    }

    /// The factor on the base rate after `samples` samples in all.
    pub(crate) fn at(&self, samples: u64) -> f64 {
        self.schedule_at(samples) * self.batch_factor(samples)
    }

    fn batch_factor(&self, samples: u64) -> f64 {
        let RateState { from, to, changed_at } = self.state;
        let since = samples.saturating_sub(changed_at) as f64;
        if since >= self.warmup_samples {
            return to;
        }
        from + (to - from) * since / self.warmup_samples
    }

    /// Follows a change of the batch size to `batch` after `samples` samples; `noise` is the noise scale, if known.
    pub(crate) fn change(&mut self, batch: u64, samples: u64, noise: Option<f64>) {
        let from = self.batch_factor(samples);
        let to = self.rule.factor(batch, self.reference, noise);
        self.state = RateState { from, to, changed_at: samples };
    }

    pub(crate) fn state(&self) -> RateState {
        self.state
    }

    pub(crate) fn restore(&mut self, state: RateState) {
        self.state = state;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn linear_rule_with_warm_up_goes_from_the_old_to_the_new_rate() {
        let mut rate = LearningRate::new().warmup_epochs(2.0).resolve(100, 32).unwrap();
        assert_eq!(rate.at(0), 1.0);
        rate.change(128, 500, None);
        assert_eq!(rate.at(500), 1.0);
        assert_eq!(rate.at(600), 2.5);
        assert_eq!(rate.at(700), 4.0);
        // A second change in the middle of the warm-up starts from where the rate is.
        rate.change(128, 500, None);
        rate.change(32, 600, None);
        assert_eq!(rate.at(600), 2.5);
        assert_eq!(rate.at(800), 1.0);
    }

    #[test]
    fn the_schedule_counts_samples_whatever_the_batch_size() {
        let steps = Schedule::Step(vec![(3.0, 0.1), (5.0, 0.01)]);
        let mut rate = LearningRate::new().schedule(steps).resolve(1000, 10).unwrap();
        assert_eq!(rate.at(2999), 1.0);
        rate.change(40, 2999, None);
        assert_eq!(rate.at(3000), 0.4);
        assert_eq!(rate.at(5000), 0.04);
    }

    #[test]
    fn a_run_that_starts_above_its_reference_batch_warms_up() {
        let rate =
            LearningRate::new().warmup_epochs(1.0).reference_batch(32).resolve(100, 64).unwrap();
        assert_eq!((rate.at(0), rate.at(50), rate.at(100)), (1.0, 1.5, 2.0));
    }

    #[test]
    fn the_other_rules() {
        let at = |rule| {
            let mut rate = LearningRate::new().rule(rule).resolve(100, 16).unwrap();
            rate.change(64, 0, Some(64.0));
            rate.at(0)
        };
        assert_eq!(at(BatchRule::None), 1.0);
        assert_eq!(at(BatchRule::Sqrt), 2.0);
        assert_eq!(at(BatchRule::Linear), 4.0);
        // (64/16 + 1) / (64/64 + 1)
        assert_eq!(at(BatchRule::AdaScale), 2.5);
        assert_eq!(at(BatchRule::user(|batch, reference| (batch + reference) as f64)), 80.0);
    }
}
