//! Forecasts that know nothing of adaptation: what agnostic and reactive schedulers believe
//! (sections 2.2 and 5).

use super::throughput::{EpochModel, Profile};
use super::{Forecast, Predictor, RegimeForecast, RunTime, regime};
use crate::types::{JobProgress, JobSpec};

/// The throughput of this moment, for ever: "greedy" in the paper's Figure 5.
#[derive(Clone, Debug, Default)]
pub struct Greedy {
    profile: Profile,
}

/// The throughput of the first regime, for ever.
#[derive(Clone, Debug, Default)]
pub struct Agnostic {
    profile: Profile,
}

impl Greedy {
    /// With step times that were measured beforehand; [`Profile::default`] when there are none.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile }
    }
}

impl Agnostic {
    /// With step times that were measured beforehand; [`Profile::default`] when there are none.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile }
    }
}

/// The rest of the job at one speed.
fn constant(spec: &JobSpec, progress: &JobProgress, batch: u32, profile: &Profile) -> Forecast {
    let epoch_s = EpochModel::fit(spec, progress, &profile.known(spec)).epoch(batch).mean_s;
    let epochs = regime::epochs_left(spec, progress);
    let left_s = epochs * epoch_s;
    Forecast {
        regimes: vec![RegimeForecast { batch, epochs, epoch_s }],
        left_s,
        left_sd_s: 0.0,
        left_upper_s: left_s,
        total_s: progress.attained_s + left_s,
        left: RunTime::Exact(left_s),
    }
}

fn first_batch(spec: &JobSpec, progress: &JobProgress) -> u32 {
    progress.regimes.first().map_or(spec.initial_batch, |regime| regime.batch)
}

macro_rules! baseline {
    ($predictor:ty, $name:literal, $batch:path) => {
        impl Predictor for $predictor {
            fn name(&self) -> &'static str {
                $name
            }

            fn finished(&mut self, _spec: &JobSpec, _progress: &JobProgress) {}

            fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast {
                constant(spec, progress, $batch(spec, progress), &self.profile)
            }

            fn sample(
                &self,
                spec: &JobSpec,
                progress: &JobProgress,
                count: usize,
                _seed: u64,
            ) -> Vec<Vec<RegimeForecast>> {
                vec![self.forecast(spec, progress).regimes; count]
            }
        }
    };
}
baseline!(Greedy, "greedy", regime::current_batch);
baseline!(Agnostic, "agnostic", first_batch);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::rules::tests::{job, timed};
    use crate::types::Adaptation;

    #[test]
    fn each_keeps_its_own_throughput() {
        let spec = job(100, 32, Adaptation::Accordion { small: 32, large: 256 });
        let seen = timed(&[(32, 20.0, 80.0), (256, 30.0, 50.0)]);
        assert_eq!(Greedy::default().forecast(&spec, &seen).left_s, 50.0 * 50.0);
        let agnostic = Agnostic::default().forecast(&spec, &seen);
        assert_eq!(agnostic.left_s, 50.0 * 80.0);
        assert_eq!(agnostic.total_s, 20.0 * 80.0 + 30.0 * 50.0 + 4000.0);
    }
}
