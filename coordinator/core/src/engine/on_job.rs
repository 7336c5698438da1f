//! What users do to jobs, and how jobs end.

use super::{
    Action, Declaration, EndSummary, Engine, Outcome, Refusal, Submission, YieldReason,
    contention::Seen,
    job::{EndRecord, Job},
    reactor::Turn,
    state::UserTerms,
    track::Track,
};
use crate::types::{JobId, JobSpec, SpecError};

impl Engine {
    pub(super) fn on_submitted(&mut self, submission: Submission, turn: &mut Turn) {
        let id = submission.spec.id;
        let mut submission = submission;
        submission.spec.arrival_s = turn.now_s;
        if let Err(reason) = self.check(&submission) {
            return turn.refuse(id, reason);
        }
        let failed = submission
            .after
            .iter()
            .copied()
            .find(|on| self.state.ended.get(*on).is_some_and(|end| !is_finished(&end.outcome)));
        let state = &mut self.state;
        let after: Vec<JobId> =
            submission.after.into_iter().filter(|on| state.jobs.contains_key(on)).collect();
        for on in &after {
            state.dependents.entry(*on).or_default().push(id);
        }
        state.admitted.insert(state.seq_next, id);
        let job = Job {
            spec: submission.spec,
            user: submission.user,
            demand: submission.demand,
            terms: submission.terms,
            after,
            held: submission.held,
            seq: state.seq_next,
            not_before_s: 0.0,
            track: Track::default(),
            seen: Seen::default(),
            lease_epoch: 0,
            checkpoint: None,
            last_placement: None,
            failures: 0,
            failures_total: 0,
            last_failure: None,
            leases: 0,
            preemptions: 0,
            wasted_gpu_s: 0.0,
            start_s: None,
            yield_s: None,
        };
        state.seq_next += 1;
        let active = job.is_active();
        state.jobs.insert(id, job);
        state.clock.wake(turn.now_s);
        match failed {
            Some(on) => self.end(id, Outcome::DependencyFailed { on }, turn),
            None if active => self.activate(id),
            None => {}
        }
    }

