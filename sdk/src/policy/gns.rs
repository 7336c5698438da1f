//! Batch size from the gradient noise scale (McCandlish et al., "An empirical model of large-batch training", 2018).
//!
//! The noise scale alone is an unreliable proxy of the critical batch size (arXiv 2505.23971): it is used inside the
//! user's bounds, and with its confidence interval.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ladder::Ladder;
use super::{BatchPolicy, Choice, Needs, Observation, PolicyDeclaration, check_range, from_state};
use crate::Error;
use crate::monitor::NoiseEstimate;

/// When the noise scale changes the batch size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GnsRule {
    /// Shockwave's rule: every `period` epochs, double when the noise scale exceeds the mean of its last `period`
    /// epochs. Never shrinks.
    Doubling {
        /// Epochs between two checks (10), and the length of the mean.
        period: u64,
    },
    /// Theory's rule: the largest batch on the ladder that is at most `kappa` times the lower end of the noise scale's
    /// confidence interval. Shrinks when the batch exceeds `kappa` times its upper end.
    Bound {
        /// The batch per noise scale (1: half of the steps' progress is lost to noise).
        kappa: f64,
        /// The share by which the bound must be passed before the batch changes (0.05).
        hysteresis: f64,
        /// Whole epochs that a batch size is kept at least (1 or more).
        dwell: u64,
    },
}

/// Grows the batch from `initial` by doublings up to `max` as the gradient noise scale grows.
#[derive(Debug, Clone)]
pub struct Gns {
    initial: u64,
    max: u64,
    ladder: Ladder,
    rule: GnsRule,
    state: GnsState,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct GnsState {
    /// The noise scale at the end of each of the last epochs; only finite ones.
    history: VecDeque<f64>,
    /// Ends of epochs since the last change.
    kept: u64,
}

impl Gns {
    /// Shockwave's doubling rule with a period of 10 epochs.
    pub fn new(initial: u64, max: u64) -> Self {
        let (ladder, rule) = (Ladder::new(initial, max, 2.0), GnsRule::Doubling { period: 10 });
        Self { initial, max, ladder, rule, state: GnsState::default() }
    }

    /// Sets the rule.
    pub fn rule(mut self, rule: GnsRule) -> Self {
        self.rule = rule;
        self
    }

    fn double(&mut self, now: &Observation<'_>, noise: f64, period: u64) -> (u64, String) {
        let history = &self.state.history;
        let mean = history.iter().sum::<f64>() / history.len() as f64;
        let checks = now.epoch > 0 && now.epoch.is_multiple_of(period) && !history.is_empty();
        let result = if !checks {
            (now.batch, format!("no check at epoch {}", now.epoch))
        } else if noise.is_finite() && noise > mean {
            let reason =
                format!("noise scale {noise:.1} above its mean {mean:.1} of {period} epochs");
            (self.ladder.above(now.batch), reason)
        } else {
            (now.batch, format!("noise scale {noise:.1} not above its mean {mean:.1}"))
        };
        if noise.is_finite() {
            self.state.history.push_back(noise);
        }
        while self.state.history.len() as u64 > period {
            self.state.history.pop_front();
        }
        result
    }

    fn bound(&self, batch: u64, noise: &NoiseEstimate, kappa: f64, h: f64) -> (u64, String) {
        let (low, high) = (kappa * noise.interval.0, kappa * noise.interval.1);
        if let Some(larger) = self.ladder.fit(low / (1.0 + h)).filter(|&b| b > batch) {
            return (larger, format!("at most {kappa} times the noise scale's lower bound"));
        }
        if batch as f64 > high * (1.0 + h) {
            let smaller = self.ladder.fit(high).unwrap_or(self.initial).min(batch);
            return (smaller, format!("above {kappa} times the noise scale's upper bound"));
        }
        (batch, "within the noise scale's interval".to_owned())
    }
}

impl BatchPolicy for Gns {
    fn kind(&self) -> &str {
        "gns"
    }

    fn initial(&self) -> u64 {
        self.initial
    }

    fn declare(&self) -> PolicyDeclaration {
        let can_shrink = matches!(self.rule, GnsRule::Bound { .. });
        self.ladder.declaration(self.kind(), (self.initial, self.max), can_shrink)
    }

    fn needs(&self) -> Needs {
        Needs { noise: true, ..Needs::default() }
    }

    fn check(&self) -> Result<(), Error> {
        check_range("the noise-scale policy", self.initial, self.max)?;
        match self.rule {
            GnsRule::Doubling { period: 0 } => {
                Err(Error::invalid("the doubling rule's period", 0, "at least one epoch"))
            }
            GnsRule::Bound { kappa, .. } if !(kappa > 0.0 && kappa.is_finite()) => {
                Err(Error::invalid("kappa", kappa, "a number above 0"))
            }
            GnsRule::Bound { hysteresis, .. } if !(0.0..1.0).contains(&hysteresis) => {
                Err(Error::invalid("the hysteresis", hysteresis, "a number in [0, 1)"))
            }
            GnsRule::Bound { dwell: 0, .. } => {
                Err(Error::invalid("the dwell", 0, "at least one epoch"))
            }
            _ => Ok(()),
        }
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        let (true, Some(noise)) = (now.epoch_ended, now.noise) else {
            return Ok(Choice::new(now.batch, "no sample of the noise scale yet"));
        };
        self.state.kept += 1;
        let (batch, reason) = match self.rule {
            GnsRule::Doubling { period } => self.double(now, noise.b_noise, period),
            GnsRule::Bound { dwell, .. } if self.state.kept < dwell => {
                (now.batch, format!("kept for {dwell} epochs at least"))
            }
            GnsRule::Bound { kappa, hysteresis, .. } => {
                self.bound(now.batch, noise, kappa, hysteresis)
            }
        };
        if batch != now.batch {
            self.state.kept = 0;
        }
        let estimate = noise.b_noise.is_finite().then_some(noise.b_noise);
        Ok(Choice { batch, estimate, interval: Some(noise.interval), reason })
    }

    fn state(&self) -> Value {
        // A plain struct of finite numbers always has a JSON form.
        serde_json::to_value(&self.state).unwrap_or(Value::Null)
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        self.state = from_state("the noise-scale policy", state)?;
        Ok(())
    }
}
