//! Carrying out what the engine orders.

use super::drive::{Key, Product, What};
use super::worker::{Part, Phase, Worker};
use crate::engine::{Action, Event, PlanRequest, ReleaseReason};
use crate::types::{Checkpoint, LeaseGrant, NodeId};

impl Product<'_> {
    pub(super) fn obey(&mut self, action: Action) {
        match action {
            Action::StartLease { lease, resume } => self.start(lease, resume.as_ref()),
            Action::ExtendLease { job, lease_epoch, ttl_s } => {
                let until_s = self.now_s + ttl_s;
                if let Some(worker) = self.key(job, lease_epoch).and_then(|key| self.reach(key)) {
                    worker.expires_s = until_s;
                }
            }
            Action::YieldBy { job, lease_epoch, .. } => {
                if let Some(key) = self.key(job, lease_epoch) {
                    self.yields(key);
                }
            }
            Action::Kill { job, lease_epoch, nodes, .. } => {
                if let Some(key) = self.key(job, lease_epoch) {
                    self.kill(key, &nodes);
                }
            }
            Action::RevokeLease { job, lease_epoch } => {
                if let Some(key) = self.key(job, lease_epoch)
                    && self.reach(key).is_some()
                {
                    self.later(0.0, What::Exits(key, ReleaseReason::Yielded));
                }
            }
            Action::JobEnded { job, outcome, .. } => self.job_ended(job, &outcome),
            Action::Plan(request) => self.plan(&request),
            Action::RoundStarted { at_s, running, .. } => {
                self.accounts.round(at_s, running);
                let (done, jobs) = (self.accounts.done, self.accounts.jobs.len());
                self.observer.round_ended(at_s, done, jobs);
            }
            Action::NodeSetAside { node, .. } => {
                self.later(self.costs.repair_s, What::Repaired(node));
            }
            Action::CheckpointCommitted { .. }
            | Action::JobRetried { .. }
            | Action::Replanned { .. }
            | Action::Refused { .. } => {}
        }
    }

    /// The gang of a lease.
    fn key(&self, job: crate::types::JobId, lease_epoch: u64) -> Option<Key> {
        self.index.get(&job).map(|place| (*place, lease_epoch))
    }

    /// A gang that hears what it is told: its chief's machine can be reached.
    pub(super) fn reach(&mut self, key: Key) -> Option<&mut Worker> {
        let machines = &self.machines;
        self.workers.get_mut(&key).filter(|worker| machines[worker.chief()].up)
    }

    /// Starts a gang's processes where the order arrives.
    fn start(&mut self, lease: LeaseGrant, resume: Option<&Checkpoint>) {
        let Some(key) = self.key(lease.job, lease.epoch) else { return };
        let position = resume.map_or(0.0, |checkpoint| checkpoint.epochs_done);
        self.accounts.jobs[key.0].resumed(position);
        let mut parts = Vec::with_capacity(lease.placement.parts.len());
        for share in lease.placement.parts {
            let Some(&machine) = self.names.get(&share.node) else { continue };
            let alive = self.machines[machine].up;
            if alive {
                self.observer.process(self.now_s, (lease.job, lease.epoch), &share, true);
            }
            parts.push(Part { machine, share, alive, since_s: self.now_s });
        }
        let mut worker = Worker::starting(parts, position, self.now_s, lease.ttl_s);
        let whole = worker.parts.iter().all(|part| part.alive);
        if !whole {
            worker.phase = Phase::Stuck;
        }
        if worker.is_alive() {
            self.workers.insert(key, worker);
            self.later(lease.ttl_s, What::Lapses(key));
            if whole {
                self.later(self.costs.start_s, What::Ready(key));
            } else {
                self.later(self.costs.collective_s, What::GivesUp(key));
            }
        }
    }

    /// A gang is asked for its devices.
    pub(super) fn yields(&mut self, key: Key) {
        let save_s = self.costs.save_s;
        match self.reach(key).map(|worker| worker.phase) {
            // Nothing is lost: it has trained nothing yet.
            Some(Phase::Starting) => {
                self.later(0.0, What::Exits(key, ReleaseReason::Yielded));
            }
            Some(Phase::Training) => {
                self.train(key);
                self.set_phase(key, Phase::Saving);
                self.later(save_s, What::Saved(key));
            }
            _ => {}
        }
    }

    /// Kills what is left of a gang on the machines that can be reached.
    fn kill(&mut self, key: Key, nodes: &[NodeId]) {
        for node in nodes {
            if let Some(&machine) = self.names.get(node)
                && self.machines[machine].up
            {
                self.later(self.costs.kill_s, What::Reaped(key, machine));
            }
        }
    }

    /// Lets the policy decide; its answer comes a little later.
    fn plan(&mut self, request: &PlanRequest) {
        self.observer.deciding();
        match request.answer(self.policy) {
            Ok(answer) => {
                self.observer.decided(&request.view, &answer.decision, self.policy);
                let told = Event::Planned(Box::new(answer));
                self.later(self.costs.plan_s, What::Tell(told));
            }
            Err(error) => self.failed = Some(error.into()),
        }
    }
}
