//! Wrong forecasts, on a seed: every job's times are off by a factor of its own (section 8.10).

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::predictor::{Forecast, Predictor, RegimeForecast, RunTime};
use crate::types::{JobProgress, JobSpec};

/// A predictor whose forecasts are wrong.
pub struct Noisy {
    inner: Box<dyn Predictor>,
    error: f64,
    seed: u64,
}

/// The least factor: a run time is never forecast as nothing.
const FACTOR_MIN: f64 = 0.05;

impl Noisy {
    /// Multiplies each job's remaining times by a factor drawn once from `1 - error ..= 1 + error`.
    #[must_use]
    pub fn new(inner: Box<dyn Predictor>, error: f64, seed: u64) -> Self {
        Self { inner, error: error.abs(), seed }
    }

    fn factor(&self, spec: &JobSpec) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        // A stream for each job: adding a job changes no other job's error.
        rng.set_stream(spec.id.0);
        (1.0 + self.error * rng.random_range(-1.0..=1.0)).max(FACTOR_MIN)
    }
}

fn stretched(mut regimes: Vec<RegimeForecast>, factor: f64) -> Vec<RegimeForecast> {
    regimes.iter_mut().for_each(|regime| regime.epoch_s *= factor);
    regimes
}

impl Predictor for Noisy {
    fn name(&self) -> &'static str {
        "noisy"
    }

    fn observed(&mut self, spec: &JobSpec, progress: &JobProgress) {
        self.inner.observed(spec, progress);
    }

    fn finished(&mut self, spec: &JobSpec, progress: &JobProgress) {
        self.inner.finished(spec, progress);
    }

    fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast {
        let factor = self.factor(spec);
        let true_one = self.inner.forecast(spec, progress);
        let left_s = true_one.left_s * factor;
        Forecast {
            regimes: stretched(true_one.regimes, factor),
            left_s,
            left_sd_s: true_one.left_sd_s * factor,
            left_upper_s: true_one.left_upper_s * factor,
            total_s: progress.attained_s + left_s,
            left: RunTime::from_moments(
                left_s,
                true_one.left_sd_s * factor,
                0.0,
                2.0 * true_one.left_upper_s * factor,
            ),
        }
    }

    fn sample(
        &self,
        spec: &JobSpec,
        progress: &JobProgress,
        count: usize,
        seed: u64,
    ) -> Vec<Vec<RegimeForecast>> {
        let factor = self.factor(spec);
        let drawn = self.inner.sample(spec, progress, count, seed);
        drawn.into_iter().map(|regimes| stretched(regimes, factor)).collect()
    }
}
