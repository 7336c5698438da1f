//! What workers and their agents report.

use super::{
    Action, Engine, KillReason, Outcome, Refusal, ReleaseReason,
    lease::Lease,
    on_job::{invalid, is_position},
    reactor::Turn,
};
use crate::types::{Checkpoint, JobId, NodeId};

impl Engine {
    pub(super) fn on_worker_started(
        &mut self,
        id: JobId,
        lease_epoch: u64,
        epochs_done: f64,
        turn: &mut Turn,
    ) {
        if !self.is_current(id, lease_epoch, turn) || !self.is_position(id, epochs_done, turn) {
            return;
        }
        self.hear(id, turn);
        let (Some(job), Some(lease)) =
            (self.state.jobs.get_mut(&id), self.state.leases.get_mut(&id))
        else {
            return;
        };
        job.track.start(turn.now_s, epochs_done, job.spec.initial_batch);
        if lease.training_s.is_none() {
            lease.training_s = Some(turn.now_s);
            lease.pinned_until_s = turn.now_s + job.min_run_s(&self.state.settings);
            lease.lasting_s = turn.now_s;
            let start_s = turn.now_s - lease.granted_s;
            job.measure_start(start_s);
            job.wasted_gpu_s += lease.gpu_s(start_s);
            // Its time limit counts from now on.
            turn.touch(id);
        }
    }

    pub(super) fn on_epoch(
        &mut self,
        id: JobId,
        lease_epoch: u64,
        (epochs, batch, duration_s): (u32, u32, f64),
        turn: &mut Turn,
    ) {
        let epochs_done = f64::from(epochs);
        if !self.is_current(id, lease_epoch, turn) || !self.is_position(id, epochs_done, turn) {
            return;
        }
        if !(duration_s.is_finite() && duration_s > 0.0) {
            return turn.refuse(id, invalid("duration_s", duration_s, "a finite number above 0"));
        }
        if batch == 0 {
            return turn.refuse(id, invalid("batch", batch, "at least 1"));
        }
        self.hear(id, turn);
        if let Some(job) = self.state.jobs.get_mut(&id) {
            job.track.epoch_done(turn.now_s, epochs_done, batch, duration_s);
        }
        self.show_predictor(id);
        self.clear_node_failures(id);
    }

    pub(super) fn on_regime(
        &mut self,
        id: JobId,
        lease_epoch: u64,
        epochs_done: f64,
        batch: u32,
        turn: &mut Turn,
    ) {
        if !self.is_current(id, lease_epoch, turn) || !self.is_position(id, epochs_done, turn) {
            return;
        }
        if batch == 0 {
            return turn.refuse(id, invalid("batch", batch, "at least 1"));
        }
        self.hear(id, turn);
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        if job.track.regime(turn.now_s, epochs_done, batch) && self.state.settings.reactive {
            self.state.mechanism.note_change();
        }
        self.show_predictor(id);
    }

    pub(super) fn on_checkpoint(&mut self, id: JobId, saved: Checkpoint, turn: &mut Turn) {
        if !self.is_current(id, saved.lease_epoch, turn)
            || !self.is_position(id, saved.epochs_done, turn)
        {
            return;
        }
        self.hear(id, turn);
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let committed = job.checkpoint.as_ref().map(|checkpoint| checkpoint.step);
        if let Some(committed) = committed.filter(|committed| saved.step < *committed) {
            return turn.refuse(id, Refusal::OldStep { got: saved.step, committed });
        }
        let advances = committed != Some(saved.step);
        if advances {
            job.failures = 0;
        }
        job.track.position(turn.now_s, saved.epochs_done);
        job.checkpoint = Some(saved.clone());
        if let Some(lease) = self.state.leases.get_mut(&id) {
            lease.lasting_s = turn.now_s;
            lease.advanced |= advances;
        }
        self.clear_node_failures(id);
        turn.out.push(Action::CheckpointCommitted { job: id, checkpoint: saved });
    }

    pub(super) fn on_renewed(
        &mut self,
        id: JobId,
        lease_epoch: u64,
        epochs_done: Option<f64>,
        turn: &mut Turn,
    ) {
        let ttl_s = self.state.settings.ttl_s;
        let current = self.state.jobs.get(&id).map(|job| job.lease_epoch);
        let lease = self.state.leases.get_mut(&id).filter(|lease| {
            // A job that was cancelled has its grace like any other that yields.
            lease.epoch == lease_epoch
                && current.is_none_or(|current| current == lease_epoch)
                && lease.killing.is_none()
        });
        let Some(lease) = lease.filter(|lease| !lease.expired) else {
            turn.out.push(Action::RevokeLease { job: id, lease_epoch });
            return;
        };
        lease.heard_s = turn.now_s;
        if let Some(yielding) = &lease.yielding {
            turn.out.push(Action::YieldBy {
                job: id,
                lease_epoch,
                deadline_s: yielding.deadline_s,
                grace_s: (yielding.deadline_s - turn.now_s).max(0.0),
                reason: yielding.reason.clone(),
            });
        } else {
            lease.expires_s = turn.now_s + ttl_s;
            turn.out.push(Action::ExtendLease { job: id, lease_epoch, ttl_s });
        }
        turn.touch(id);
        if let (Some(epochs_done), Some(job)) = (epochs_done, self.state.jobs.get_mut(&id))
            && is_position(epochs_done, &job.spec)
        {
            job.track.position(turn.now_s, epochs_done);
        }
    }

