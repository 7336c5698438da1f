//! How much epochs of one batch size differ from each other, learnt from all jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::predictor::throughput::OWN_NOISE;
use crate::types::{JobId, JobProgress, JobSpec};

/// For how many comparisons the prior, [`OWN_NOISE`], counts.
const PRIOR_COUNT: f64 = 8.0;
/// Comparisons that count at most: machines and neighbours change.
const MEMORY: f64 = 1000.0;
/// No clock and no trace is more regular, relative.
const LEAST: f64 = 1e-3;
/// A larger relative difference is an event, not noise.
const MOST: f64 = 0.5;
/// Epochs that a mean needs before it is compared.
const TELLING: f64 = 0.5;
/// Jobs remembered, should they vanish without an end.
const JOBS: usize = 20_000;

/// What was seen last of a job's ongoing regime.
#[derive(Clone, Copy, Debug)]
struct Seen {
    regime: usize,
    epochs: f64,
    epoch_s: f64,
}

/// Relative standard deviation of an epoch's duration.
///
/// With independent epochs of relative deviation s, the means over n epochs and over the next k
/// differ by a variance of `s^2 (1/n + 1/k)`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Noise {
    squares: f64,
    count: f64,
    #[serde(skip)]
    last: BTreeMap<JobId, Seen>,
}

impl Noise {
    /// Takes note of how a job's mean epoch has moved.
    pub(super) fn note(&mut self, spec: &JobSpec, progress: &JobProgress, ended: bool) {
        let Some(last) = progress.regimes.last() else { return };
        let epoch_s = last.epoch_s.filter(|s| s.is_finite() && *s > 0.0);
        let regime = progress.regimes.len();
        let before = self.last.get(&spec.id).copied().filter(|seen| seen.regime == regime);
        if let (Some(before), Some(epoch_s)) = (before, epoch_s) {
            let more = last.epochs - before.epochs;
            if more < TELLING {
                return;
            }
            let since_s = (last.epochs * epoch_s - before.epochs * before.epoch_s) / more;
            let off = (since_s / before.epoch_s - 1.0).clamp(-MOST, MOST);
            let fade = if self.count > MEMORY { 1.0 - 1.0 / MEMORY } else { 1.0 };
            self.squares = fade * self.squares + off * off / (1.0 / before.epochs + 1.0 / more);
            self.count = fade * self.count + 1.0;
        }
        match epoch_s {
            Some(epoch_s) if !ended && last.epochs >= TELLING => {
                self.last.insert(spec.id, Seen { regime, epochs: last.epochs, epoch_s });
            }
            _ => {
                self.last.remove(&spec.id);
            }
        }
        if self.last.len() > JOBS {
            self.last.pop_first();
        }
    }

    /// The deviation that the next epoch is expected to have, relative.
    pub(super) fn relative_sd(&self) -> f64 {
        let prior = PRIOR_COUNT * OWN_NOISE * OWN_NOISE;
        ((prior + self.squares) / (PRIOR_COUNT + self.count)).sqrt().max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    use super::*;
    use crate::predictor::rules::tests::{job, timed};
    use crate::types::Adaptation;

    /// Jobs of 20 epochs, seen after every second one.
    fn learnt(durations: &mut dyn FnMut() -> f64) -> f64 {
        let mut noise = Noise::default();
        let mut spec = job(20, 32, Adaptation::Static);
        for id in 0..200 {
            spec.id = JobId(id);
            let mut sum = 0.0;
            for epoch in 1..=20 {
                sum += durations();
                if epoch % 2 == 0 {
                    let n = f64::from(epoch);
                    noise.note(&spec, &timed(&[(32, n, sum / n)]), epoch == 20);
                }
            }
        }
        assert!(noise.last.is_empty());
        noise.relative_sd()
    }

    #[test]
    fn the_deviation_of_independent_epochs_is_found() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for sd in [0.02, 0.08] {
            let Ok(normal) = Normal::new(60.0, 60.0 * sd) else { panic!() };
            let found = learnt(&mut || normal.sample(&mut rng));
            assert!((found / sd - 1.0).abs() < 0.1, "{found} for {sd}");
        }
    }

    #[test]
    fn epochs_that_never_differ_leave_the_least() {
        assert!(learnt(&mut || 60.0) < 2.0 * LEAST);
        assert_eq!(Noise::default().relative_sd(), OWN_NOISE);
    }

    #[test]
    fn a_change_of_batch_size_is_no_noise() {
        let mut noise = Noise::default();
        let spec = job(20, 32, Adaptation::Static);
        noise.note(&spec, &timed(&[(32, 4.0, 60.0)]), false);
        noise.note(&spec, &timed(&[(32, 4.0, 60.0), (64, 4.0, 30.0)]), false);
        assert_eq!(noise.count, 0.0);
    }
}
