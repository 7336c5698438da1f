//! The mixture of trajectories that a job may take, and how its parts are trusted.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::analogy::{AHEAD, Candidate, Mapping, Target};
use super::history::{LEVELS, Record};
use crate::predictor::rules::{Ahead, UPPER};
use crate::predictor::runtime::Outcome;
use crate::predictor::throughput::{EpochModel, Estimate};
use crate::predictor::{Forecast, RegimeForecast, RunTime, sampling};
use crate::types::JobProgress;

/// Parts of the mixture: the prior, then each degree of likeness by epochs and by fraction.
const PARTS: usize = 2 + 2 * LEVELS;
/// Regimes for which what was learnt counts at most: habits may change.
const MEMORY: f64 = 200.0;
/// Weights before anything was learnt: the flat prior (weak, since even one record of a like job
/// tells more), no change at all, then each degree of likeness. Changes that come at the same epochs mean little between families.
const PRIOR: [f64; PARTS] = [0.2, 2.0, 16.0, 16.0, 16.0, 16.0, 8.0, 8.0, 0.0, 1.5];
/// For how many regimes that belief counts.
const PRIOR_REGIMES: f64 = 4.0;

/// Trajectories of less weight are left out.
const NEGLIGIBLE: f64 = 1e-4;

/// How often each part of the mixture is right: the weights that parts have in a mixture of which
/// not every one has something to say on every regime (Plackett and Luce's model of choice).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trust {
    weights: [f64; PARTS],
    /// Regimes that a part explained, in expectation.
    wins: [f64; PARTS],
    /// Regimes that it could have explained, each over the weight of all parts that could.
    chances: [f64; PARTS],
}

impl Default for Trust {
    fn default() -> Self {
        let wins = PRIOR.map(|weight| weight * PRIOR_REGIMES);
        Self { weights: PRIOR, wins, chances: [PRIOR_REGIMES; PARTS] }
    }
}

impl Trust {
    /// Learns from a regime that has ended: its likelihood under each part, if that part had
    /// something to say.
    pub(super) fn learn(&mut self, likelihood: &[Option<f64>; PARTS]) {
        let parts = || self.weights.iter().zip(likelihood);
        let awake: f64 = parts().filter(|(_, l)| l.is_some()).map(|(w, _)| w).sum();
        let sum: f64 = parts().filter_map(|(w, l)| l.map(|l| w * l)).sum();
        if !(awake > 0.0 && sum > 0.0) {
            return;
        }
        let fade = if self.chances[0] > MEMORY { 1.0 - 1.0 / MEMORY } else { 1.0 };
        for (part, likelihood) in likelihood.iter().enumerate() {
            if let Some(likelihood) = likelihood {
                self.wins[part] = fade * self.wins[part] + self.weights[part] * likelihood / sum;
                self.chances[part] = fade * self.chances[part] + 1.0 / awake;
                self.weights[part] = self.wins[part] / self.chances[part];
            }
        }
    }
}

/// Likelihood of a regime under each part, from just before it (`start`) to its end (`end`), over
/// that under the flat prior.
pub(super) fn likelihood(
    start: &Target,
    end: &Target,
    alike: &[(usize, &Record)],
) -> [Option<f64>; PARTS] {
    let mut sums = [(0.0, 0.0); PARTS];
    for (level, record) in alike {
        for mapping in [Mapping::Epochs, Mapping::Fraction] {
            let sum = &mut sums[part(*level, mapping)];
            sum.0 += start.evidence(record, mapping);
            sum.1 += end.evidence(record, mapping);
        }
    }
    let mut likelihood = sums.map(|(before, after)| (before > 0.0).then(|| after / before));
    likelihood[0] = Some(1.0);
    likelihood[1] = Some(end.never().evidence / start.never().evidence);
    likelihood
}

fn part(level: usize, mapping: Mapping) -> usize {
    2 + 2 * level + usize::from(mapping == Mapping::Fraction)
}

