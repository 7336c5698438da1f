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
    /// Only nodes that have one.
    nodes: BTreeMap<&'d NodeId, Vec<&'d DeviceInfo>>,
    /// How many of each kind.
    kinds: BTreeMap<&'d str, usize>,
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
        *self.kinds.entry(&device.kind).or_default() += 1;
    }

    /// Takes the devices of a placement away.
    pub fn take(&mut self, placement: &Placement) {
        for part in &placement.parts {
            let Some(devices) = self.nodes.get_mut(&part.node) else { continue };
            devices.retain(|device| {
                let taken = part.slots.contains(&device.slot);
                if taken && let Some(count) = self.kinds.get_mut(device.kind.as_str()) {
                    *count -= 1;
                }
                !taken
            });
            if devices.is_empty() {
                self.nodes.remove(&part.node);
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
        self.kinds.values().sum()
    }

    /// Free devices of each kind, by name.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'d str, usize)> + '_ {
        self.kinds.iter().filter(|(_, count)| **count > 0).map(|(kind, count)| (*kind, *count))
    }

    /// Chooses devices for a gang; `None` when it does not fit. Takes nothing away.
    #[must_use]
    pub fn place(&self, wish: &Wish<'_>) -> Option<Placement> {
        if wish.gpus == 0 {
            return None;
        }
        let kinds = self.by_kind().filter(|(kind, count)| {
            *count >= wish.gpus as usize && wish.kind.is_none_or(|wanted| wanted == *kind)
        });
        let mut best: Option<Placement> = None;
        for (kind, _) in kinds {
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
        let nodes: Vec<(&NodeId, &[&DeviceInfo])> = match wish.node {
            Some(node) => {
                let only = self.nodes.get_key_value(node);
                only.map(|(node, devices)| (*node, devices.as_slice())).into_iter().collect()
            }
            None => self.by_node().collect(),
        };
        let counts: Vec<(u32, u32)> = nodes.iter().map(|node| count_on(*node, wish)).collect();
        let chosen = choose_nodes(&counts, wish.gpus)?;
        if wish.one_node && chosen.len() > 1 {
            return None;
        }
        let parts = chosen.into_iter().map(|(index, gpus)| share(nodes[index], gpus, wish));
        Some(Placement { parts: parts.collect() })
    }
}

/// Devices of a node that the wish accepts, and how many of them the job last had.
fn count_on((node, devices): (&NodeId, &[&DeviceInfo]), wish: &Wish<'_>) -> (u32, u32) {
    let last = last_slots(wish.last, node);
    let (mut free, mut known) = (0, 0);
    for device in devices.iter().filter(|device| wish.accepts(device)) {
        free += 1;
        known += u32::from(last.contains(&device.slot));
    }
    (free, known)
}

fn share((node, devices): (&NodeId, &[&DeviceInfo]), gpus: u32, wish: &Wish<'_>) -> NodeShare {
    let last = last_slots(wish.last, node);
    let accepted = devices.iter().filter(|device| wish.accepts(device));
    let mut slots: Vec<u32> = accepted.map(|device| device.slot).collect();
    slots.sort_unstable_by_key(|slot| (!last.contains(slot), *slot));
    slots.truncate(gpus as usize);
    slots.sort_unstable();
    NodeShare { node: node.clone(), slots }
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
