//! Nodes and who holds which device.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    placement::{FreeDevices, Wish},
    types::{JobId, NodeId, NodeInfo, NodeShare, Placement},
};

use super::submission::Demand;

/// All nodes that agents have offered and not withdrawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cluster {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    /// Why nodes are drained; kept while they are away.
    pub(super) drained: BTreeMap<NodeId, String>,
    /// Leases for whose processes a node was set aside: it is used again once they are gone.
    pub(super) unaccounted: BTreeMap<NodeId, BTreeSet<(JobId, u64)>>,
    /// Devices that nobody holds and nobody waits for, also on nodes that nothing may start on:
    /// where there are none, none are looked for.
    #[serde(default)]
    idle: u32,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) info: NodeInfo,
    /// Why nothing new starts here.
    pub(super) drained: Option<String>,
    /// Jobs that failed here since the last success.
    pub(super) failed: BTreeSet<JobId>,
    /// In the order of `info.devices`.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Slot {
    /// Lease whose processes may be on the device.
    holder: Option<(JobId, u64)>,
    /// Job that gets the device next.
    reserved: Option<JobId>,
}

impl Slot {
    fn is_idle(&self) -> bool {
        self.holder.is_none() && self.reserved.is_none()
    }
}

impl Node {
    pub(super) fn new(info: NodeInfo) -> Self {
        let slots = vec![Slot::default(); info.devices.len()];
        Self { info, drained: None, failed: BTreeSet::new(), slots }
    }

    /// Whether gangs may be there until `until_s`.
    pub(super) fn serves(&self, until_s: f64) -> bool {
        self.drained.is_none() && self.info.until_s.is_none_or(|leaves_s| leaves_s > until_s)
    }

    /// Slot numbers with their holder.
    pub(super) fn holders(&self) -> impl Iterator<Item = (u32, Option<(JobId, u64)>)> + '_ {
        self.info.devices.iter().zip(&self.slots).map(|(device, slot)| (device.slot, slot.holder))
    }

    fn idle(&self) -> u32 {
        self.slots.iter().filter(|slot| slot.is_idle()).count() as u32
    }

    fn each_mut(&mut self, share: &NodeShare, mut change: impl FnMut(&mut Slot)) {
        for (device, slot) in self.info.devices.iter().zip(&mut self.slots) {
            if share.slots.contains(&device.slot) {
                change(slot);
            }
        }
    }
}

impl Cluster {
    /// Devices on nodes that are not drained.
    pub(super) fn gpus(&self) -> u32 {
        let serving = self.nodes.values().filter(|node| node.drained.is_none());
        serving.map(|node| node.info.devices.len() as u32).sum()
    }

    /// A node comes, or is another one now.
    pub(super) fn insert(&mut self, name: NodeId, node: Node) {
        self.remove(&name);
        self.idle += node.idle();
        self.nodes.insert(name, node);
    }

    /// A node goes; whether it was there.
    pub(super) fn remove(&mut self, name: &NodeId) -> bool {
        let removed = self.nodes.remove(name);
        self.idle = self.idle.saturating_sub(removed.as_ref().map_or(0, Node::idle));
        removed.is_some()
    }

