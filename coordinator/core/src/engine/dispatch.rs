//! Starting gangs: on the devices reserved for them once these are free, and on idle devices
//! within a round.

use std::collections::BTreeSet;

use super::{Action, Engine, lease::Lease, reactor::Turn, select::UserRoom};
use crate::types::{JobId, LeaseGrant, Placement};

impl Engine {
    /// Starts whatever can start now. After a lease's end with nothing else new, that is its own job
    /// and those for which its devices are reserved: all others did not fit before.
    pub(super) fn dispatch(&mut self, turn: &mut Turn) {
        let all = std::mem::take(&mut self.state.dispatch_due);
        let some = std::mem::take(&mut turn.freed);
        if !all && some.is_empty() {
            return;
        }
        let state = &self.state;
        let ready = |id: &&JobId| self.is_ready(**id, turn.now_s);
        let ready: Vec<JobId> = match all {
            true => state.reserved.keys().filter(ready).copied().collect(),
            false => some.iter().filter(ready).copied().collect(),
        };
        for id in ready {
            if let Some(placement) = self.state.reserved.remove(&id) {
                self.grant(id, placement, turn);
            }
        }
        let gangs = some.iter().filter_map(|id| Some(self.state.jobs.get(id)?.spec.gpus));
        let least = if all { Some(1) } else { gangs.min() };
        if least.is_some_and(|gpus| self.state.cluster.has_idle(gpus)) {
            self.fill_idle(turn);
        }
    }

    /// Whether a gang can start on the devices that are reserved for it.
    fn is_ready(&self, id: JobId, now_s: f64) -> bool {
        let state = &self.state;
        state.reserved.get(&id).is_some_and(|placement| {
            state.jobs.get(&id).is_some_and(|job| self.may_run(job, now_s))
                && !state.leases.contains_key(&id)
                && state.cluster.is_free(placement)
        })
    }

    /// Gives idle devices to waiting jobs for the rest of the round.
    fn fill_idle(&mut self, turn: &mut Turn) {
        let state = &self.state;
        let boundary_s = state.clock.boundary_s();
        let running = state
            .leases
            .keys()
            .filter(|id| state.jobs.get(id).is_some_and(super::job::Job::is_active))
            .count();
        if state.active <= running {
            return;
        }
        let mut free = state.cluster.idle(boundary_s);
        if free.count() == 0 {
            return;
        }
        let allowed = self.may_fill();
        let mut chosen = Vec::new();
        let holders = state.leases.keys().chain(state.reserved.keys()).copied();
        let mut users = UserRoom::after(self, holders);
        for id in self.precedence() {
            if free.count() == 0 {
                break;
            }
            if state.leases.contains_key(&id)
                || state.reserved.contains_key(&id)
                || allowed.as_ref().is_some_and(|allowed| !allowed.contains(&id))
            {
                continue;
            }
            let Some(job) = state.jobs.get(&id).filter(|job| self.may_run(job, turn.now_s)) else {
                continue;
            };
            let wish = job.demand.wish(job.spec.gpus, job.last_placement.as_ref());
            if users.allows(job)
                && let Some(placement) = free.place(&wish)
            {
                free.take(&placement);
                users.take(job);
                chosen.push((id, placement));
            }
        }
        for (id, placement) in chosen {
            self.grant(id, placement, turn);
        }
    }

    /// Shortly before the next round is fixed only jobs that will be in it may start: any other
    /// would either be stopped at once or, within its shortest run, keep devices from those whose
    /// turn it is. `None`: any job may.
    fn may_fill(&self) -> Option<BTreeSet<JobId>> {
        let state = &self.state;
        let left_s = state.clock.boundary_s() - state.now_s;
        if state.clock.fixed || left_s >= state.settings.min_run_s {
            return None;
        }
        Some(self.choose().start.into_iter().map(|(job, _)| job).collect())
    }

    fn grant(&mut self, id: JobId, placement: Placement, turn: &mut Turn) {
        let now_s = turn.now_s;
        let state = &mut self.state;
        let Some(job) = state.jobs.get_mut(&id) else { return };
        job.lease_epoch += 1;
        job.leases += 1;
        let lease = Lease {
            job: id,
            epoch: job.lease_epoch,
            granted_s: now_s,
            expires_s: now_s + state.settings.ttl_s,
            heard_s: now_s,
            grace_s: job.grace_s(&state.settings),
            pinned_until_s: now_s + job.min_run_s(&state.settings),
            parts: placement.parts.iter().map(|part| part.node.clone()).collect(),
            placement: placement.clone(),
            training_s: None,
            lasting_s: now_s,
            advanced: false,
            accounted_s: now_s,
            yield_at: None,
            yielding: None,
            killing: None,
            expired: false,
            parting: false,
            ending: None,
        };
        state.cluster.hold(&placement, id, lease.epoch);
        let grant =
            LeaseGrant { job: id, epoch: lease.epoch, placement, ttl_s: state.settings.ttl_s };
        state.leases.insert(id, lease);
        turn.out.push(Action::StartLease { lease: grant, resume: job.checkpoint.clone() });
        turn.touch(id);
    }
}
