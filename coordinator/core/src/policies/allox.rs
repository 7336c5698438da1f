//! AlloX (EuroSys '20): minimum mean completion time by bipartite matching, with a filter on the
//! longest-waiting jobs, as published.

use std::collections::BTreeMap;

use super::{Information, Policy, recalled, remembered};
use crate::types::{ClusterView, Decision, JobId, JobView, MemoryError};

/// AlloX.
///
/// Jobs without a whole share are taken in order of arrival, the first `max(filter m, free GPUs)` of
/// them are matched to (GPU, place in its queue) at least total completion time, and the job that
/// each GPU runs first gets the share `1 / gang size`. Jobs of one GPU keep their share to the end.
#[derive(Clone, Debug)]
pub struct Allox {
    /// Share of the waiting jobs that are considered, longest waiting first.
    pub filter: f64,
    /// What is known of remaining times.
    pub information: Information,
    /// The shares in force.
    shares: BTreeMap<JobId, f64>,
}

impl Default for Allox {
    fn default() -> Self {
        Self::with(Information::Reactive)
    }
}

impl Allox {
    /// At an information level, with the published filter.
    #[must_use]
    pub fn with(information: Information) -> Self {
        Self { filter: 0.2, information, shares: BTreeMap::new() }
    }

    fn left_s(&self, job: &JobView) -> f64 {
        match self.information {
            Information::Reactive => job.steps_left / job.steps_per_s.max(1e-10),
            _ => job.forecast.left_s,
        }
    }
}

/// Which jobs run first in the matching of jobs with these processing times to `gpus` equal GPUs.
///
/// A job that is followed by `k - 1` others on its GPU costs `k` times its processing time, so the
/// Hungarian method has nothing to search on equal GPUs: the longest `gpus` jobs are last in their
/// queues, the next longest last but one, and so on. GPUs whose queue is one job longer are those
/// that took the shortest jobs.
fn first_on_each(times_s: &[f64], gpus: usize) -> Vec<usize> {
    if gpus == 0 {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..times_s.len()).collect();
    order.sort_by(|a, b| times_s[*a].total_cmp(&times_s[*b]));
    order.truncate(gpus);
    order
}

impl Policy for Allox {
    fn name(&self) -> &'static str {
        "allox"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let before = |id: JobId| self.shares.get(&id).copied();
        let mut shares: BTreeMap<JobId, f64> =
            view.jobs.iter().map(|job| (job.id, before(job.id).unwrap_or(0.0))).collect();
        let held = view.jobs.iter().filter(|job| before(job.id) == Some(1.0)).count();
        let free = (view.gpus as usize).saturating_sub(held);
        let mut waiting: Vec<_> =
            view.jobs.iter().filter(|job| before(job.id) != Some(1.0)).collect();
        waiting.sort_by(|a, b| a.arrival_s.total_cmp(&b.arrival_s));
        waiting.truncate(free.max((self.filter * waiting.len() as f64) as usize));
        let times_s: Vec<f64> = waiting.iter().map(|job| self.left_s(job)).collect();
        for place in first_on_each(&times_s, free) {
            let job = waiting[place];
            shares.insert(job.id, 1.0 / f64::from(job.gpus));
        }
        self.shares.clone_from(&shares);
        Decision::Shares(shares)
    }

    fn memory(&self) -> String {
        remembered(&self.shares)
    }

    fn recall(&mut self, memory: &str) -> Result<(), MemoryError> {
        self.shares = recalled(self.name(), memory)?;
        Ok(())
    }
}
