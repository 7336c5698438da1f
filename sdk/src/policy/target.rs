//! Policies that compute a target batch size from the gradient's noise and follow it on a ladder.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ladder::Ladder;
use super::{BatchPolicy, Choice, Needs, Observation, PolicyDeclaration, check_range, from_state};
use crate::Error;

/// How the target follows from what is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// The norm test (Byrd et al. 2012; Bollapragada et al. 2018): the gradient's variance stays below `theta^2` times
    /// its squared norm, so the batch is at least `B_noise / theta^2`. Not valid where BatchNorm couples samples.
    NormTest {
        /// The allowed ratio of deviation to norm, in (0, 1] usually.
        theta: f64,
    },
    /// Coupled adaptive batch size (Balles et al. 2017): `B = lr tr(Sigma) / loss`. Only for losses that are positive
    /// and go towards zero, and plain SGD.
    Cabs,
    /// Gradient diversity (Yin et al. 2018, DiveBatch 2025): up to `scale (1 + B_noise)` samples, the batch below which
    /// parallel samples are not wasted.
    Diversity {
        /// The share of the bound to use, in (0, 1] usually.
        scale: f64,
    },
    /// SimiGrad (Qin et al. 2021): keeps the cosine between the gradients of two halves of a batch at `cosine`; one rung
    /// up when it is less alike, one down when more. `E[cos]` is about `1 / (1 + 2 B_noise / B)`.
    SimiGrad {
        /// The wanted cosine, in (0, 1).
        cosine: f64,
    },
}

/// Follows a [`Target`] between two batch sizes, a step on the ladder only when the target has passed it clearly.
#[derive(Debug, Clone)]
pub struct TargetPolicy {
    target: Target,
    initial: u64,
    ladder: Ladder,
    max: u64,
    hysteresis: f64,
    every_steps: Option<u64>,
    state: State,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    /// Sampled steps behind the estimate at the last change: the next change waits for new ones.
    samples: u64,
}

/// Sampled steps that an estimate at a new batch size must rest on before the next change.
const FRESH_SAMPLES: u64 = 10;

impl TargetPolicy {
    /// From `initial` samples, in doublings up to `max`, deciding at the end of each epoch.
    pub fn new(target: Target, initial: u64, max: u64) -> Self {
        let ladder = Ladder::new(initial, max, 2.0);
        let (hysteresis, every_steps, state) = (0.05, None, State::default());
        Self { target, initial, ladder, max, hysteresis, every_steps, state }
    }

    /// The factor between two rungs, above 1 (default 2).
    pub fn factor(mut self, factor: f64) -> Self {
        self.ladder = Ladder::new(self.initial, self.max, factor.max(1.0));
        self
    }

    /// The share by which a rung must be passed before the batch changes (default 0.05).
    pub fn hysteresis(mut self, share: f64) -> Self {
        self.hysteresis = share;
        self
    }

    /// Decides every this many steps too; each decision costs one host read.
    pub fn every_steps(mut self, steps: u64) -> Self {
        self.every_steps = Some(steps);
        self
    }

    /// The range in which the target lies, and the estimate with its interval if it is one of the noise scale.
    fn range(&self, now: &Observation<'_>) -> Option<(f64, f64)> {
        let noise = now.noise?;
        let (low, high) = noise.interval;
        match self.target {
            Target::NormTest { theta } => Some((low / (theta * theta), high / (theta * theta))),
            Target::Diversity { scale } => Some((scale * (1.0 + low), scale * (1.0 + high))),
            Target::Cabs => {
                let target = now.rate * noise.s / now.loss;
                (target.is_finite() && target > 0.0).then_some((target, target))
            }
            Target::SimiGrad { .. } => None,
        }
    }

    fn follow(&self, batch: u64, (low, high): (f64, f64)) -> u64 {
        let h = 1.0 + self.hysteresis;
        if let Some(larger) = self.ladder.fit(low / h).filter(|&rung| rung > batch) {
            return larger;
        }
        if batch as f64 > high * h {
            return self.ladder.fit(high).unwrap_or(self.initial).min(batch);
        }
        batch
    }

    fn simigrad(&self, batch: u64, cosine: f64, wanted: f64) -> u64 {
        if cosine < wanted - self.hysteresis * wanted {
            self.ladder.above(batch)
        } else if cosine > wanted + self.hysteresis * wanted {
            self.ladder.below(batch)
        } else {
            batch
        }
    }
}

impl BatchPolicy for TargetPolicy {
    fn kind(&self) -> &str {
        match self.target {
            Target::NormTest { .. } => "norm-test",
            Target::Cabs => "cabs",
            Target::Diversity { .. } => "gradient-diversity",
            Target::SimiGrad { .. } => "simigrad",
        }
    }

    fn initial(&self) -> u64 {
        self.initial
    }

    fn declare(&self) -> PolicyDeclaration {
        self.ladder.declaration(self.kind(), (self.initial, self.max), true)
    }

    fn needs(&self) -> Needs {
        Needs { noise: true, every_steps: self.every_steps, ..Needs::default() }
    }

    fn check(&self) -> Result<(), Error> {
        check_range(&format!("the {} policy", self.kind()), self.initial, self.max)?;
        let positive = |what: &str, value: f64, below: f64| {
            if value > 0.0 && value < below {
                return Ok(());
            }
            Err(Error::invalid(what, value, format!("a number above 0 and below {below}")))
        };
        if !(0.0..1.0).contains(&self.hysteresis) {
            return Err(Error::invalid("the hysteresis", self.hysteresis, "a number in [0, 1)"));
        }
        match self.target {
            Target::NormTest { theta } => positive("theta", theta, f64::INFINITY),
            Target::Diversity { scale } => positive("the scale", scale, f64::INFINITY),
            Target::SimiGrad { cosine } => positive("the cosine", cosine, 1.0),
            Target::Cabs => Ok(()),
        }
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        let Some(noise) = now.noise else {
            return Ok(Choice::new(now.batch, "no sample of the gradient's noise yet"));
        };
        if noise.samples < self.state.samples + FRESH_SAMPLES {
            return Ok(Choice::new(now.batch, "too few samples since the last change"));
        }
        let (batch, estimate, interval, reason) = if let Target::SimiGrad { cosine } = self.target {
            let batch = self.simigrad(now.batch, noise.cosine, cosine);
            let reason = format!("cosine {:.3}, wanted {cosine}", noise.cosine);
            (batch, noise.cosine, None, reason)
        } else if let Some(range) = self.range(now) {
            let reason = format!("target between {:.0} and {:.0} samples", range.0, range.1);
            (self.follow(now.batch, range), noise.b_noise, Some(noise.interval), reason)
        } else {
            return Ok(Choice::new(now.batch, "no target: the loss is not above zero"));
        };
        if batch != now.batch {
            self.state.samples = noise.samples;
        }
        let estimate = estimate.is_finite().then_some(estimate);
        Ok(Choice { batch, estimate, interval, reason: format!("{}: {reason}", self.kind()) })
    }

    fn state(&self) -> Value {
        // A plain struct of integers always has a JSON form.
        serde_json::to_value(&self.state).unwrap_or(Value::Null)
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        self.state = from_state(self.kind(), state)?;
        Ok(())
    }
}
