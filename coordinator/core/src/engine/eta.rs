//! When a job ends.

use serde::{Deserialize, Serialize};

use super::{Engine, job::Job};
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
        let state = &self.state;
        let job = state.jobs.get(&id).filter(|job| job.is_active())?;
        let progress = self.progress_of(job, state.now_s);
        let forecast = self.predictor.forecast(&job.spec, &progress);
        let (lower_s, upper_s) = forecast.left.interval_s(COVERAGE);
        let from_s = state.now_s.max(job.not_before_s);
        let expected_s = self.end_s(job, forecast.left_s.max(0.0), progress.contention_mean);
        let latest_s = self.end_s(job, upper_s.max(0.0), progress.contention_max);
        let eta = Eta {
            earliest_s: (from_s + lower_s.max(0.0)).min(expected_s),
            expected_s,
            latest_s: latest_s.max(expected_s),
        };
        eta.latest_s.is_finite().then_some(eta)
    }

    /// When a job has had `left_s` seconds of service more: now while it holds devices, in the
    /// rounds that the plan has for it, and from then on each second in `slowdown`.
    fn end_s(&self, job: &Job, left_s: f64, slowdown: f64) -> f64 {
        let (now_s, round_s) = (self.state.now_s, self.state.settings.round_s);
        let lease = self.state.leases.get(&job.spec.id);
        let runs = lease.is_some_and(|lease| lease.is_live());
        let mut is_set_up = lease.is_some_and(|lease| lease.training_s.is_some());
        let (mut free_s, mut left_s) = (now_s.max(job.not_before_s), left_s);
        let boundary_s = self.boundary_s();
        let present = runs.then_some((now_s, boundary_s));
        let (planned, passed_over_s) = self.planned_rounds(job, runs);
        let ahead = planned.into_iter().map(|index| {
            let begins_s = boundary_s + index as f64 * round_s;
            (begins_s, begins_s + round_s)
        });
        for (begins_s, ends_s) in present.into_iter().chain(ahead) {
            is_set_up &= begins_s <= free_s;
            let setup_s = if is_set_up { 0.0 } else { job.start_s.unwrap_or(0.0) };
            let trains_s = free_s.max(begins_s) + setup_s;
            if trains_s + left_s <= ends_s {
                return trains_s + left_s;
            }
            left_s -= (ends_s - trains_s).max(0.0);
            (free_s, is_set_up) = (free_s.max(ends_s), true);
        }
        free_s.max(passed_over_s) + left_s * slowdown
    }

    /// The rounds to come that the plan has for a job, counted from the next one, and the time until
    /// which the plan passes it over.
    fn planned_rounds(&self, job: &Job, runs: bool) -> (Vec<usize>, f64) {
        let (state, id) = (&self.state, job.spec.id);
        let Some(Decision::Plan(plan)) = state.mechanism.decision() else {
            return (Vec::new(), 0.0);
        };
        let passed = (state.clock.round + 1).saturating_sub(plan.first_round);
        let ahead = plan.rounds.iter().skip(usize::try_from(passed).unwrap_or(usize::MAX));
        let window = ahead.clone().count();
        let planned: Vec<usize> =
            ahead.enumerate().filter(|(_, jobs)| jobs.contains(&id)).map(|it| it.0).collect();
        // A job that came after the plan was made is not known to it.
        let passed_over = planned.is_empty() && !runs && plan.backfill.contains(&id);
        let window_end_s = self.boundary_s() + window as f64 * state.settings.round_s;
        (planned, if passed_over { window_end_s } else { 0.0 })
    }
}
