//! The paper's predictor, and the standard Bayesian update that it is compared with (section 5).

use super::posterior::{bayes_epochs_left, restated_epochs_left};
use super::throughput::{EpochModel, Profile};
use super::{Forecast, Predictor, RegimeForecast, RunTime, regime, sampling};
use crate::types::{Adaptation, JobProgress, JobSpec};

/// Probability with which the remaining run time stays below its upper estimate.
pub(super) const UPPER: f64 = 0.9;

/// The restatement rule: finished regimes keep their observed epochs, the ongoing and future ones
/// share the rest evenly.
#[derive(Clone, Debug, Default)]
pub struct Restatement {
    profile: Profile,
}

/// The standard Bayesian update, which takes epochs for independent draws.
#[derive(Clone, Debug, Default)]
pub struct Bayes {
    profile: Profile,
}

impl Restatement {
    /// With step times that were measured beforehand; [`Profile::default`] when there are none.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile }
    }
}

impl Bayes {
    /// With step times that were measured beforehand; [`Profile::default`] when there are none.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile }
    }
}

/// Configurations ahead and the expected epochs of each.
pub(super) struct Ahead {
    /// Batch sizes of the ongoing and later regimes.
    pub(super) batches: Vec<u32>,
    /// Expected epochs left in each.
    pub(super) epochs: Vec<f64>,
}

/// What the restatement rule expects.
pub(super) fn restated(spec: &JobSpec, progress: &JobProgress) -> Ahead {
    let batches = regime::ahead(spec, progress);
    let epochs = if let Adaptation::Schedule(table) = &spec.adaptation {
        regime::scheduled_epochs(table, spec.epochs_total, progress.epochs_done())
    } else {
        let elapsed = regime::epochs_in_regime(progress);
        let rest = regime::epochs_left(spec, progress) + elapsed;
        restated_epochs_left(rest, elapsed, batches.len())
    };
    Ahead { batches, epochs }
}

/// What the standard Bayesian update expects.
fn updated(spec: &JobSpec, progress: &JobProgress) -> Ahead {
    if matches!(spec.adaptation, Adaptation::Schedule(_)) {
        return restated(spec, progress);
    }
    let batches = regime::ahead(spec, progress);
    let seen: Vec<f64> = progress.regimes.iter().map(|regime| regime.epochs).collect();
    let epochs = bayes_epochs_left(f64::from(spec.epochs_total), &seen, batches.len());
    Ahead { batches, epochs }
}

/// Concentration of the Dirichlet over the epochs left, in regimes: 1 per regime is the flat
/// distribution, in which every way to split the rest is as likely as any other.
fn concentration(spec: &JobSpec, regimes: usize) -> f64 {
    match spec.adaptation {
        // Declared, not random.
        Adaptation::Schedule(_) => 1e9,
        _ => regimes as f64,
    }
}

/// Forecast from mean epochs: the rest is split by a Dirichlet distribution with that mean.
pub(super) fn forecast(
    spec: &JobSpec,
    progress: &JobProgress,
    ahead: &Ahead,
    model: &EpochModel,
) -> Forecast {
    let left: f64 = ahead.epochs.iter().sum();
    let times: Vec<_> = ahead.batches.iter().map(|batch| model.epoch(*batch)).collect();
    let regimes: Vec<RegimeForecast> = (ahead.batches.iter().zip(&ahead.epochs).zip(&times))
        .map(|((batch, epochs), time)| RegimeForecast {
            batch: *batch,
            epochs: *epochs,
            epoch_s: time.mean_s,
        })
        .collect();
    let left_s: f64 = regimes.iter().map(|r| r.epochs * r.epoch_s).sum();
    let (mut low_s, mut high_s, mut squares, mut noise) = (f64::INFINITY, 0f64, 0.0, 0.0);
    for (epochs, time) in ahead.epochs.iter().zip(&times) {
        squares += epochs * left * time.mean_s.powi(2);
        noise += (epochs * time.sd_s).powi(2);
        low_s = low_s.min(left * (time.mean_s - 2.0 * time.sd_s).max(0.0));
        high_s = high_s.max(left * (time.mean_s + 2.0 * time.sd_s));
    }
    // Variance of sum_i d_i x_i for x ~ Dirichlet, plus that of the epoch times d_i.
    let split = (squares - left_s * left_s).max(0.0);
    let variance = split / (concentration(spec, regimes.len()) + 1.0) + noise;
    let distribution = RunTime::from_moments(left_s, variance.sqrt(), low_s, high_s);
    Forecast {
        left_s,
        left_sd_s: variance.sqrt(),
        left_upper_s: distribution.quantile_s(UPPER).max(left_s),
        total_s: progress.attained_s + left_s,
        left: distribution,
        regimes,
    }
}

/// Trajectories around mean epochs.
pub(super) fn sample(
    spec: &JobSpec,
    ahead: &Ahead,
    model: &EpochModel,
    count: usize,
    seed: u64,
) -> Vec<Vec<RegimeForecast>> {
    let mut rng = sampling::generator(spec, seed);
    let left: f64 = ahead.epochs.iter().sum();
    let weight = concentration(spec, ahead.batches.len()) / left.max(1e-12);
    let draw = |_| {
        let parameters = ahead.epochs.iter().map(|epochs| epochs * weight);
        let epochs = sampling::dirichlet(&mut rng, parameters);
        let epochs: Vec<f64> = epochs.iter().map(|fraction| fraction * left).collect();
        sampling::regimes(&mut rng, &ahead.batches, &epochs, model)
    };
    (0..count).map(draw).collect()
}