/// A trajectory with its weight.
#[derive(Clone, Debug)]
struct Weighted {
    part: usize,
    weight: f64,
    candidate: Candidate,
}

/// Weighted trajectories.
#[derive(Clone, Debug)]
pub(super) struct Mixture {
    /// Weight of the prior's part; all weights sum to 1.
    flat_weight: f64,
    /// What the restatement rule expects.
    flat: [f64; AHEAD],
    flat_regimes: usize,
    candidates: Vec<Weighted>,
}

impl Mixture {
    /// Weighs what the restatement rule expects and every record by what the target has shown.
    pub(super) fn new(
        target: &Target,
        restated: &Ahead,
        alike: &[(usize, &Record)],
        trust: &Trust,
    ) -> Self {
        let mut candidates: Vec<Weighted> = Vec::with_capacity(2 * alike.len());
        let mut count = [0.0; PARTS];
        let never = trust.weights[1] / (trust.weights[0] + trust.weights[1]);
        if !alike.is_empty() {
            let candidate = target.never();
            candidates.push(Weighted { part: 1, weight: candidate.evidence, candidate });
        }
        for (level, record) in alike {
            for mapping in [Mapping::Epochs, Mapping::Fraction] {
                let part = part(*level, mapping);
                if trust.weights[part] > 0.0
                    && let Some(candidate) = target.like(record, mapping, never)
                {
                    count[part] += candidate.telling;
                    let weight = candidate.evidence * candidate.telling;
                    candidates.push(Weighted { part, weight, candidate });
                }
            }
        }
        let mut sum = trust.weights[0];
        for weighted in &mut candidates {
            // One record is half a reason to believe in its part, n are n / (n + 1).
            weighted.weight *= trust.weights[weighted.part];
            if weighted.part > 1 {
                weighted.weight /= count[weighted.part] + 1.0;
            }
            sum += weighted.weight;
        }
        candidates.iter_mut().for_each(|weighted| weighted.weight /= sum);
        let flat_weight = trust.weights[0] / sum;
        // What the target's own regimes have ruled out.
        candidates.retain(|weighted| weighted.weight > NEGLIGIBLE);
        let mut flat = [0.0; AHEAD];
        for (index, epochs) in restated.epochs.iter().enumerate() {
            flat[index.min(AHEAD - 1)] += epochs;
        }
        let kept = flat_weight + candidates.iter().map(|weighted| weighted.weight).sum::<f64>();
        candidates.iter_mut().for_each(|weighted| weighted.weight /= kept);
        let (flat_weight, flat_regimes) = (flat_weight / kept, restated.epochs.len());
        Self { flat_weight, flat, flat_regimes, candidates }
    }

    fn mean_epochs(&self) -> [f64; AHEAD] {
        let mut mean = self.flat.map(|epochs| epochs * self.flat_weight);
        for Weighted { weight, candidate, .. } in &self.candidates {
            for (sum, epochs) in mean.iter_mut().zip(&candidate.epochs) {
                *sum += weight * epochs;
            }
        }
        mean
    }

    /// The mean trajectory and the distribution of its run time, where measured epochs are known to
    /// differ by `noise`, relative. What is planned with (`left_sd_s`, `left_upper_s`) allows for
    /// 1 % whatever was learnt: a plan has to hold on a machine that is a little slower than it was.
    pub(super) fn forecast(
        &self,
        target: &Target,
        progress: &JobProgress,
        model: &EpochModel,
        noise: f64,
    ) -> Forecast {
        let times = target.batches.map(|batch| model.epoch(batch));
        let mean = self.mean_epochs();
        let mut regimes: Vec<RegimeForecast> = (target.batches.iter().zip(mean).zip(&times))
            .map(|((batch, epochs), time)| RegimeForecast {
                batch: *batch,
                epochs,
                epoch_s: time.mean_s,
            })
            .collect();
        while regimes.len() > 1 && regimes.last().is_some_and(|r| r.epochs <= 1e-9) {
            regimes.pop();
        }
        let left_s: f64 = regimes.iter().map(|r| r.epochs * r.epoch_s).sum();
        let planned = self.left(&times);
        let learnt = target.batches.map(|batch| model.epoch_with_noise(batch, noise));
        Forecast {
            left_s,
            left_sd_s: planned.sd_s(),
            left_upper_s: planned.quantile_s(UPPER).max(left_s),
            total_s: progress.attained_s + left_s,
            left: self.left(&learnt),
            regimes,
        }
    }

