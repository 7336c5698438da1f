//! The list rule: a few lines that any policy has to beat.
//!
//! Each round, in this order: jobs that are about to miss their fair deadline, least slack first;
//! jobs so long that they bound the makespan, longest first; the hopelessly late, shortest first;
//! everything else, shortest first. The fair deadline is arrival + exclusive time x contention.

use super::{Information, Policy, Replan};
use crate::types::{ClusterView, Decision, JobView};

/// The rule's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListRule {
    /// What the rule knows of run times.
    pub information: Information,
    /// A job with less slack than this many rounds is about to miss its deadline.
    pub urgent_rounds: f64,
    /// A job with a deadline missed by more than this many rounds is hopelessly late.
    pub late_rounds: f64,
    /// A job bounds the makespan when its remaining time exceeds this share of the remaining work
    /// per GPU.
    pub long_share: f64,
    /// What a running job's remaining time is shortened by when compared, seconds.
    pub running_bonus_s: f64,
}

impl Default for ListRule {
    fn default() -> Self {
        Self {
            information: Information::Reactive,
            urgent_rounds: 12.0,
            late_rounds: 3.0,
            long_share: 0.85,
            running_bonus_s: 600.0,
        }
    }
}

impl ListRule {
    /// Rank (smaller is earlier): the class, then the place within it.
    fn rank(&self, job: &JobView, view: &ClusterView, work_per_gpu_s: f64) -> (u8, f64) {
        let left_s = job.forecast.left_s;
        let fair_s = job.arrival_s + job.forecast.total_s * job.contention_max.max(1.0);
        let slack_s = fair_s - view.now_s - left_s;
        let late = slack_s < -self.late_rounds * view.round_s;
        if left_s > self.long_share * work_per_gpu_s {
            (1, -left_s)
        } else if late {
            (2, left_s)
        } else if slack_s < self.urgent_rounds * view.round_s {
            (0, slack_s)
        } else {
            (3, left_s - if job.running { self.running_bonus_s } else { 0.0 })
        }
    }
}

impl Policy for ListRule {
    fn name(&self) -> &'static str {
        "list-rule"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let work_per_gpu_s =
            view.jobs.iter().map(|job| f64::from(job.gpus) * job.forecast.left_s).sum::<f64>()
                / f64::from(view.gpus.max(1));
        let mut ranked: Vec<_> =
            view.jobs.iter().map(|job| (self.rank(job, view, work_per_gpu_s), job.id)).collect();
        ranked.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Decision::Order(ranked.into_iter().map(|(_, id)| id).collect())
    }
}
