//! The exact forecast: what no predictor can know. It is in the simulator, and only there, so that
//! the worth of prediction can be measured against it.

use std::collections::HashMap;

use super::published::play_alone;
use super::workload::{Workload, WorkloadJob};
use crate::predictor::{Forecast, Predictor, RegimeForecast, RunTime};
use crate::types::{JobId, JobProgress, JobSpec, RegimeRecord};

/// Knows how every job of one workload will behave.
#[derive(Clone, Debug)]
pub struct Exact {
    lives: HashMap<JobId, Vec<RegimeRecord>>,
}

impl Exact {
    /// Plays every job of the workload alone and remembers its regimes.
    #[must_use]
    pub fn new(workload: &Workload) -> Self {
        let lives = workload.jobs.iter().map(|job| (job.spec.id, play_alone(job))).collect();
        Self { lives }
    }

    /// Takes every job's regimes from its profile: what the product semantics play.
    #[must_use]
    pub fn profiled(workload: &Workload) -> Self {
        let lives = workload.jobs.iter().map(|job| (job.spec.id, profiled(job))).collect();
        Self { lives }
    }

    fn regimes_left(&self, spec: &JobSpec, progress: &JobProgress) -> Vec<RegimeForecast> {
        let mut done = progress.epochs_done();
        let mut left = Vec::new();
        for regime in self.lives.get(&spec.id).into_iter().flatten() {
            let epochs = regime.epochs - done.min(regime.epochs);
            done = (done - regime.epochs).max(0.0);
            if epochs > 0.0 {
                let epoch_s = regime.epoch_s.unwrap_or(0.0);
                left.push(RegimeForecast { batch: regime.batch, epochs, epoch_s });
            }
        }
        left
    }
}

fn profiled(job: &WorkloadJob) -> Vec<RegimeRecord> {
    let ends = job.schedule.iter().skip(1).map(|segment| segment.0);
    let ends = ends.chain([job.spec.epochs_total]);
    let regime = |((from, batch), to): (&(u32, u32), u32)| RegimeRecord {
        batch: *batch,
        epochs: f64::from(to - from),
        epoch_s: job
            .speed(*batch)
            .map(|speed| job.spec.samples_per_epoch as f64 / f64::from(*batch) / speed),
    };
    job.schedule.iter().zip(ends).map(regime).collect()
}

impl Predictor for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn finished(&mut self, _spec: &JobSpec, _progress: &JobProgress) {}

    fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast {
        let regimes = self.regimes_left(spec, progress);
        let left_s: f64 = regimes.iter().map(|regime| regime.epochs * regime.epoch_s).sum();
        Forecast {
            regimes,
            left_s,
            left_sd_s: 0.0,
            left_upper_s: left_s,
            total_s: progress.attained_s + left_s,
            left: RunTime::Exact(left_s),
        }
    }

    fn sample(
        &self,
        spec: &JobSpec,
        progress: &JobProgress,
        count: usize,
        _seed: u64,
    ) -> Vec<Vec<RegimeForecast>> {
        vec![self.regimes_left(spec, progress); count]
    }
}
