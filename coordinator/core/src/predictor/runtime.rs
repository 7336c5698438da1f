//! Run times as distributions: mean, spread, quantiles and intervals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF, Normal};

/// One possible run time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Run time, seconds.
    pub time_s: f64,
    /// Its probability relative to the others, above 0.
    pub weight: f64,
}

/// A run time, seconds, as a distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunTime {
    /// Nothing is uncertain.
    Exact(f64),
    /// A Beta distribution with these shapes, stretched over `low_s..high_s`.
    Beta {
        /// Least possible, seconds.
        low_s: f64,
        /// Greatest possible, seconds.
        high_s: f64,
        /// First shape, above 0.
        a: f64,
        /// Second shape, above 0.
        b: f64,
    },
    /// Weighted outcomes in ascending order.
    Outcomes(Vec<Outcome>),
}

impl Default for RunTime {
    fn default() -> Self {
        Self::Exact(0.0)
    }
}

impl RunTime {
    /// The Beta distribution over `low_s..high_s` with this mean and standard deviation.
    ///
    /// A deviation that no distribution on that range can have is reduced to what it can.
    #[must_use]
    pub fn from_moments(mean_s: f64, sd_s: f64, low_s: f64, high_s: f64) -> Self {
        let range = high_s - low_s;
        let at = (mean_s - low_s) / range;
        let spread = sd_s / range;
        // Also false for NaN: an empty range.
        if !(range > 0.0 && at > 1e-6 && at < 1.0 - 1e-6 && spread > 1e-6) {
            return Self::Exact(mean_s);
        }
        // Below half a count in all, the Beta is two spikes at the ends and says nothing more.
        let count = (at * (1.0 - at) / (spread * spread) - 1.0).clamp(0.5, 1e6);
        Self::Beta { low_s, high_s, a: at * count, b: (1.0 - at) * count }
    }

    /// From outcomes in any order; those without weight or with a time that is no number are left
    /// out. Without any, it is [`RunTime::Exact`] of 0.
    #[must_use]
    pub fn from_outcomes(mut outcomes: Vec<Outcome>) -> Self {
        outcomes.retain(|o| o.weight > 0.0 && o.weight.is_finite() && o.time_s.is_finite());
        outcomes.sort_unstable_by(|x, y| x.time_s.total_cmp(&y.time_s));
        match (outcomes.first(), outcomes.last()) {
            (Some(first), Some(last)) if last.time_s - first.time_s > 1e-9 => {
                Self::Outcomes(outcomes)
            }
            (Some(first), _) => Self::Exact(first.time_s),
            _ => Self::default(),
        }
    }

    /// Mean, seconds.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        match self {
            Self::Exact(time_s) => *time_s,
            Self::Beta { low_s, high_s, a, b } => low_s + (high_s - low_s) * a / (a + b),
            Self::Outcomes(all) => {
                let weight: f64 = all.iter().map(|o| o.weight).sum();
                all.iter().map(|o| o.weight * o.time_s).sum::<f64>() / weight
            }
        }
    }

    /// Standard deviation, seconds.
    #[must_use]
    pub fn sd_s(&self) -> f64 {
        match self {
            Self::Exact(_) => 0.0,
            Self::Beta { low_s, high_s, a, b } => {
                (high_s - low_s) * (a * b / (a + b + 1.0)).sqrt() / (a + b)
            }
            Self::Outcomes(all) => {
                let mean = self.mean_s();
                let weight: f64 = all.iter().map(|o| o.weight).sum();
                let squares: f64 = all.iter().map(|o| o.weight * (o.time_s - mean).powi(2)).sum();
                (squares / weight).sqrt()
            }
        }
    }

    /// The time that is not exceeded with probability `p` (clamped to 0..1), seconds.
    #[must_use]
    pub fn quantile_s(&self, p: f64) -> f64 {
        let p = p.clamp(0.0, 1.0);
        match self {
            Self::Exact(time_s) => *time_s,
            Self::Beta { low_s, high_s, a, b } => {
                low_s + (high_s - low_s) * beta_quantile(*a, *b, p)
            }
            Self::Outcomes(all) => outcome_quantile_s(all, p),
        }
    }

    /// The central interval that holds the run time with probability `p`, for example 0.9.
    ///
    /// Outcomes are few and lumped, one for each course that the regimes may take; an interval from
    /// quantile to quantile would take in the whole of a lump at either end and hold more than `p`.
    /// An end lies on the lump whose middle the level reaches (the mid-P rule: Lancaster 1961).
    #[must_use]
    pub fn interval_s(&self, p: f64) -> (f64, f64) {
        let tail = (1.0 - p.clamp(0.0, 1.0)) / 2.0;
        if let Self::Outcomes(all) = self {
            let goal = tail * all.iter().map(|o| o.weight).sum::<f64>();
            let low_s = middle_reaching(all.iter(), goal);
            let high_s = middle_reaching(all.iter().rev(), goal);
            return low_s.zip(high_s).unwrap_or_default();
        }
        (self.quantile_s(tail), self.quantile_s(1.0 - tail))
    }
}

