//! Themis (NSDI '20) with its filter: each round, only the jobs that are furthest from their fair
//! finish time are offered GPUs first, and among them efficiency decides (section 2.1, Table 1).

use super::{Information, Policy, Replan};
use crate::types::{ClusterView, Decision, JobView};

/// Themis with a fixed filter.
#[derive(Clone, Copy, Debug)]
pub struct ThemisFilter {
    /// Share of the active jobs that pass the filter, worst rho first (0 to 1).
    pub filter: f64,
    /// What is known of remaining times.
    pub information: Information,
}

impl Default for ThemisFilter {
    /// Themis's own setting: the worst-off fifth.
    fn default() -> Self {
        Self { filter: 0.2, information: Information::Reactive }
    }
}

/// A job's finish time fairness now, and what running in the next round is worth.
#[derive(Clone, Copy)]
struct Standing {
    rho: f64,
    /// Decrease of log rho per GPU when the job runs: valuations multiply in Themis's auction.
    gain: f64,
}

fn standing(job: &JobView, view: &ClusterView) -> Standing {
    let contention = view.contention();
    let fair_s = (job.forecast.total_s * job.contention_mean.max(1.0)).max(1.0);
    let finish = |left_s: f64| (job.elapsed_s(view.now_s) + left_s * contention).max(1.0);
    let waits = view.round_s + finish(job.forecast.left_s);
    let runs = view.round_s + finish((job.forecast.left_s - view.round_s).max(0.0));
    Standing {
        rho: finish(job.forecast.left_s) / fair_s,
        gain: (waits / runs).ln() / f64::from(job.gpus),
    }
}

impl Policy for ThemisFilter {
    fn name(&self) -> &'static str {
        "themis-filter"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let mut ranked: Vec<_> =
            view.jobs.iter().map(|job| (standing(job, view), job.id)).collect();
        ranked.sort_by(|(a, _), (b, _)| b.rho.total_cmp(&a.rho));
        let passed = (self.filter * ranked.len() as f64).ceil() as usize;
        let passed = passed.clamp(ranked.len().min(1), ranked.len());
        ranked[..passed].sort_by(|(a, _), (b, _)| b.gain.total_cmp(&a.gain));
        Decision::Order(ranked.into_iter().map(|(_, id)| id).collect())
    }
}
