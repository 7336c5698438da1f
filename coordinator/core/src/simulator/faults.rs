//! What goes wrong in a simulation, drawn from a seed.
//!
//! Every node has streams of its own, so that another number of nodes changes no other node's
//! faults.

use std::str::FromStr;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What goes wrong, and how often. The default is that nothing does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Mean time between two losses of one node, seconds; infinite when none is lost.
    pub loss_s: f64,
    /// Mean time that a lost node is away, seconds.
    pub away_s: f64,
    /// Mean time between two slow spells of one node, seconds; infinite when none is slow.
    pub slow_s: f64,
    /// Mean length of a slow spell, seconds.
    pub spell_s: f64,
    /// How many times longer an epoch takes on a slow node, at least 1.
    pub factor: f64,
    /// Longest delay of a worker's message, seconds: each is delayed by up to this, in order.
    pub late_s: f64,
    /// Error of the forecasts: each job's remaining times are off by a factor drawn once from
    /// `1 - forecast ..= 1 + forecast`.
    pub forecast: f64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss_s: f64::INFINITY,
            away_s: 600.0,
            slow_s: f64::INFINITY,
            spell_s: 1800.0,
            factor: 2.0,
            late_s: 0.0,
            forecast: 0.0,
        }
    }
}

impl Faults {
    /// Whether something happens to nodes, workers or messages.
    #[must_use]
    pub fn touch_the_cluster(&self) -> bool {
        self.loss_s.is_finite() || self.slow_s.is_finite() || self.late_s > 0.0
    }
}

/// A description of faults that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("faults: got `{got}`, expected {expected}")]
pub struct FaultsError {
    /// The part that cannot be.
    pub got: String,
    /// What would be right.
    pub expected: &'static str,
}

/// The parts of a description.
const PARTS: &str = "parts separated by commas: loss=HOURS, away=SECONDS, slow=HOURS, \
                     spell=SECONDS, factor=X, late=SECONDS, forecast=PERCENT";

impl FromStr for Faults {
    type Err = FaultsError;

    /// Reads `loss=6,away=600,slow=8,spell=1800,factor=2,late=20,forecast=40`; what is not named
    /// keeps its default.
    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let mut faults = Self::default();
        for part in text.split(',') {
            let error = |expected| FaultsError { got: part.to_owned(), expected };
            let (name, value) = part.split_once('=').ok_or_else(|| error(PARTS))?;
            let number = |least: f64, expected: &'static str| {
                let value = value.trim().parse::<f64>().ok();
                value.filter(|v| v.is_finite() && *v >= least).ok_or_else(|| error(expected))
            };
            match name.trim() {
                "loss" => faults.loss_s = 3600.0 * number(1e-3, "hours, at least 0.001")?,
                "away" => faults.away_s = number(1.0, "seconds, at least 1")?,
                "slow" => faults.slow_s = 3600.0 * number(1e-3, "hours, at least 0.001")?,
                "spell" => faults.spell_s = number(1.0, "seconds, at least 1")?,
                "factor" => faults.factor = number(1.0, "a number, at least 1")?,
                "late" => faults.late_s = number(0.0, "seconds, 0 or more")?,
                "forecast" => faults.forecast = number(0.0, "percent, 0 or more")? / 100.0,
                _ => return Err(error(PARTS)),
            }
        }
        Ok(faults)
    }
}

/// How a node is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The machine is off, and somebody knows for certain.
    Off,
    /// The machine is off, and nobody can tell that from a cut.
    Silent,
    /// It cannot be reached; its processes go on.
    Cut,
}

/// One node's faults, in order.
#[derive(Clone, Debug)]
pub(crate) struct NodeFaults {
    faults: Faults,
    losses: ChaCha8Rng,
    spells: ChaCha8Rng,
}

impl NodeFaults {
    /// Those of the `node`-th node.
    pub(crate) fn new(faults: Faults, seed: u64, node: usize) -> Self {
        let stream = |kind| stream(seed, 2 * node as u64 + kind);
        Self { faults, losses: stream(1), spells: stream(2) }
    }

    /// The next loss: after how long, how, and for how long, seconds. `None`: never.
    pub(crate) fn next_loss(&mut self) -> Option<(f64, Loss, f64)> {
        if !self.faults.loss_s.is_finite() {
            return None;
        }
        let after_s = exponential(&mut self.losses, self.faults.loss_s);
        let kind = [Loss::Off, Loss::Silent, Loss::Cut][self.losses.random_range(0..3)];
        let away_s = exponential(&mut self.losses, self.faults.away_s);
        Some((after_s, kind, away_s))
    }

    /// The next slow spell: after how long and for how long, seconds. `None`: never.
    pub(crate) fn next_spell(&mut self) -> Option<(f64, f64)> {
        if !self.faults.slow_s.is_finite() {
            return None;
        }
        let after_s = exponential(&mut self.spells, self.faults.slow_s);
        Some((after_s, exponential(&mut self.spells, self.faults.spell_s)))
    }
}

/// Delays of messages.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    late_s: f64,
    rng: ChaCha8Rng,
}

impl Delays {
    pub(crate) fn new(faults: &Faults, seed: u64) -> Self {
        Self { late_s: faults.late_s, rng: stream(seed, 0) }
    }

    /// The next message's delay, seconds.
    pub(crate) fn next_s(&mut self) -> f64 {
        if self.late_s > 0.0 { self.rng.random_range(0.0..=self.late_s) } else { 0.0 }
    }
}

fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

fn exponential(rng: &mut ChaCha8Rng, mean: f64) -> f64 {
    -(1.0 - rng.random::<f64>()).ln() * mean
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_and_errors_name_the_part() {
        let faults: Faults = "loss=6, away=300,late=20,forecast=40".parse().unwrap();
        assert_eq!((faults.loss_s, faults.away_s), (21_600.0, 300.0));
        assert_eq!((faults.late_s, faults.forecast), (20.0, 0.4));
        assert!(faults.touch_the_cluster() && faults.slow_s.is_infinite());
        let wrong = |text: &str| Faults::from_str(text).unwrap_err().to_string();
        assert_eq!(
            wrong("late=20,factor=0.5"),
            "faults: got `factor=0.5`, expected a number, at least 1"
        );
        assert!(wrong("lost=3").contains("loss=HOURS"));
        assert!(wrong("loss").contains("got `loss`"));
    }

    #[test]
    fn losses_come_as_often_as_said() {
        let faults = Faults { loss_s: 1000.0, ..Faults::default() };
        let mut node = NodeFaults::new(faults, 7, 0);
        let count = 20_000;
        let (mut after, mut away) = (0.0, 0.0);
        for _ in 0..count {
            let (after_s, _, away_s) = node.next_loss().unwrap();
            after += after_s;
            away += away_s;
        }
        // Five standard errors of the mean of an exponential distribution.
        let tolerance = 5.0 / f64::from(count).sqrt();
        assert!((after / f64::from(count) / 1000.0 - 1.0).abs() < tolerance);
        assert!((away / f64::from(count) / 600.0 - 1.0).abs() < tolerance);
        assert!(node.next_spell().is_none());
    }
}