/// Quantile of a Beta distribution. A concentrated one is close to a normal distribution, whose
/// quantiles are a hundred times cheaper.
fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    let mean = a / (a + b);
    let normal = a.min(b) > 50.0 && p > 0.0 && p < 1.0;
    let quantile = if normal {
        let sd = (mean * (1.0 - mean) / (a + b + 1.0)).sqrt();
        Normal::new(mean, sd).ok().map(|normal| normal.inverse_cdf(p))
    } else {
        Beta::new(a, b).ok().map(|beta| beta.inverse_cdf(p))
    };
    quantile.map_or(mean, |at| at.clamp(0.0, 1.0))
}

/// The least outcome at which at least `p` of the weight is reached.
fn outcome_quantile_s(outcomes: &[Outcome], p: f64) -> f64 {
    let goal = p * outcomes.iter().map(|o| o.weight).sum::<f64>();
    let mut below = 0.0;
    for outcome in outcomes {
        below += outcome.weight;
        if below >= goal {
            return outcome.time_s;
        }
    }
    outcomes.last().map_or(0.0, |last| last.time_s)
}

/// The first outcome, as they come, up to whose middle at least `goal` of the weight lies.
fn middle_reaching<'a>(outcomes: impl Iterator<Item = &'a Outcome>, goal: f64) -> Option<f64> {
    let mut before = 0.0;
    let mut last_s = None;
    for outcome in outcomes {
        last_s = Some(outcome.time_s);
        if before + 0.5 * outcome.weight >= goal {
            break;
        }
        before += outcome.weight;
    }
    last_s
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of lumped outcomes, an end is taken in when its middle lies within the level: over all levels
    /// an interval then holds as much as its level says, where quantiles would hold more.
    #[test]
    fn intervals_of_lumped_outcomes_hold_their_level_on_average() {
        let all = [(1.0, 2.0), (2.0, 5.0), (3.0, 1.0), (7.0, 9.0), (9.0, 3.0)];
        let outcomes = all.map(|(time_s, weight)| Outcome { time_s, weight });
        let time = RunTime::from_outcomes(outcomes.to_vec());
        let held = |(low, high): (f64, f64)| -> f64 {
            let within = |o: &&Outcome| o.time_s >= low && o.time_s <= high;
            outcomes.iter().filter(within).map(|o| o.weight).sum::<f64>() / 20.0
        };
        // By hand: of 20 parts, 1 at either end is outside; the lump of 2 at 1.0 is halved by it.
        assert_eq!(time.interval_s(0.9), (1.0, 9.0));
        // 2 at either end: the middle of the first lump is at 1, that of the last at 1.5.
        assert_eq!(time.interval_s(0.8), (2.0, 7.0));
        let levels = (1..1000).map(|step| f64::from(step) / 1000.0);
        let excess: f64 = levels.map(|level| held(time.interval_s(level)) - level).sum();
        assert!((excess / 999.0).abs() < 0.07, "{}", excess / 999.0);
    }

    #[test]
    fn moments_come_back() {
        let time = RunTime::from_moments(30.0, 5.0, 10.0, 60.0);
        assert!((time.mean_s() - 30.0).abs() < 1e-9);
        assert!((time.sd_s() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn uniform_is_the_beta_of_one_and_one() {
        // Uniform on 0..12: mean 6, sd 12/sqrt(12).
        let time = RunTime::from_moments(6.0, 12.0 / 12f64.sqrt(), 0.0, 12.0);
        let (low, high) = time.interval_s(0.9);
        assert!((low - 0.6).abs() < 1e-6 && (high - 11.4).abs() < 1e-6, "{low} {high}");
    }

    #[test]
    fn concentrated_beta_is_close_to_normal() {
        for p in [0.05, 0.5, 0.9] {
            let exact = Beta::new(60.0, 140.0).map_or(f64::NAN, |beta| beta.inverse_cdf(p));
            assert!((beta_quantile(60.0, 140.0, p) - exact).abs() < 2e-3);
        }
    }

    #[test]
    fn outcomes_are_ordered_and_weighted() {
        let outcome = |time_s, weight| Outcome { time_s, weight };
        let time = RunTime::from_outcomes(vec![outcome(8.0, 1.0), outcome(2.0, 3.0)]);
        assert_eq!(time.mean_s(), 3.5);
        assert_eq!(time.quantile_s(0.75), 2.0);
        assert_eq!(time.quantile_s(0.76), 8.0);
        assert!((time.sd_s() - (6.75f64).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn nothing_uncertain_is_exact() {
        assert_eq!(RunTime::from_moments(5.0, 0.0, 5.0, 5.0), RunTime::Exact(5.0));
        assert_eq!(RunTime::from_outcomes(vec![]), RunTime::Exact(0.0));
    }
}
