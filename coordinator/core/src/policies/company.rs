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

    /// Jobs that this one has met, itself included, over GPUs; at least 1.
    pub(super) fn contention(&self, job: &JobView, gpus: u32) -> f64 {
        let before = self.left_before.get(&job.id).copied().unwrap_or(self.arrived);
        ((self.arrived - before) as f64 / f64::from(gpus.max(1))).max(1.0)
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
        assert_eq!(company.contention(&last.jobs[0], 2), 2.5);
        assert_eq!(company.contention(&last.jobs[1], 2), 1.0);
        assert_eq!(company.left_before.len(), 2);
    }

    #[test]
    fn fewer_jobs_than_gpus_is_no_contention() {
        let mut company = Company::default();
        company.note(&view(&[1, 2]));
        assert_eq!(company.contention(&view(&[1]).jobs[0], 8), 1.0);
    }
}
