//! Step times that jobs of a family have shown, by gang and batch size.

use std::collections::{BTreeMap, VecDeque};

use crate::predictor::throughput::{KnownStep, steps_per_epoch};
use crate::types::{JobId, JobProgress, JobSpec};

/// Step times kept of one family, gang and batch size.
const RING: usize = 8;
/// Families and gangs kept; the first by name go when there are more.
const MOST: usize = 4_096;
/// Before two jobs were compared: relative deviation between jobs of one family, and for how many
/// jobs that belief counts.
const PRIOR_SD: (f64, f64) = (0.1, 2.0);

/// By batch size: the jobs that measured it last, with the logarithm of seconds per step.
type Sizes = BTreeMap<u32, VecDeque<(JobId, f64)>>;

/// Family, gang, batch size, and the jobs that measured it last.
pub(super) type SavedSteps = (String, u32, u32, VecDeque<(JobId, f64)>);

/// Step times by family and gang.
#[derive(Clone, Debug, Default)]
pub(super) struct StepTimes {
    families: BTreeMap<(String, u32), Sizes>,
}

impl StepTimes {
    /// Takes note of what a job has measured.
    pub(super) fn note(&mut self, spec: &JobSpec, progress: &JobProgress) {
        let key = (spec.family.clone(), spec.gpus);
        for regime in &progress.regimes {
            let Some(epoch_s) = regime.epoch_s.filter(|s| s.is_finite() && *s > 0.0) else {
                continue;
            };
            let step_s = epoch_s / steps_per_epoch(spec.samples_per_epoch, regime.batch);
            let log = step_s.ln();
            let sizes = self.families.entry(key.clone()).or_default();
            let ring = sizes.entry(regime.batch).or_default();
            if let Some(known) = ring.iter_mut().find(|(id, _)| *id == spec.id) {
                known.1 = log;
                continue;
            }
            if ring.len() == RING {
                ring.pop_front();
            }
            ring.push_back((spec.id, log));
        }
        if self.families.len() > MOST {
            self.families.pop_first();
        }
    }

    /// Everything known, to be built again: family, gang, batch size, jobs with logarithms.
    pub(super) fn save(&self) -> Vec<SavedSteps> {
        let mut saved = Vec::new();
        for ((family, gpus), sizes) in &self.families {
            for (batch, ring) in sizes {
                saved.push((family.clone(), *gpus, *batch, ring.clone()));
            }
        }
        saved
    }

    /// The step times of [`StepTimes::save`].
    pub(super) fn restore(saved: Vec<SavedSteps>) -> Self {
        let mut times = Self::default();
        for (family, gpus, batch, ring) in saved {
            times.families.entry((family, gpus)).or_default().insert(batch, ring);
        }
        times
    }

    /// What other jobs of the family and gang have shown: geometric means with the deviation that
    /// the next job is expected to have.
    pub(super) fn known(&self, spec: &JobSpec) -> Vec<KnownStep> {
        let Some(sizes) = self.families.get(&(spec.family.clone(), spec.gpus)) else {
            return Vec::new();
        };
        let known = |(batch, ring): (&u32, &VecDeque<(JobId, f64)>)| {
            let others = || ring.iter().filter(|(id, _)| *id != spec.id).map(|(_, log)| *log);
            let count = others().count() as f64;
            if count == 0.0 {
                return None;
            }
            let mean = others().sum::<f64>() / count;
            let squares: f64 = others().map(|log| (log - mean).powi(2)).sum();
            let (sd, weight) = PRIOR_SD;
            let variance = (weight * sd * sd + squares) / (weight + count);
            let relative_sd = (variance * (1.0 + 1.0 / count)).sqrt();
            Some(KnownStep { batch: *batch, step_s: mean.exp(), relative_sd })
        };
        sizes.iter().filter_map(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::rules::tests::{job, timed};
    use crate::types::Adaptation;

    #[test]
    fn jobs_of_a_family_tell_each_other_their_step_times() {
        let mut times = StepTimes::default();
        let mut spec = job(100, 50, Adaptation::Static);
        for (id, epoch_s) in [(1, 10.0), (2, 40.0), (2, 40.0)] {
            spec.id = JobId(id);
            times.note(&spec, &timed(&[(50, 1.0, epoch_s)]));
        }
        assert_eq!(times.known(&spec).len(), 1);
        assert!((times.known(&spec)[0].step_s - 0.01).abs() < 1e-12);
        spec.id = JobId(3);
        // 1000 steps: 10 ms and 40 ms, geometric mean 20 ms.
        assert!((times.known(&spec)[0].step_s - 0.02).abs() < 1e-12);
        spec.gpus = 2;
        assert!(times.known(&spec).is_empty());
    }

    #[test]
    fn agreement_makes_certain() {
        let mut times = StepTimes::default();
        let mut spec = job(100, 50, Adaptation::Static);
        let mut before = f64::INFINITY;
        for id in 1..8 {
            spec.id = JobId(id);
            times.note(&spec, &timed(&[(50, 1.0, 10.0)]));
            spec.id = JobId(99);
            let sd = times.known(&spec)[0].relative_sd;
            assert!(sd < before);
            before = sd;
        }
    }
}
