//! Nodes come, go and are drained.

use super::{
    Action, Engine, KeptWorker, KillReason, Refusal, ReleaseReason, cluster::Node, on_job::invalid,
    reactor::Turn,
};
use crate::types::{JobId, NodeId, NodeInfo, NodeShare, Placement};

impl Engine {
    /// The coordinator starts, perhaps after a gap: nobody is blamed for the time in between, and
    /// agents must join again before anything is started on their nodes.
    pub(super) fn on_started(&mut self, turn: &mut Turn) {
        let state = &mut self.state;
        let until_s = turn.now_s + state.settings.reconnect_s;
        for placement in std::mem::take(&mut state.reserved).values() {
            state.cluster.unreserve(placement);
        }
        state.cluster.clear();
        state.note_hosting();
        state.mechanism.note_change();
        for lease in state.leases.values_mut() {
            lease.expires_s = lease.expires_s.max(until_s);
            lease.heard_s = turn.now_s;
            if let Some(yielding) = &mut lease.yielding {
                yielding.deadline_s = yielding.deadline_s.max(until_s);
            }
            turn.touched.push(lease.job);
        }
        if state.clock.awake {
            state.clock.jump(turn.now_s);
        }
        for job in std::mem::take(&mut turn.touched) {
            self.state.rearm(job);
        }
    }

    pub(super) fn on_node_joined(&mut self, info: NodeInfo, keeps: &[KeptWorker], turn: &mut Turn) {
        let mut slots: Vec<u32> = info.devices.iter().map(|device| device.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        if slots.len() != info.devices.len() {
            return turn.refuse(None, invalid("devices", "a slot twice", "distinct slots"));
        }
        let name = info.node.clone();
        let is_kept = |key: (JobId, u64)| keeps.iter().any(|it| (it.job, it.lease_epoch) == key);
        if self.state.cluster.account_for(&name, is_kept) {
            self.state.cluster.drained.remove(&name);
        }
        let drained = self.state.cluster.drained.get(&name).cloned();
        self.drop_reservations(&name);
        let mut node = Node::new(info);
        node.drained = drained;
        self.state.cluster.insert(name.clone(), node);
        self.adopt_workers(&name, keeps, turn);
        self.note_capacity();
    }

    /// Compares what the agent carries with what it should.
    fn adopt_workers(&mut self, node: &NodeId, keeps: &[KeptWorker], turn: &mut Turn) {
        for kept in keeps {
            let share = NodeShare { node: node.clone(), slots: kept.slots.clone() };
            let placement = Placement { parts: vec![share] };
            self.state.cluster.hold(&placement, kept.job, kept.lease_epoch);
            let lease = self.state.leases.get(&kept.job);
            let valid = lease.is_some_and(|lease| {
                lease.epoch == kept.lease_epoch
                    && lease.parts.contains(node)
                    && lease.killing.is_none()
            });
            if !valid {
                turn.out.push(Action::Kill {
                    job: kept.job,
                    lease_epoch: kept.lease_epoch,
                    nodes: vec![node.clone()],
                    reason: KillReason::Stale,
                });
            }
        }
        let carried =
            |job: JobId, epoch: u64| keeps.iter().any(|k| k.job == job && k.lease_epoch == epoch);
        let gone: Vec<(JobId, u64)> = self
            .leases_on(node)
            .into_iter()
            .filter(|(job, epoch)| !carried(*job, *epoch))
            .collect();
        for (job, epoch) in gone {
            self.on_released(job, epoch, node, ReleaseReason::NodeLeaving, turn);
        }
    }

    /// Leases with processes on a node, as far as is known.
    fn leases_on(&self, node: &NodeId) -> Vec<(JobId, u64)> {
        let leases = self.state.leases.values().filter(|lease| lease.parts.contains(node));
        leases.map(|lease| (lease.job, lease.epoch)).collect()
    }

    pub(super) fn on_node_lost(&mut self, node: &NodeId, processes_gone: bool, turn: &mut Turn) {
        if !self.state.cluster.remove(node) {
            return turn.refuse(None, Refusal::UnknownNode);
        }
        self.drop_reservations(node);
        if processes_gone {
            for (job, epoch) in self.leases_on(node) {
                self.on_released(job, epoch, node, ReleaseReason::NodeLeaving, turn);
            }
        }
        self.note_capacity();
    }

    /// Also for a node that was lost before: then nothing of it is left but its name.
    pub(super) fn on_node_left(&mut self, node: &NodeId, turn: &mut Turn) {
        self.state.cluster.drained.remove(node);
        if self.state.cluster.remove(node) {
            self.drop_reservations(node);
            self.note_capacity();
        }
        for (job, epoch) in self.leases_on(node) {
            self.on_released(job, epoch, node, ReleaseReason::NodeLeaving, turn);
        }
    }

    pub(super) fn on_node_drained(&mut self, node: &NodeId, why: String, turn: &mut Turn) {
        let Some(entry) = self.state.cluster.nodes.get_mut(node) else {
            return turn.refuse(None, Refusal::UnknownNode);
        };
        entry.drained = Some(why.clone());
        self.state.cluster.unaccounted.remove(node);
        self.state.cluster.drained.insert(node.clone(), why);
        self.drop_reservations(node);
        self.note_capacity();
    }

    pub(super) fn on_node_resumed(&mut self, node: &NodeId, turn: &mut Turn) {
        let Some(entry) = self.state.cluster.nodes.get_mut(node) else {
            return turn.refuse(None, Refusal::UnknownNode);
        };
        self.state.cluster.drained.remove(node);
        entry.drained = None;
        entry.failed.clear();
        self.note_capacity();
    }

    fn note_capacity(&mut self) {
        self.state.note_hosting();
        self.state.mechanism.note_change();
        self.state.dispatch_due = true;
    }

    /// Gangs that were to start on a node wait again.
    fn drop_reservations(&mut self, node: &NodeId) {
        let using: Vec<JobId> = self
            .state
            .reserved
            .iter()
            .filter(|(_, placement)| placement.uses(node))
            .map(|(job, _)| *job)
            .collect();
        for job in using {
            self.unreserve(job);
        }
    }

    /// A job gets no devices next, after all.
    pub(super) fn unreserve(&mut self, job: JobId) {
        if let Some(placement) = self.state.reserved.remove(&job) {
            self.state.cluster.unreserve(&placement);
            self.state.dispatch_due = true;
        }
    }
}
