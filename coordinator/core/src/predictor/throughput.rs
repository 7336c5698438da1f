//! Epoch duration against batch size, with its uncertainty.
//!
//! A step over B samples takes `step_s(B) = alpha + beta B`, so an epoch of S samples in n(B) =
//! ceil(S/B) steps takes `alpha n(B) + beta S`: linear in the number of steps. The two coefficients
//! get a conjugate Gaussian update from the job's own regimes and from what is known of others.
//! Before a second batch size has been seen, the prior says which part of a step is fixed cost.

use std::collections::BTreeMap;

use crate::types::{JobProgress, JobSpec};

/// Prior mean of the fixed cost's share of a step (alpha over step_s) at the reference batch size:
/// kernel launches, optimiser and synchronisation do not grow with the batch.
const FIXED_SHARE_MEAN: f64 = 0.3;
/// Prior standard deviation of that share.
const FIXED_SHARE_SD: f64 = 0.3;
/// Relative noise of a job's own measured epoch, where nothing has been learnt of it.
pub(super) const OWN_NOISE: f64 = 0.01;
/// No batch size makes an epoch cheaper than this part of the reference epoch.
const LEAST_PART: f64 = 0.05;
/// Epoch duration of a job of which nothing at all is known, seconds; its deviation is as large.
const UNKNOWN_EPOCH_S: f64 = 60.0;

/// A duration with its standard deviation, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Expected duration, seconds.
    pub mean_s: f64,
    /// Standard deviation, seconds.
    pub sd_s: f64,
}

/// Step time at one batch size, known from elsewhere than the job itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownStep {
    /// Batch size over the whole gang, samples.
    pub batch: u32,
    /// Duration of a step, seconds.
    pub step_s: f64,
    /// Standard deviation of another job's step time around it, relative.
    pub relative_sd: f64,
}

/// Step times that were measured beforehand: declared knowledge, by family, gang and batch size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    steps: BTreeMap<(String, u32), BTreeMap<u32, f64>>,
}

impl Profile {
    /// Notes that jobs of `family` on `gpus` GPUs take `step_s` seconds for a step of `batch`
    /// samples over the gang. A duration that is not a finite number above 0 is ignored.
    pub fn insert(&mut self, family: &str, gpus: u32, batch: u32, step_s: f64) {
        if step_s.is_finite() && step_s > 0.0 {
            self.steps.entry((family.to_owned(), gpus)).or_default().insert(batch, step_s);
        }
    }

    /// What it says of jobs like this one, by ascending batch size.
    #[must_use]
    pub fn known(&self, spec: &JobSpec) -> Vec<KnownStep> {
        let Some(steps) = self.steps.get(&(spec.family.clone(), spec.gpus)) else {
            return Vec::new();
        };
        let known = |(batch, step_s): (&u32, &f64)| KnownStep {
            batch: *batch,
            step_s: *step_s,
            relative_sd: OWN_NOISE,
        };
        steps.iter().map(known).collect()
    }
}

/// Steps in an epoch: the last one may be a part of a batch.
#[must_use]
pub fn steps_per_epoch(samples: u64, batch: u32) -> f64 {
    samples.div_ceil(u64::from(batch.max(1))).max(1) as f64
}

/// Gaussian posterior of an intercept and a slope under known noise (conjugate linear regression).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePosterior {
    // Precision matrix (symmetric) and precision times mean.
    p00: f64,
    p01: f64,
    p11: f64,
    q0: f64,
    q1: f64,
}

impl LinePosterior {
    /// Independent priors: intercept and slope, each `(mean, standard deviation above 0)`.
    #[must_use]
    pub fn prior(intercept: (f64, f64), slope: (f64, f64)) -> Self {
        let (w0, w1) = (intercept.1.powi(-2), slope.1.powi(-2));
        Self { p00: w0, p01: 0.0, p11: w1, q0: w0 * intercept.0, q1: w1 * slope.0 }
    }

    /// Takes in y = intercept + slope x, seen with noise of standard deviation `sd`, above 0.
    pub fn observe(&mut self, x: f64, y: f64, sd: f64) {
        let w = sd.powi(-2);
        self.p00 += w;
        self.p01 += w * x;
        self.p11 += w * x * x;
        self.q0 += w * y;
        self.q1 += w * x * y;
    }

    /// Posterior means of the intercept and of the slope.
    #[must_use]
    pub fn mean(&self) -> (f64, f64) {
        let det = self.p00 * self.p11 - self.p01 * self.p01;
        let intercept = (self.p11 * self.q0 - self.p01 * self.q1) / det;
        (intercept, (self.p00 * self.q1 - self.p01 * self.q0) / det)
    }