    /// The remaining time, when epochs of the regimes ahead take `times`.
    fn left(&self, times: &[Estimate; AHEAD]) -> RunTime {
        let mut outcomes = Vec::with_capacity(6 * self.candidates.len() + 24);
        let mut add = |weight: f64, epochs: &[f64; AHEAD], spread: f64| {
            let mut time_s = 0.0;
            let mut noise = 0.0;
            for (epochs, time) in epochs.iter().zip(times) {
                time_s += epochs * time.mean_s;
                noise += (epochs * time.sd_s).powi(2);
            }
            let shift = (spread * (times[0].mean_s - times[1].mean_s)).powi(2);
            let sd = (noise + shift).sqrt();
            // Three points with the mean and the deviation of a normal distribution.
            for (at, part) in
                [(-3f64.sqrt(), 1.0 / 6.0), (0.0, 2.0 / 3.0), (3f64.sqrt(), 1.0 / 6.0)]
            {
                outcomes
                    .push(Outcome { time_s: (time_s + at * sd).max(0.0), weight: weight * part });
            }
        };
        for Weighted { weight, candidate, .. } in &self.candidates {
            add(*weight, &candidate.epochs, candidate.spread);
        }
        for split in FLAT_SPLITS {
            add(self.flat_weight / FLAT_SPLITS.len() as f64, &self.split(&split), 0.0);
        }
        RunTime::from_outcomes(outcomes)
    }

    /// A draw of the flat prior around what the restatement rule expects.
    fn split(&self, parts: &[f64; AHEAD]) -> [f64; AHEAD] {
        let left: f64 = self.flat.iter().sum();
        let mut epochs = self.flat;
        epochs.iter_mut().zip(parts).for_each(|(epochs, part)| *epochs *= part);
        let sum: f64 = epochs.iter().sum();
        if sum > 0.0 {
            epochs.iter_mut().for_each(|epochs| *epochs *= left / sum);
        }
        epochs
    }

    /// One trajectory: epochs in each regime ahead.
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> [f64; AHEAD] {
        let mut at: f64 = rng.random();
        for Weighted { weight, candidate, .. } in &self.candidates {
            if at < *weight {
                return candidate.epochs;
            }
            at -= weight;
        }
        let left: f64 = self.flat.iter().sum();
        let weight = self.flat_regimes as f64 / left.max(1e-12);
        let parts = sampling::dirichlet(rng, self.flat.iter().map(|epochs| epochs * weight));
        let mut epochs = [0.0; AHEAD];
        epochs.iter_mut().zip(parts).for_each(|(epochs, part)| *epochs = part * left);
        epochs
    }
}

/// Exponential quantiles in eight different orders: even draws of the flat Dirichlet distribution.
const FLAT_SPLITS: [[f64; AHEAD]; 8] = flat_splits();

const fn flat_splits() -> [[f64; AHEAD]; 8] {
    // -ln(1 - (i + 1/2) / 8)
    const Q: [f64; 8] = [0.0645, 0.2076, 0.3747, 0.5754, 0.8267, 1.1632, 1.6740, 2.7726];
    let mut splits = [[0.0; AHEAD]; 8];
    let mut i = 0;
    while i < 8 {
        let mut j = 0;
        while j < AHEAD {
            splits[i][j] = Q[((2 * j + 1) * (2 * i + 1) / 2 + i * (j + 1)) % 8];
            j += 1;
        }
        i += 1;
    }
    splits
}