    fn check(&self, submission: &Submission) -> Result<(), Refusal> {
        let id = submission.spec.id;
        if self.state.jobs.contains_key(&id) || self.state.ended.get(id).is_some() {
            return Err(Refusal::DuplicateJob);
        }
        submission.spec.validate().map_err(invalid_spec)?;
        let terms = &submission.terms;
        let seconds = [
            ("grace_s", terms.grace_s),
            ("min_run_s", terms.min_run_s),
            ("restart_s", terms.restart_s),
            ("time_limit_s", terms.time_limit_s),
        ];
        for (field, value) in seconds {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= 0.0)) {
                return Err(invalid(field, value, "a finite number, 0 or more"));
            }
        }
        let unknown = submission
            .after
            .iter()
            .find(|on| !self.state.jobs.contains_key(on) && self.state.ended.get(**on).is_none());
        match unknown {
            Some(on) => Err(invalid("after", on, "jobs that were submitted before")),
            None => Ok(()),
        }
    }

    pub(super) fn on_declared(&mut self, id: JobId, declared: &Declaration, turn: &mut Turn) {
        let Some(job) = self.job_mut(id, turn) else { return };
        let refined = declared.refine(&job.spec);
        match refined.validate() {
            Ok(()) => {
                job.spec = refined;
                self.note_sdk(id);
            }
            Err(error) => turn.refuse(id, invalid_spec(error)),
        }
    }

    /// What was taken for a plain command speaks: it can yield, and its exit code finishes nothing.
    fn note_sdk(&mut self, id: JobId) {
        let state = &mut self.state;
        let Some(job) = state.jobs.get_mut(&id).filter(|job| job.terms.exit_zero_finishes) else {
            return;
        };
        job.terms.exit_zero_finishes = false;
        job.terms.min_run_s = None;
        if let Some(lease) = state.leases.get_mut(&id) {
            lease.pinned_until_s = lease.granted_s + state.settings.min_run_s;
        }
    }

    pub(super) fn on_cancelled(&mut self, id: JobId, why: String, turn: &mut Turn) {
        if self.job_mut(id, turn).is_some() {
            self.ask_to_yield(id, YieldReason::Cancelled, turn);
            self.end(id, Outcome::Cancelled { why }, turn);
        }
    }

    pub(super) fn on_held(&mut self, id: JobId, turn: &mut Turn) {
        let Some(job) = self.job_mut(id, turn) else { return };
        if job.held {
            return;
        }
        let was_active = job.is_active();
        job.held = true;
        if was_active {
            self.deactivate(id);
        }
        self.unreserve(id);
        self.ask_to_yield(id, YieldReason::Held, turn);
    }

    pub(super) fn on_released_by_user(&mut self, id: JobId, turn: &mut Turn) {
        let Some(job) = self.job_mut(id, turn) else { return };
        if job.held {
            job.held = false;
            if job.is_active() {
                self.activate(id);
            }
        }
    }

    pub(super) fn on_weight(&mut self, id: JobId, weight: f64, turn: &mut Turn) {
        let Some(job) = self.job_mut(id, turn) else { return };
        if !(weight.is_finite() && weight > 0.0) {
            return turn.refuse(id, invalid("weight", weight, "a finite number above 0"));
        }
        job.spec.weight = weight;
        self.state.mechanism.note_change();
    }

    pub(super) fn on_user(
        &mut self,
        user: String,
        weight: f64,
        gpus_max: Option<u32>,
        turn: &mut Turn,
    ) {
        if !(weight.is_finite() && weight > 0.0) {
            return turn.refuse(None, invalid("weight", weight, "a finite number above 0"));
        }
        self.state.users.insert(user, UserTerms { weight, gpus_max });
        self.state.mechanism.note_change();
        self.state.dispatch_due = true;
    }

    /// The job competes for devices from now on.
    fn activate(&mut self, id: JobId) {
        let state = &mut self.state;
        let Some(job) = state.jobs.get_mut(&id) else { return };
        state.active += 1;
        if !state.cluster.could_host(job.spec.gpus, &job.demand) {
            state.unhosted.insert(id);
        }
        let competing = state.active.saturating_sub(state.unhosted.len());
        state.contention.set(state.now_s, competing, state.cluster.gpus());
        job.seen.open(state.now_s, &state.contention);
        state.mechanism.admit(id);
        state.clock.wake(state.now_s);
        state.dispatch_due = true;
    }

    /// The job no longer competes for devices.
    fn deactivate(&mut self, id: JobId) {
        let state = &mut self.state;
        let Some(job) = state.jobs.get_mut(&id) else { return };
        job.seen.close(state.now_s, &state.contention);
        state.active = state.active.saturating_sub(1);
        state.unhosted.remove(&id);
        state.note_contention();
        state.mechanism.remove(id);
        state.dispatch_due = true;
    }

    /// Ends a job. A lease that it still has is left to its own timers.
    pub(super) fn end(&mut self, id: JobId, outcome: Outcome, turn: &mut Turn) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        if job.is_active() {
            self.deactivate(id);
        }
        self.unreserve(id);
        let state = &mut self.state;
        let Some(job) = state.jobs.remove(&id) else { return };
        state.admitted.remove(&job.seq);
        for on in &job.after {
            if let Some(waiting) = state.dependents.get_mut(on) {
                waiting.retain(|waiting| *waiting != id);
            }
        }
        let summary = self.summary(&job, turn.now_s);
        if is_finished(&outcome) {
            let progress = self.progress_of(&job, turn.now_s);
            self.predictor.finished(&job.spec, &progress);
        }
        let (finished, lease_epoch) = (is_finished(&outcome), job.lease_epoch);
        let record = EndRecord { outcome: outcome.clone(), lease_epoch, at_s: turn.now_s };
        self.state.ended.insert(id, record);
        turn.out.push(Action::JobEnded { job: id, outcome, summary: Box::new(summary) });
        self.see_off(id, turn);
        turn.touch(id);
        for waiting in self.state.dependents.remove(&id).unwrap_or_default() {
            self.on_dependency(waiting, id, finished, turn);
        }
    }

    fn on_dependency(&mut self, waiting: JobId, on: JobId, finished: bool, turn: &mut Turn) {
        let Some(job) = self.state.jobs.get_mut(&waiting) else { return };
        if !finished {
            return self.end(waiting, Outcome::DependencyFailed { on }, turn);
        }
        job.after.retain(|after| *after != on);
        if job.is_active() {
            self.activate(waiting);
        }
    }

    fn summary(&self, job: &Job, now_s: f64) -> EndSummary {
        let attained_s = job.track.attained_s(now_s);
        let contention = job.seen.mean(now_s, &self.state.contention);
        let rho = (attained_s > 0.0).then(|| job.seen.active_s(now_s) / (attained_s * contention));
        EndSummary {
            jct_s: (now_s - job.spec.arrival_s).max(0.0),
            rho,
            attained_s,
            leases: job.leases,
            preemptions: job.preemptions,
            failures: job.failures_total,
            wasted_gpu_s: job.wasted_gpu_s,
        }
    }

    /// The job, or a refusal that says why there is none.
    pub(super) fn job_mut(&mut self, id: JobId, turn: &mut Turn) -> Option<&mut Job> {
        if !self.state.jobs.contains_key(&id) {
            let over = self.state.ended.get(id).is_some();
            turn.refuse(id, if over { Refusal::JobOver } else { Refusal::UnknownJob });
        }
        self.state.jobs.get_mut(&id)
    }

    /// A spec as a policy may see it.
    pub(super) fn weight_of(&self, job: &Job) -> f64 {
        job.spec.weight * self.state.user_weight(&job.user)
    }
}

fn is_finished(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Finished { .. })
}

pub(super) fn invalid(field: &str, got: impl ToString, expected: &str) -> Refusal {
    Refusal::Invalid { field: field.into(), got: got.to_string(), expected: expected.into() }
}

fn invalid_spec(error: SpecError) -> Refusal {
    Refusal::Invalid { field: error.field.into(), got: error.got, expected: error.expected.into() }
}

/// Epoch counts above this are not believable.
pub(super) fn is_position(epochs_done: f64, spec: &JobSpec) -> bool {
    epochs_done.is_finite() && epochs_done >= 0.0 && epochs_done <= f64::from(spec.epochs_total)
}