    /// Mean and standard deviation of the line (without noise) at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> (f64, f64) {
        let (intercept, slope) = self.mean();
        let det = self.p00 * self.p11 - self.p01 * self.p01;
        let variance = (self.p11 - 2.0 * x * self.p01 + x * x * self.p00) / det;
        (intercept + slope * x, variance.max(0.0).sqrt())
    }
}

/// Epoch durations of one job at every batch size.
#[derive(Clone, Debug)]
pub struct EpochModel {
    samples: u64,
    /// Epoch durations of the job's own that were measured.
    own: BTreeMap<u32, f64>,
    /// Epoch durations taken as they are: measured, or known for this very batch size.
    direct: BTreeMap<u32, Estimate>,
    /// The line over `n(B) / n(reference) - 1`.
    line: LinePosterior,
    reference: u32,
    reference_s: f64,
}

impl EpochModel {
    /// Learns from the job's own regimes; `known` tells of other jobs like it.
    #[must_use]
    pub fn fit(spec: &JobSpec, progress: &JobProgress, known: &[KnownStep]) -> Self {
        let samples = spec.samples_per_epoch;
        let own = measured(progress);
        let scale = speed_ratio(samples, &own, known);
        let mut direct = BTreeMap::new();
        for step in known {
            let mean_s = scale * step.step_s * steps_per_epoch(samples, step.batch);
            direct.insert(step.batch, Estimate { mean_s, sd_s: step.relative_sd * mean_s });
        }
        for (batch, epoch_s) in &own {
            direct.insert(*batch, Estimate { mean_s: *epoch_s, sd_s: OWN_NOISE * epoch_s });
        }
        // The latest own regime is the best reference; any known size is better than none.
        let current = progress.regimes.last().map_or(spec.initial_batch, |regime| regime.batch);
        let nearest = |batch: &&u32| batch.abs_diff(current);
        let reference = match own.keys().min_by_key(nearest) {
            Some(batch) => *batch,
            None => *direct.keys().min_by_key(nearest).unwrap_or(&spec.initial_batch),
        };
        let reference_s = direct.get(&reference).map_or(UNKNOWN_EPOCH_S, |e| e.mean_s);
        let sd_s = if direct.is_empty() { UNKNOWN_EPOCH_S } else { 10.0 * reference_s };
        let slope = (FIXED_SHARE_MEAN * reference_s, FIXED_SHARE_SD * reference_s);
        let mut line = LinePosterior::prior((reference_s, sd_s), slope);
        for (batch, epoch) in &direct {
            let x = relative_steps(samples, *batch, reference);
            line.observe(x, epoch.mean_s, epoch.sd_s.max(OWN_NOISE * epoch.mean_s));
        }
        Self { samples, own, direct, line, reference, reference_s }
    }

    /// Duration of an epoch at `batch`, seconds.
    #[must_use]
    pub fn epoch(&self, batch: u32) -> Estimate {
        if let Some(estimate) = self.direct.get(&batch) {
            return *estimate;
        }
        let (mean_s, sd_s) = self.line.at(relative_steps(self.samples, batch, self.reference));
        Estimate { mean_s: mean_s.max(LEAST_PART * self.reference_s), sd_s }
    }

    /// The same, where measured epochs are known to differ by `noise`, relative.
    #[must_use]
    pub fn epoch_with_noise(&self, batch: u32, noise: f64) -> Estimate {
        match self.own.get(&batch) {
            Some(mean_s) => Estimate { mean_s: *mean_s, sd_s: noise * mean_s },
            None => self.epoch(batch),
        }
    }

    /// Coefficients of `step_s(B) = alpha + beta B`: seconds, and seconds per sample.
    #[must_use]
    pub fn step_line(&self) -> (f64, f64) {
        let (epoch_s, fixed_s) = self.line.mean();
        let alpha = fixed_s / steps_per_epoch(self.samples, self.reference);
        (alpha, (epoch_s - fixed_s) / self.samples as f64)
    }
}

fn relative_steps(samples: u64, batch: u32, reference: u32) -> f64 {
    steps_per_epoch(samples, batch) / steps_per_epoch(samples, reference) - 1.0
}

/// Measured epoch durations by batch size, averaged by epochs when a size came back.
fn measured(progress: &JobProgress) -> BTreeMap<u32, f64> {
    let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for regime in &progress.regimes {
        if let Some(epoch_s) = regime.epoch_s.filter(|s| s.is_finite() && *s > 0.0) {
            // A speed measured before the first whole epoch counts a little.
            let weight = regime.epochs.max(1e-3);
            let sum = sums.entry(regime.batch).or_default();
            *sum = (sum.0 + weight, sum.1 + weight * epoch_s);
        }
    }
    sums.into_iter().map(|(batch, (weight, sum))| (batch, sum / weight)).collect()
}