macro_rules! rule {
    ($rule:ty, $name:literal, $expect:path) => {
        impl Predictor for $rule {
            fn name(&self) -> &'static str {
                $name
            }

            fn finished(&mut self, _spec: &JobSpec, _progress: &JobProgress) {}

            fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast {
                let model = EpochModel::fit(spec, progress, &self.profile.known(spec));
                forecast(spec, progress, &$expect(spec, progress), &model)
            }

            fn sample(
                &self,
                spec: &JobSpec,
                progress: &JobProgress,
                count: usize,
                seed: u64,
            ) -> Vec<Vec<RegimeForecast>> {
                let model = EpochModel::fit(spec, progress, &self.profile.known(spec));
                sample(spec, &$expect(spec, progress), &model, count, seed)
            }
        }
    };
}
rule!(Restatement, "restatement", restated);
rule!(Bayes, "bayes", updated);

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::types::{JobId, RegimeRecord};

    pub(crate) fn job(epochs: u32, batch: u32, adaptation: Adaptation) -> JobSpec {
        JobSpec {
            id: JobId(1),
            gpus: 1,
            weight: 1.0,
            arrival_s: 0.0,
            epochs_total: epochs,
            samples_per_epoch: 50_000,
            initial_batch: batch,
            adaptation,
            family: "model".into(),
        }
    }

    pub(crate) fn timed(seen: &[(u32, f64, f64)]) -> JobProgress {
        let record = |&(batch, epochs, epoch_s): &(u32, f64, f64)| RegimeRecord {
            batch,
            epochs,
            epoch_s: (epoch_s > 0.0).then_some(epoch_s),
        };
        let regimes: Vec<RegimeRecord> = seen.iter().map(record).collect();
        let attained_s = regimes.iter().map(|r| r.epochs * r.epoch_s.unwrap_or(0.0)).sum();
        JobProgress { regimes, attained_s, contention_max: 1.0, contention_mean: 1.0 }
    }

    pub(crate) fn regimes(seen: &[(u32, f64)]) -> JobProgress {
        timed(&seen.iter().map(|&(batch, epochs)| (batch, epochs, 0.0)).collect::<Vec<_>>())
    }

    #[test]
    fn run_time_is_the_sum_over_regimes() {
        // 100 epochs, GNS 64 -> 128 -> 256; 10 epochs of 100 s seen at 64 and 20 of 60 s at 128:
        // the last two share 90, so 25 more at 128 and 45 at 256.
        let spec = job(100, 64, Adaptation::Gns { initial: 64, max: 256 });
        let seen = timed(&[(64, 10.0, 100.0), (128, 20.0, 60.0)]);
        let forecast = Restatement::default().forecast(&spec, &seen);
        let epochs: Vec<f64> = forecast.regimes.iter().map(|r| r.epochs).collect();
        assert_eq!(epochs, [25.0, 45.0]);
        let last_s = forecast.regimes[1].epoch_s;
        assert!((forecast.left_s - (25.0 * 60.0 + 45.0 * last_s)).abs() < 1e-9);
        assert!((forecast.total_s - (1000.0 + 1200.0 + forecast.left_s)).abs() < 1e-9);
        // alpha n + beta S from 782 and 391 steps: 20 s of fixed cost left at 196 steps.
        assert!((last_s - (20.0 + 80.0 * 196.0 / 782.0)).abs() < 1.0, "{last_s}");
    }

    #[test]
    fn flat_split_of_two_regimes_is_uniform() {
        // Restatement, K = 2, nothing seen, epochs of 80 s and (known) 40 s: uniform 4000..8000 s.
        let mut profile = Profile::default();
        profile.insert("model", 1, 32, 80.0 / 1563.0);
        profile.insert("model", 1, 256, 40.0 / 196.0);
        let spec = job(100, 32, Adaptation::Accordion { small: 32, large: 256 });
        let forecast = Restatement::new(profile).forecast(&spec, &JobProgress::default());
        assert!((forecast.left_s - 6000.0).abs() < 1e-6);
        let (low, high) = forecast.left.interval_s(0.9);
        assert!((low - 4200.0).abs() < 60.0 && (high - 7800.0).abs() < 60.0, "{low} {high}");
    }

    #[test]
    fn static_jobs_and_schedules_have_no_regime_to_guess() {
        let seen = timed(&[(32, 25.0, 10.0)]);
        let fixed = Restatement::default().forecast(&job(100, 32, Adaptation::Static), &seen);
        assert_eq!(fixed.left_s, 750.0);
        let table = Adaptation::Schedule(vec![(0, 32), (50, 64)]);
        let declared = Restatement::default().forecast(&job(100, 32, table), &seen);
        assert_eq!(declared.regimes[0].epochs, 25.0);
        assert_eq!(declared.regimes[1].epochs, 50.0);
    }
}