    /// All nodes go.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.idle = 0;
    }

    /// Whether there are idle devices, on whatever nodes.
    pub(super) fn has_idle(&self, gpus: u32) -> bool {
        self.idle >= gpus
    }

    /// Changes who has devices of a node; how many more are idle then.
    fn change(&mut self, node: &NodeId, change: impl FnOnce(&mut Node)) -> u32 {
        let Some(node) = self.nodes.get_mut(node) else { return 0 };
        let before = node.idle();
        change(node);
        let after = node.idle();
        self.idle = (self.idle + after).saturating_sub(before);
        after.saturating_sub(before)
    }

    pub(super) fn hold(&mut self, placement: &Placement, job: JobId, epoch: u64) {
        for part in &placement.parts {
            let held = Slot { holder: Some((job, epoch)), reserved: None };
            self.change(&part.node, |node| node.each_mut(part, |slot| *slot = held));
        }
    }

    /// Frees what a lease holds on a node; whether devices are idle now.
    pub(super) fn free(&mut self, node: &NodeId, job: JobId, epoch: u64) -> bool {
        let more = self.change(node, |node| {
            for slot in node.slots.iter_mut().filter(|slot| slot.holder == Some((job, epoch))) {
                slot.holder = None;
            }
        });
        more > 0
    }

    /// Jobs that get devices of a node next.
    pub(super) fn waiting_for(&self, node: &NodeId) -> impl Iterator<Item = JobId> + '_ {
        let slots = self.nodes.get(node).map_or(&[][..], |node| node.slots.as_slice());
        slots.iter().filter_map(|slot| slot.reserved)
    }

    /// Jobs that get devices of a placement next.
    pub(super) fn waiting_on(&self, placement: &Placement) -> BTreeSet<JobId> {
        let mut jobs = BTreeSet::new();
        for part in &placement.parts {
            let Some(node) = self.nodes.get(&part.node) else { continue };
            let slots = node.info.devices.iter().zip(&node.slots);
            let ours = slots.filter(|(device, _)| part.slots.contains(&device.slot));
            jobs.extend(ours.filter_map(|(_, slot)| slot.reserved));
        }
        jobs
    }

    /// Forgets unaccounted leases of a node, except those that are still `open`; says whether that
    /// was the last of them.
    pub(super) fn account_for(
        &mut self,
        node: &NodeId,
        open: impl Fn((JobId, u64)) -> bool,
    ) -> bool {
        let Some(keys) = self.unaccounted.get_mut(node) else { return false };
        keys.retain(|key| open(*key));
        let is_last = keys.is_empty();
        if is_last {
            self.unaccounted.remove(node);
        }
        is_last
    }

    pub(super) fn reserve(&mut self, placement: &Placement, job: JobId) {
        self.set_reserved(placement, Some(job));
    }

    pub(super) fn unreserve(&mut self, placement: &Placement) {
        self.set_reserved(placement, None);
    }

    fn set_reserved(&mut self, placement: &Placement, job: Option<JobId>) {
        for part in &placement.parts {
            self.change(&part.node, |node| node.each_mut(part, |slot| slot.reserved = job));
        }
    }

    /// Whether every device of a placement is there and unheld.
    pub(super) fn is_free(&self, placement: &Placement) -> bool {
        placement.parts.iter().all(|part| {
            self.nodes.get(&part.node).is_some_and(|node| {
                let unheld = node.holders().filter(|(_, holder)| holder.is_none());
                let slots: Vec<u32> = unheld.map(|(slot, _)| slot).collect();
                part.slots.iter().all(|slot| slots.contains(slot))
            })
        })
    }

    /// Devices that nobody holds and nobody waits for, on nodes that serve until `until_s`.
    pub(super) fn idle(&self, until_s: f64) -> FreeDevices<'_> {
        self.devices(until_s, Slot::is_idle)
    }

    /// Every device on nodes that serve until `until_s` whose holder, if any, is one of `holders`.
    pub(super) fn held_by(
        &self,
        until_s: f64,
        holders: impl Fn(JobId, u64) -> bool,
    ) -> FreeDevices<'_> {
        self.devices(until_s, |slot| slot.holder.is_none_or(|(job, epoch)| holders(job, epoch)))
    }

    fn devices(&self, until_s: f64, wanted: impl Fn(&Slot) -> bool) -> FreeDevices<'_> {
        let mut free = FreeDevices::default();
        for (name, node) in self.nodes.iter().filter(|(_, node)| node.serves(until_s)) {
            let slots = node.info.devices.iter().zip(&node.slots);
            free.add(name, slots.filter(|(_, slot)| wanted(slot)).map(|it| it.0).collect());
        }
        free
    }

    /// Whether the gang would fit if it were alone.
    pub(super) fn could_host(&self, gpus: u32, demand: &Demand) -> bool {
        if *demand == Demand::default() && self.single_kind() {
            return gpus <= self.gpus();
        }
        self.devices(f64::NEG_INFINITY, |_| true).place(&demand.wish(gpus, None)).is_some()
    }

    fn single_kind(&self) -> bool {
        let mut kinds =
            self.nodes.values().flat_map(|node| &node.info.devices).map(|device| &device.kind);
        let first = kinds.next();
        kinds.all(|kind| Some(kind) == first)
    }

    /// Kind of the devices of a placement.
    pub(super) fn kind_of(&self, placement: &Placement) -> Option<&str> {
        let part = placement.parts.first()?;
        let devices = &self.nodes.get(&part.node)?.info.devices;
        devices.iter().find(|device| part.slots.contains(&device.slot)).map(|d| d.kind.as_str())
    }
}

impl Demand {
    /// What a gang of this demand needs.
    pub(super) fn wish<'a>(&'a self, gpus: u32, last: Option<&'a Placement>) -> Wish<'a> {
        Wish {
            gpus,
            node: self.node.as_ref(),
            kind: self.kind.as_deref(),
            memory_bytes: self.memory_bytes,
            one_node: self.one_node,
            last,
        }
    }
}
