//! When a job ends.

use serde::{Deserialize, Serialize};

use super::{Engine, job::Job, prospects::Prospects};
use crate::types::{Decision, JobId};

/// Coverage of the interval of an ETA, as far as the run time goes.
const COVERAGE: f64 = 0.8;

/// When a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Eta {
    /// Nine in ten jobs end after it, seconds on the driver's clock.
    pub earliest_s: f64,
    /// The expectation, seconds.
    pub expected_s: f64,
    /// Nine in ten jobs end before it, seconds.
    pub latest_s: f64,
}

impl Engine {
    /// When a job ends: by the plan as far as that reaches, and after it as if the cluster stayed
    /// as contended as it has been for the job (eq. 9's estimate).
    ///
    /// The interval lies between running without a break on the lower forecast, and the plan and
    /// the worst contention that it has seen on the upper one. `None` while nothing is known of its
    /// speed, or while it cannot run.
    #[must_use]
    pub fn eta(&self, id: JobId) -> Option<Eta> {
        let decision = self.state.mechanism.decision();
        let knows =
            || matches!(decision, Some(Decision::Plan(plan)) if plan.backfill.contains(&id));
        self.eta_in(id, &self.planned(id), knows)
    }

    /// The same with what [`Engine::prospects`] has found, for many jobs.
    #[must_use]
    pub fn eta_by(&self, id: JobId, prospects: &Prospects) -> Option<Eta> {
        self.eta_in(id, &prospects.planned(id), || prospects.knows(id))
    }

    /// `planned` are the rounds to come that the plan has for it, `knows` whether the plan knows it
    /// at all.
    fn eta_in(&self, id: JobId, planned: &[u64], knows: impl Fn() -> bool) -> Option<Eta> {
        let state = &self.state;
        let job = state.jobs.get(&id).filter(|job| job.is_active())?;
        let progress = self.progress_of(job, state.now_s);
        let forecast = self.predictor.forecast(&job.spec, &progress);
        let (lower_s, upper_s) = forecast.left.interval_s(COVERAGE);
        let from_s = state.now_s.max(job.not_before_s);
        let stints = self.stints(job, planned, knows);
        let expected_s = self.end_s(job, &stints, forecast.left_s, progress.contention_mean);
        let latest_s = self.end_s(job, &stints, upper_s, progress.contention_max);
        let eta = Eta {
            earliest_s: (from_s + lower_s.max(0.0)).min(expected_s),
            expected_s,
            latest_s: latest_s.max(expected_s),
        };
        eta.latest_s.is_finite().then_some(eta)
    }

    /// When a job has had `left_s` seconds of service more: in its stints, and from then on each
    /// second in `slowdown`.
    fn end_s(&self, job: &Job, stints: &Stints, left_s: f64, slowdown: f64) -> f64 {
        let lease = self.state.leases.get(&job.spec.id);
        let mut is_set_up = lease.is_some_and(|lease| lease.training_s.is_some());
        let (mut free_s, mut left_s) = (self.state.now_s.max(job.not_before_s), left_s.max(0.0));
        for (begins_s, ends_s) in &stints.spans {
            is_set_up &= *begins_s <= free_s;
            let setup_s = if is_set_up { 0.0 } else { job.start_s.unwrap_or(0.0) };
            let trains_s = free_s.max(*begins_s) + setup_s;
            if trains_s + left_s <= *ends_s {
                return trains_s + left_s;
            }
            left_s -= (ends_s - trains_s).max(0.0);
            (free_s, is_set_up) = (free_s.max(*ends_s), true);
        }
        free_s.max(stints.passed_over_s) + left_s * slowdown
    }

    fn stints(&self, job: &Job, planned: &[u64], knows: impl Fn() -> bool) -> Stints {
        let state = &self.state;
        let (boundary_s, round_s) = (self.boundary_s(), state.settings.round_s);
        let lease = state.leases.get(&job.spec.id);
        let runs = lease.is_some_and(|lease| lease.is_live());
        let present = runs.then_some((state.now_s, boundary_s));
        let next = state.clock.round + 1;
        let ahead = planned.iter().map(|round| {
            let begins_s = boundary_s + round.saturating_sub(next) as f64 * round_s;
            (begins_s, begins_s + round_s)
        });
        let passed_over_s = match state.mechanism.decision() {
            // A job that came after the plan was made is not known to it.
            Some(Decision::Plan(plan)) if planned.is_empty() && !runs && knows() => {
                let end = plan.first_round + plan.rounds.len() as u64;
                boundary_s + end.saturating_sub(next) as f64 * round_s
            }
            _ => 0.0,
        };
        Stints { spans: present.into_iter().chain(ahead).collect(), passed_over_s }
    }
}

/// When a job has devices, as far as that is known.
struct Stints {
    /// From and to, seconds, in order.
    spans: Vec<(f64, f64)>,
    /// Until when the plan passes it over, seconds.
    passed_over_s: f64,
}
