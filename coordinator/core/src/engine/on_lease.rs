//! How leases are taken back: yield, kill, expiry; and what follows their end.

use super::{
    Action, Engine, KillReason, Outcome, ReleaseReason, YieldReason,
    job::Job,
    lease::{KILLS_MAX, Killing, Lease, Yielding},
    reactor::Turn,
    state::time_limit_s,
};
use crate::types::{JobId, NodeId};

impl Engine {
    /// Asks for the devices back, unless that was done before.
    pub(super) fn ask_to_yield(&mut self, id: JobId, reason: YieldReason, turn: &mut Turn) {
        let Some(lease) = self.state.leases.get_mut(&id).filter(|lease| lease.is_live()) else {
            return;
        };
        let deadline_s = turn.now_s + lease.grace_s;
        lease.yield_at = None;
        lease.yielding = Some(Yielding { asked_s: turn.now_s, deadline_s, reason: reason.clone() });
        turn.out.push(Action::YieldBy {
            job: id,
            lease_epoch: lease.epoch,
            deadline_s,
            grace_s: lease.grace_s,
            reason,
        });
        turn.touch(id);
    }

    /// The job ends by itself; it is killed if that takes longer than its grace.
    pub(super) fn see_off(&mut self, id: JobId, turn: &mut Turn) {
        let Some(lease) = self.state.leases.get_mut(&id).filter(|lease| lease.is_live()) else {
            return;
        };
        let deadline_s = turn.now_s + lease.grace_s;
        lease.yield_at = None;
        let reason = YieldReason::Ending;
        lease.yielding = Some(Yielding { asked_s: turn.now_s, deadline_s, reason });
        turn.touch(id);
    }

