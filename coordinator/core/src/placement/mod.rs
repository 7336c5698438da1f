//! Which devices a gang gets (section 7, placement engine; issue 7).
//!
//! Rules, in this order: the fewest nodes; among these the nodes where the job last ran; among
//! these the least fragmentation (the fewest devices left over on the nodes touched); on a node
//! the slots that it last had, then the lowest. A gang is of one kind of device.

mod choose;

use std::collections::BTreeMap;

use crate::types::{DeviceInfo, NodeId, NodeShare, Placement};

pub use choose::choose_nodes;

/// Devices that may be given away, by node.
#[derive(Clone, Debug, Default)]
pub struct FreeDevices<'d> {
    nodes: BTreeMap<&'d NodeId, Vec<&'d DeviceInfo>>,
}

/// What a gang needs.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Gang size.
    pub gpus: u32,
    /// Only this node.
    pub node: Option<&'a NodeId>,
    /// Only this kind of device.
    pub kind: Option<&'a str>,
    /// At least this device memory, bytes.
    pub memory_bytes: u64,
    /// Whether the gang must lie on one node.
    pub one_node: bool,
    /// Where it last ran.
    pub last: Option<&'a Placement>,
}

impl<'a> Wish<'a> {
    /// `gpus` devices of any kind, anywhere.
    #[must_use]
    pub fn any(gpus: u32) -> Self {
        Self { gpus, node: None, kind: None, memory_bytes: 0, one_node: false, last: None }
    }

    /// The same with a preference for where the job last ran.
    #[must_use]
    pub fn near(self, last: Option<&'a Placement>) -> Self {
        Self { last, ..self }
    }

    fn accepts(&self, device: &DeviceInfo) -> bool {
        self.kind.is_none_or(|kind| device.kind == kind) && device.memory_bytes >= self.memory_bytes
    }
}

impl<'d> FreeDevices<'d> {
    /// Adds a free device. Slots of a node are distinct.
    pub fn add(&mut self, node: &'d NodeId, device: &'d DeviceInfo) {
        self.nodes.entry(node).or_default().push(device);
    }

    /// Takes the devices of a placement away.
    pub fn take(&mut self, placement: &Placement) {
        for part in &placement.parts {
            if let Some(devices) = self.nodes.get_mut(&part.node) {
                devices.retain(|device| !part.slots.contains(&device.slot));
            }
        }
    }

    /// Whether every device of a placement is among them.
    #[must_use]
    pub fn has(&self, placement: &Placement) -> bool {
        placement.parts.iter().all(|part| {
            self.nodes.get(&part.node).is_some_and(|devices| {
                part.slots.iter().all(|slot| devices.iter().any(|device| device.slot == *slot))
            })
        })
    }

    /// Devices by node.
    pub fn by_node(&self) -> impl Iterator<Item = (&'d NodeId, &[&'d DeviceInfo])> + '_ {
        self.nodes.iter().map(|(node, devices)| (*node, devices.as_slice()))
    }

    /// Free devices in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.nodes.values().map(Vec::len).sum()
    }

    /// Kinds of device among the free ones, sorted.
    fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> =
            self.nodes.values().flatten().map(|device| device.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Chooses devices for a gang; `None` when it does not fit. Takes nothing away.
    #[must_use]
    pub fn place(&self, wish: &Wish<'_>) -> Option<Placement> {
        if wish.gpus == 0 {
            return None;
        }
        let kinds = wish.kind.map_or_else(|| self.kinds(), |kind| vec![kind]);
        let mut best: Option<Placement> = None;
        for kind in kinds {
            let found = self.place_kind(&Wish { kind: Some(kind), ..*wish });
            let better = match (&best, &found) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(old), Some(new)) => rank(new, wish.last) < rank(old, wish.last),
            };
            if better {
                best = found;
            }
        }
        best
    }

    fn place_kind(&self, wish: &Wish<'_>) -> Option<Placement> {
        let nodes: Vec<&NodeId> = match wish.node {
            Some(node) => {
                self.nodes.get_key_value(node).map(|entry| *entry.0).into_iter().collect()
            }
            None => self.nodes.keys().copied().collect(),
        };
        let counts: Vec<(u32, u32)> = nodes.iter().map(|node| self.count_on(node, wish)).collect();
        let chosen = choose_nodes(&counts, wish.gpus)?;
        if wish.one_node && chosen.len() > 1 {
            return None;
        }
        let parts = chosen.into_iter().map(|(index, gpus)| self.share(nodes[index], gpus, wish));
        Some(Placement { parts: parts.collect() })
    }

    /// Devices of a node that the wish accepts, and how many of them the job last had.
    fn count_on(&self, node: &NodeId, wish: &Wish<'_>) -> (u32, u32) {
        let last = last_slots(wish.last, node);
        let (mut free, mut known) = (0, 0);
        for device in self.nodes[node].iter().filter(|device| wish.accepts(device)) {
            free += 1;
            known += u32::from(last.contains(&device.slot));
        }
        (free, known)
    }

    fn share(&self, node: &NodeId, gpus: u32, wish: &Wish<'_>) -> NodeShare {
        let last = last_slots(wish.last, node);
        let accepted = self.nodes[node].iter().filter(|device| wish.accepts(device));
        let mut slots: Vec<u32> = accepted.map(|device| device.slot).collect();
        slots.sort_unstable_by_key(|slot| (!last.contains(slot), *slot));
        slots.truncate(gpus as usize);
        slots.sort_unstable();
        NodeShare { node: node.clone(), slots }
    }
}

fn last_slots<'a>(last: Option<&'a Placement>, node: &NodeId) -> &'a [u32] {
    let part = last.and_then(|placement| placement.parts.iter().find(|part| part.node == *node));
    part.map_or(&[], |part| part.slots.as_slice())
}

/// Fewer nodes first, then more devices that the job last had.
fn rank(placement: &Placement, last: Option<&Placement>) -> (usize, std::cmp::Reverse<usize>) {
    let known = placement.parts.iter().map(|part| {
        let last = last_slots(last, &part.node);
        part.slots.iter().filter(|slot| last.contains(slot)).count()
    });
    (placement.parts.len(), std::cmp::Reverse(known.sum()))
}

#[cfg(test)]
mod tests;
