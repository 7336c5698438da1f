//! What can be set of the market policies, by the symbols of the paper.

use serde::{Deserialize, Serialize};

use super::{Policy, REGISTRY, Shockwave, ShockwavePaper, by_name};
use crate::market::Horizon;

/// Most trajectories of a job that a plan is made for.
pub const SAMPLES_MAX: usize = 1024;
/// Most rounds of a window.
const ROUNDS_MAX: usize = 1000;
/// Largest power of rho in a budget: beyond it budgets leave the range of numbers.
const K_MAX: f64 = 64.0;

/// Seed of the trajectories: the same for every plan, so that plans do not change by themselves.
pub(super) const SAMPLES_SEED: u64 = 1;

/// Settings of a market policy. `None` leaves the policy's own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// T: rounds of the planning window (section 6.1).
    pub rounds: Option<usize>,
    /// k: the power of rho in a job's budget (eq. 2).
    pub k: Option<f64>,
    /// lambda: the weight of the makespan estimate (eq. 2).
    pub lambda: Option<f64>,
    /// Trajectories of each job that the policy `shockwave` plans for (appendix F); 1: the
    /// posterior mean.
    pub samples: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { rounds: None, k: None, lambda: None, samples: 1 }
    }
}

/// A policy that cannot be.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PolicyError {
    /// A name that does not exist.
    #[error("there is no policy {got:?}, expected one of {}", names())]
    Name {
        /// What was asked for.
        got: String,
    },
    /// A number of trajectories that cannot be.
    #[error(
        "policy {name} cannot plan over {got} samples, expected 1, or 2 to {SAMPLES_MAX} with \
         policy shockwave"
    )]
    Samples {
        /// The policy.
        name: String,
        /// What was asked for.
        got: usize,
    },
    /// A setting of the market for a policy that has none.
    #[error("policy {name} has no market to set T, k or lambda of, expected one of shockwave's")]
    NoMarket {
        /// The policy.
        name: String,
    },
    /// A setting out of its range.
    #[error("{symbol} is {got}, expected {expected}")]
    Range {
        /// The symbol.
        symbol: &'static str,
        /// What was asked for.
        got: f64,
        /// What would be right.
        expected: &'static str,
    },
}

/// Names of all policies.
#[must_use]
pub fn names() -> String {
    REGISTRY.iter().map(|entry| entry.0).collect::<Vec<_>>().join(", ")
}

impl Tuning {
    /// A horizon with these settings.
    fn of(&self, own: Horizon) -> Result<Horizon, PolicyError> {
        let range = |symbol, got, expected| Err(PolicyError::Range { symbol, got, expected });
        let horizon = Horizon {
            rounds: self.rounds.unwrap_or(own.rounds),
            k: self.k.unwrap_or(own.k),
            lambda: self.lambda.unwrap_or(own.lambda),
        };
        if !(1..=ROUNDS_MAX).contains(&horizon.rounds) {
            return range("T", horizon.rounds as f64, "1 to 1000 rounds");
        }
        if !(0.0..=K_MAX).contains(&horizon.k) {
            return range("k", horizon.k, "a number from 0 to 64");
        }
        if !(horizon.lambda.is_finite() && horizon.lambda >= 0.0) {
            return range("lambda", horizon.lambda, "a finite number, 0 or more");
        }
        Ok(horizon)
    }

    /// What of these settings the policy `name` has: those of the market leave the others as they
    /// are, so that policies can be compared with a market that is set otherwise.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        let (market, paper) = (Shockwave::default(), ShockwavePaper::default());
        if name == market.name() {
            *self
        } else if name == paper.name() {
            Self { samples: 1, ..*self }
        } else {
            Self::default()
        }
    }

    fn sets_market(&self) -> bool {
        self.rounds.is_some() || self.k.is_some() || self.lambda.is_some()
    }
}

/// Makes a policy by its name, with settings of its market.
///
/// # Errors
/// [`PolicyError`] when there is none of that name, or when it cannot be set so.
pub fn tuned(name: &str, tuning: &Tuning) -> Result<Box<dyn Policy>, PolicyError> {
    let policy = by_name(name).ok_or_else(|| PolicyError::Name { got: name.to_owned() })?;
    let (market, paper) = (Shockwave::default(), ShockwavePaper::default());
    let samples = tuning.samples;
    let may_sample = policy.name() == market.name() && (1..=SAMPLES_MAX).contains(&samples);
    if samples != 1 && !may_sample {
        return Err(PolicyError::Samples { name: name.to_owned(), got: samples });
    }
    if policy.name() == market.name() {
        let mut market = market;
        (market.horizon, market.samples) = (tuning.of(market.horizon)?, samples);
        return Ok(Box::new(market));
    }
    if policy.name() == paper.name() {
        let mut paper = paper;
        paper.horizon = tuning.of(paper.horizon)?;
        return Ok(Box::new(paper));
    }
    if tuning.sets_market() {
        return Err(PolicyError::NoMarket { name: name.to_owned() });
    }
    Ok(policy)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_policy_takes_samples() {
        let with = |name, samples| tuned(name, &Tuning { samples, ..Tuning::default() });
        assert_eq!(with("shockwave", 16).unwrap().samples(), 16);
        assert_eq!(with("fifo", 1).unwrap().samples(), 1);
        for (name, samples) in [("fifo", 2), ("shockwave", 0), ("shockwave", 1_000_000)] {
            let error = with(name, samples).err().unwrap();
            assert_eq!(error, PolicyError::Samples { name: name.into(), got: samples });
        }
        let error = with("shock", 1).err().unwrap().to_string();
        assert!(error.contains("\"shock\"") && error.contains("list-rule"), "{error}");
    }

    #[test]
    fn a_comparison_sets_of_each_policy_what_it_has() {
        let all = Tuning { rounds: Some(5), samples: 8, ..Tuning::default() };
        assert_eq!(all.within("shockwave"), all);
        assert_eq!(all.within("shockwave-paper"), Tuning { samples: 1, ..all });
        for (name, _) in REGISTRY {
            assert!(tuned(name, &all.within(name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn markets_alone_have_a_window() {
        let window = Tuning { rounds: Some(5), ..Tuning::default() };
        assert!(tuned("shockwave", &window).is_ok() && tuned("shockwave-paper", &window).is_ok());
        let error = tuned("gavel", &window).err().unwrap();
        assert_eq!(error, PolicyError::NoMarket { name: "gavel".into() });
        for (tuning, expected) in [
            (Tuning { rounds: Some(0), ..Tuning::default() }, "T is 0, expected 1 to 1000 rounds"),
            (Tuning { k: Some(-1.0), ..Tuning::default() }, "k is -1"),
            (Tuning { lambda: Some(f64::NAN), ..Tuning::default() }, "lambda is NaN"),
        ] {
            let error = tuned("shockwave", &tuning).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