    /// Ends a lease's processes.
    pub(super) fn kill(&mut self, id: JobId, reason: KillReason, turn: &mut Turn) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let sent = lease.killing.map_or(0, |killing| killing.sent) + 1;
        lease.killing = Some(Killing { reason, sent_s: turn.now_s, sent });
        turn.out.push(Action::Kill {
            job: id,
            lease_epoch: lease.epoch,
            nodes: lease.parts.clone(),
            reason,
        });
        turn.touch(id);
    }

    /// A lease, a waiting time or a time limit is due.
    pub(super) fn on_job_timer(&mut self, id: JobId, turn: &mut Turn) {
        turn.touch(id);
        let Some(lease) = self.state.leases.get(&id) else {
            self.state.dispatch_due = true;
            return;
        };
        let now_s = turn.now_s;
        if let Some(killing) = lease.killing {
            if killing.sent < KILLS_MAX {
                self.kill(id, killing.reason, turn);
            } else {
                self.give_up(id, "its processes cannot be ended", turn);
            }
        } else if let Some(yielding) = &lease.yielding {
            if yielding.deadline_s <= now_s {
                let over = !self.state.jobs.contains_key(&id);
                let reason = if over { KillReason::JobEnded } else { KillReason::Deadline };
                self.kill(id, reason, turn);
            }
        } else if lease.expired {
            self.after_expiry(id, turn);
        } else if lease.expires_s <= now_s {
            self.expire(id, turn);
        } else if let Some((_, reason)) = lease.yield_at.clone().filter(|(at_s, _)| *at_s <= now_s)
        {
            self.ask_to_yield(id, reason, turn);
        } else if self.state.jobs.get(&id).is_some_and(|job| time_limit_s(job, lease) <= now_s) {
            self.ask_to_yield(id, YieldReason::TimeLimit, turn);
            self.end(id, Outcome::TimeLimit, turn);
        }
    }

    fn expire(&mut self, id: JobId, turn: &mut Turn) {
        if let Some(lease) = self.state.leases.get_mut(&id) {
            lease.expired = true;
            lease.yield_at = None;
            let lease_epoch = lease.epoch;
            turn.out.push(Action::RevokeLease { job: id, lease_epoch });
        }
    }

    /// The grace after an expiry is over. A worker that nobody reaches stops by itself, and is given
    /// as long for that as a kill: its job does not run elsewhere while it writes its checkpoint.
    fn after_expiry(&mut self, id: JobId, turn: &mut Turn) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let reachable = lease.parts.iter().any(|part| self.state.cluster.nodes.contains_key(part));
        if reachable {
            self.kill(id, KillReason::Expired, turn);
        } else if !std::mem::replace(&mut lease.parting, true) {
            turn.touch(id);
        } else {
            self.give_up(id, "its nodes are lost", turn);
        }
    }

    /// Ends a lease whose processes nobody can account for. Its time is over, so the job may run
    /// elsewhere; its devices stay held until their agent says that they are free, and what the
    /// old processes still send is refused by its lease epoch.
    fn give_up(&mut self, id: JobId, why: &str, turn: &mut Turn) {
        let Some(lease) = self.state.leases.get_mut(&id) else { return };
        let parts = std::mem::take(&mut lease.parts);
        let key = (id, lease.epoch);
        lease.note_unseen();
        for part in parts {
            let cluster = &self.state.cluster;
            let drained = cluster.nodes.get(&part).is_some_and(|node| node.drained.is_some());
            if drained && !cluster.unaccounted.contains_key(&part) {
                continue;
            }
            let why = format!("processes of job {id} are not accounted for: {why}");
            let mut open = self.state.cluster.unaccounted.remove(&part).unwrap_or_default();
            self.set_aside(&part, &why, turn);
            open.insert(key);
            self.state.cluster.unaccounted.insert(part, open);
        }
        self.close_lease(id, turn);
    }

    /// The lease is over: nothing of it runs.
    pub(super) fn close_lease(&mut self, id: JobId, turn: &mut Turn) {
        let Some(mut lease) = self.state.leases.remove(&id) else { return };
        turn.touch(id);
        self.account(&mut lease);
        turn.freed.insert(id);
        let now_s = turn.now_s;
        // What its user may have besides has grown.
        let state = &mut self.state;
        let capped =
            state.jobs.get(&id).is_some_and(|job| state.user_gpus_max(&job.user).is_some());
        state.dispatch_due |= capped;
        let Some(job) = state.jobs.get_mut(&id) else { return };
        if lease.training_s.is_some() {
            let resumes_at = job.resumes_at();
            job.track.stop(now_s, resumes_at);
        }
        // What a plain command has done lasts once it is complete.
        if !completes(job, &lease) {
            job.wasted_gpu_s += lease.gpu_s(now_s - lease.lasting_s);
        }
        if let Some(yielding) = &lease.yielding
            && yielding.reason != YieldReason::Ending
        {
            job.preemptions += 1;
            match lease.killing {
                None => job.measure_yield(now_s - yielding.asked_s),
                Some(Killing { reason: KillReason::Deadline, .. }) => {
                    let grace_s = lease.grace_s;
                    job.last_failure = Some(format!(
                        "asked to yield, it did not within its grace of {grace_s} s and was killed"
                    ));
                }
                Some(_) => {}
            }
        }
        job.last_placement = Some(lease.placement.clone());
        self.after_lease(id, &lease, turn);
    }

    /// What the end of its lease means for a job that has not ended.
    fn after_lease(&mut self, id: JobId, lease: &Lease, turn: &mut Turn) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let asked = was_asked(lease);
        // A machine that goes away has its jobs stop, and a plain command ends so with its lease: no
        // fault of theirs.
        let nodes = &self.state.cluster.nodes;
        let excused = job.terms.exit_zero_finishes
            || lease
                .placement
                .parts
                .iter()
                .any(|part| nodes.get(&part.node).is_none_or(|node| node.drained.is_some()));
        let unstarted = matches!(lease.ending, Some(ReleaseReason::StartFailed { .. }));
        if completes(job, lease) {
            return self.end(id, Outcome::Finished { step: None }, turn);
        }
        let why = match &lease.ending {
            Some(ReleaseReason::StartFailed { why }) => why.clone(),
            Some(ReleaseReason::Killed) if lease.expired => "its lease was not renewed".into(),
            // Whoever stops it by hand may do so as often as it gets on in between.
            Some(ReleaseReason::Yielded) if !asked && !excused && !lease.advanced => {
                "it stopped before a new checkpoint as if asked to yield (exit code 75), but was not"
                    .into()
            }
            Some(ReleaseReason::Lost) if !asked => "how it ended is unknown".into(),
            Some(ReleaseReason::Exited { code: 0 }) if !asked => {
                "it exited without saying that it is complete".into()
            }
            Some(ReleaseReason::Exited { code }) if !asked => format!("it exited with code {code}"),
            Some(ReleaseReason::Signalled { signal }) if !asked => {
                format!("it was ended by signal {signal}")
            }
            _ => return,
        };
        // What a program does wrong is not held against its node.
        if (unstarted && lease.training_s.is_none()) || lease.expired {
            for part in &lease.placement.parts {
                self.note_node_failure(&part.node, id, turn);
            }
        }
        // Exit code 0 without a word: it may have said that it is complete while nobody listened;
        // started again, it hands that over.
        let lost = lease.expired
            || matches!(
                lease.ending,
                Some(
                    ReleaseReason::Lost
                        | ReleaseReason::Yielded
                        | ReleaseReason::Exited { code: 0 }
                )
            );
        self.count_failure(id, why, lost, turn);
    }

    /// Counts a failure: another attempt after a while, or the end. A job that can resume is tried
    /// again as often as the settings say when it was `lost`: a lease that ran out or a machine that
    /// was started anew is no fault of the program's.
    pub(super) fn count_failure(&mut self, id: JobId, why: String, lost: bool, turn: &mut Turn) {
        let settings = &self.state.settings;
        let (backoff_s, backoff_max_s) = (settings.backoff_s, settings.backoff_max_s);
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        job.failures += 1;
        job.failures_total += 1;
        job.last_failure = Some(why.clone());
        let (failures, mut retries) = (job.failures, job.retries(settings));
        if lost && !job.terms.exit_zero_finishes {
            retries = retries.max(settings.retries);
        }
        if failures > retries {
            let why = match failures {
                1 => why,
                _ => format!("{failures} failures without a checkpoint between them, last: {why}"),
            };
            return self.end(id, Outcome::Failed { why }, turn);
        }
        let doubled = f64::from(2_u32.saturating_pow(failures - 1));
        let not_before_s = turn.now_s + (backoff_s * doubled).min(backoff_max_s);
        job.not_before_s = not_before_s;
        self.state.mechanism.note_change();
        turn.touch(id);
        turn.out.push(Action::JobRetried {
            job: id,
            why,
            failures,
            failures_max: retries + 1,
            not_before_s,
        });
    }

    /// The job's node has shown that it works.
    pub(super) fn clear_node_failures(&mut self, id: JobId) {
        let Some(lease) = self.state.leases.get(&id) else { return };
        for part in &lease.placement.parts {
            if let Some(node) = self.state.cluster.nodes.get_mut(&part.node) {
                node.failed.clear();
            }
        }
    }

    fn note_node_failure(&mut self, node: &NodeId, job: JobId, turn: &mut Turn) {
        let limit = self.state.settings.node_failures_max as usize;
        let Some(entry) = self.state.cluster.nodes.get_mut(node) else { return };
        entry.failed.insert(job);
        let failed = entry.failed.len();
        if failed >= limit && entry.drained.is_none() {
            self.set_aside(node, &format!("{failed} jobs failed here without a success"), turn);
        }
    }

    fn set_aside(&mut self, node: &NodeId, why: &str, turn: &mut Turn) {
        if self.state.cluster.nodes.contains_key(node) {
            turn.out.push(Action::NodeSetAside { node: node.clone(), why: why.to_owned() });
            self.on_node_drained(node, why.to_owned(), turn);
        }
    }
}

/// Whether the gang was asked for its devices while its job had more to do.
fn was_asked(lease: &Lease) -> bool {
    lease.yielding.as_ref().is_some_and(|yielding| yielding.reason != YieldReason::Ending)
}

/// Whether a lease's end is its job's completion: a plain command that ends by itself, and well.
fn completes(job: &Job, lease: &Lease) -> bool {
    let well = matches!(lease.ending, Some(ReleaseReason::Exited { code: 0 }));
    well && job.terms.exit_zero_finishes && !was_asked(lease)
}
