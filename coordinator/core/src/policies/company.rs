//! How many jobs each job has shared the cluster with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::{ClusterView, JobId, JobView};

/// Counts arrivals, so that a job's fair share can be one over all jobs that it has met.
///
/// The published metric divides by all jobs of a trace, past and future. Of those a policy can know
/// the ones that have been there while the job was: an equal part for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Company {
    /// Jobs that have ever been seen.
    arrived: u64,
    /// Of those, how many had left before an active job was first seen.
    left_before: BTreeMap<JobId, u64>,
}

impl Company {
    /// Takes note of who is there.
    pub(super) fn note(&mut self, view: &ClusterView) {
        let known = |job: &&JobView| !self.left_before.contains_key(&job.id);
        self.arrived += view.jobs.iter().filter(known).count() as u64;
        let left = self.arrived - view.jobs.len() as u64;
        let before = |job: &JobView| (job.id, *self.left_before.get(&job.id).unwrap_or(&left));
        self.left_before = view.jobs.iter().map(before).collect();
    }

    /// How many times longer than alone a job takes with its fair share: the jobs that it has met,
    /// itself included, over GPUs, each counted by its budget against this one's; at least 1. Those
    /// who have left count as those who are there do on average.
    pub(super) fn contention(&self, job: &JobView, view: &ClusterView) -> f64 {
        let before = self.left_before.get(&job.id).copied().unwrap_or(self.arrived);
        let weights: f64 = view.jobs.iter().map(|job| job.weight).sum();
        let against_own = weights / view.jobs.len().max(1) as f64 / job.weight;
        let met = (self.arrived - before) as f64 / f64::from(view.gpus.max(1));
        (met * against_own).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::testing::job;

    fn view(ids: &[u64]) -> ClusterView {
        ClusterView {
            now_s: 0.0,
            round_s: 120.0,
            round: 0,
            gpus: 2,
            jobs: ids.iter().map(|id| job(*id)).collect(),
        }
    }

    #[test]
    fn a_job_has_met_those_who_were_there_with_it() {
        let mut company = Company::default();
        for ids in [vec![1, 2, 3], vec![2, 3], vec![2, 3, 4, 5], vec![5], vec![5, 6]] {
            company.note(&view(&ids));
        }
        // Job 5 met 2, 3, 4 and 6; job 6 came when only 5 was left.
        let last = view(&[5, 6]);
        assert_eq!(company.contention(&last.jobs[0], &last), 2.5);
        assert_eq!(company.contention(&last.jobs[1], &last), 1.0);
        assert_eq!(company.left_before.len(), 2);
    }

    #[test]
    fn fewer_jobs_than_gpus_is_no_contention() {
        let mut company = Company::default();
        company.note(&view(&[1, 2]));
        let roomy = ClusterView { gpus: 8, ..view(&[1]) };
        assert_eq!(company.contention(&roomy.jobs[0], &roomy), 1.0);
    }

    /// Of one device a job of weight 8 has eight ninths beside one of weight 1.
    #[test]
    fn budgets_count() {
        let mut company = Company::default();
        let mut two = ClusterView { gpus: 1, ..view(&[1, 2]) };
        two.jobs[1].weight = 8.0;
        company.note(&two);
        assert_eq!(company.contention(&two.jobs[0], &two), 9.0);
        assert_eq!(company.contention(&two.jobs[1], &two), 9.0 / 8.0);
    }
}