    pub(super) fn on_finished(&mut self, id: JobId, lease_epoch: u64, step: u64, turn: &mut Turn) {
        let said = self.state.ended.get(id).is_some_and(|end| {
            end.lease_epoch == lease_epoch && matches!(end.outcome, Outcome::Finished { .. })
        });
        if said || !self.is_current(id, lease_epoch, turn) {
            return;
        }
        self.hear(id, turn);
        self.clear_node_failures(id);
        if let Some(job) = self.state.jobs.get_mut(&id) {
            job.track.position(turn.now_s, f64::from(job.spec.epochs_total));
        }
        self.end(id, Outcome::Finished { step: Some(step) }, turn);
    }

    pub(super) fn on_failed(
        &mut self,
        id: JobId,
        lease_epoch: u64,
        why: String,
        retry: bool,
        turn: &mut Turn,
    ) {
        if !self.is_current(id, lease_epoch, turn) {
            return;
        }
        if !retry {
            return self.end(id, Outcome::Failed { why }, turn);
        }
        // The failure is counted once, when the processes are gone.
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        job.last_failure = Some(why.clone());
        match self.state.leases.get_mut(&id).filter(|lease| lease.epoch == lease_epoch) {
            Some(lease) => {
                lease.note_ending(ReleaseReason::StartFailed { why });
                self.see_off(id, turn);
            }
            None => self.count_failure(id, why, false, turn),
        }
    }

    /// A node reports that no process of a lease is left on it.
    pub(super) fn on_released(
        &mut self,
        id: JobId,
        lease_epoch: u64,
        node: &NodeId,
        reason: ReleaseReason,
        turn: &mut Turn,
    ) {
        self.state.dispatch_due |= self.state.cluster.free(node, id, lease_epoch);
        turn.freed.insert(id);
        turn.freed.extend(self.state.cluster.waiting_for(node));
        if self.state.cluster.account_for(node, |key| key != (id, lease_epoch)) {
            self.state.cluster.drained.remove(node);
            if self.state.cluster.nodes.contains_key(node) {
                self.on_node_resumed(node, turn);
            }
        }
        let lease = self.state.leases.get_mut(&id).filter(|lease| lease.epoch == lease_epoch);
        let Some(lease) = lease.filter(|lease| lease.parts.contains(node)) else { return };
        lease.parts.retain(|part| part != node);
        let in_order = matches!(reason, ReleaseReason::Yielded | ReleaseReason::Exited { code: 0 });
        lease.note_ending(reason);
        if lease.parts.is_empty() {
            self.close_lease(id, turn);
        } else if in_order {
            self.see_off(id, turn);
        } else {
            self.kill(id, KillReason::GangBroken, turn);
        }
        turn.touch(id);
    }

    /// Whether a report comes under the job's newest lease; refuses it otherwise.
    fn is_current(&mut self, id: JobId, lease_epoch: u64, turn: &mut Turn) -> bool {
        let Some(job) = self.job_mut(id, turn) else { return false };
        let current = job.lease_epoch;
        if current != lease_epoch {
            turn.refuse(id, Refusal::StaleLease { got: lease_epoch, current });
        }
        current == lease_epoch
    }

    fn is_position(&mut self, id: JobId, epochs_done: f64, turn: &mut Turn) -> bool {
        let Some(job) = self.job_mut(id, turn) else { return false };
        let good = is_position(epochs_done, &job.spec);
        if !good {
            let expected = format!("0 to {} epochs", job.spec.epochs_total);
            turn.refuse(id, invalid("epochs_done", epochs_done, &expected));
        }
        good
    }

    /// Lets the predictor learn from what a running job has shown.
    fn show_predictor(&mut self, id: JobId) {
        if let Some(job) = self.state.jobs.get(&id) {
            let progress = self.progress_of(job, self.state.now_s);
            self.predictor.observed(&job.spec, &progress);
        }
    }

    /// The worker of the current lease is alive.
    fn hear(&mut self, id: JobId, turn: &Turn) {
        if let Some(lease) = self.state.leases.get_mut(&id) {
            lease.heard_s = turn.now_s;
        }
    }

    /// Writes service into the mechanism's account.
    pub(super) fn account(&mut self, lease: &mut Lease) {
        let seconds = (self.state.now_s - lease.accounted_s).max(0.0);
        lease.accounted_s = self.state.now_s;
        self.state.mechanism.received(lease.job, seconds);
    }
}