/// How much slower this job is than others like it: geometric mean over the batch sizes that both
/// have shown, 1 without any.
fn speed_ratio(samples: u64, own: &BTreeMap<u32, f64>, known: &[KnownStep]) -> f64 {
    let (mut logs, mut count) = (0.0, 0.0);
    for step in known {
        if let Some(epoch_s) = own.get(&step.batch) {
            logs += (epoch_s / (step.step_s * steps_per_epoch(samples, step.batch))).ln();
            count += 1.0;
        }
    }
    if count > 0.0 { f64::exp(logs / count) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::rules::tests::{job, timed};
    use crate::types::Adaptation;

    fn spec() -> JobSpec {
        job(100, 32, Adaptation::Gns { initial: 32, max: 256 })
    }

    #[test]
    fn conjugate_update_equals_the_normal_equations() {
        // Independent closed form: ridge regression (X'WX + P)^-1 (X'Wy + P m), by Cramer's rule
        // with the prior written as two more observations.
        let rows = [
            (1.0, 0.0, 3.0, 2.0),
            (0.0, 1.0, -1.0, 0.5),
            (1.0, 2.0, 2.5, 0.1),
            (1.0, -0.5, 4.0, 0.3),
        ];
        let (mut a, mut b, mut c, mut d, mut e) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x0, x1, y, sd) in rows {
            let w: f64 = 1.0 / (sd * sd);
            a += w * x0 * x0;
            b += w * x0 * x1;
            c += w * x1 * x1;
            d += w * x0 * y;
            e += w * x1 * y;
        }
        let slope = (a * e - b * d) / (a * c - b * b);
        let intercept = (d - b * slope) / a;
        let mut line = LinePosterior::prior((3.0, 2.0), (-1.0, 0.5));
        line.observe(2.0, 2.5, 0.1);
        line.observe(-0.5, 4.0, 0.3);
        assert!((line.mean().0 - intercept).abs() < 1e-9);
        assert!((line.mean().1 - slope).abs() < 1e-9);
    }

    #[test]
    fn two_regimes_fix_the_line() {
        // alpha = 10 ms, beta = 0.5 ms: epochs of 1000 samples at 20 and 40 take 50 and 25 steps.
        let epoch = |batch: u32| (0.01 + 0.0005 * f64::from(batch)) * (1000.0 / f64::from(batch));
        let mut spec = spec();
        spec.samples_per_epoch = 1000;
        let seen = timed(&[(20, 5.0, epoch(20)), (40, 5.0, epoch(40))]);
        let model = EpochModel::fit(&spec, &seen, &[]);
        assert!((model.epoch(100).mean_s / epoch(100) - 1.0).abs() < 0.03);
        let (alpha, beta) = model.step_line();
        assert!((alpha / 0.01 - 1.0).abs() < 0.03 && (beta / 0.0005 - 1.0).abs() < 0.03);
    }

    #[test]
    fn one_regime_leans_on_the_prior_and_a_first_measure_corrects_it() {
        let spec = spec();
        let model = EpochModel::fit(&spec, &timed(&[(32, 5.0, 80.0)]), &[]);
        assert_eq!(model.epoch(32).mean_s, 80.0);
        let (guess, steps) = (model.epoch(64), 782.0 / 1563.0 - 1.0);
        assert!((guess.mean_s - 80.0 * (1.0 + FIXED_SHARE_MEAN * steps)).abs() < 0.1);
        assert!(guess.sd_s > 0.1 * guess.mean_s);
        let corrected = EpochModel::fit(&spec, &timed(&[(32, 5.0, 80.0), (64, 0.5, 70.0)]), &[]);
        assert_eq!(corrected.epoch(64).mean_s, 70.0);
        assert!(corrected.epoch(128).sd_s < model.epoch(128).sd_s);
    }

    #[test]
    fn a_profile_is_scaled_to_the_jobs_own_speed() {
        let mut profile = Profile::default();
        profile.insert("model", 1, 32, 0.02);
        profile.insert("model", 1, 64, 0.03);
        profile.insert("model", 1, 0, f64::NAN);
        let spec = spec();
        let known = profile.known(&spec);
        let new = EpochModel::fit(&spec, &JobProgress::default(), &known);
        assert!((new.epoch(64).mean_s - 0.03 * 782.0).abs() < 1e-9);
        let slow = EpochModel::fit(&spec, &timed(&[(32, 1.0, 2.0 * 0.02 * 1563.0)]), &known);
        assert!((slow.epoch(64).mean_s - 2.0 * 0.03 * 782.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_known_is_a_wide_guess() {
        let model = EpochModel::fit(&spec(), &JobProgress::default(), &[]);
        let guess = model.epoch(32);
        assert!(guess.mean_s > 0.0 && guess.sd_s >= 0.9 * guess.mean_s);
    }
}
