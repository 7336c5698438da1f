//! Which devices a gang gets (section 7, placement engine; issue 7).
//!
//! Rules, in this order: the fewest nodes; among these the nodes where the job last ran; among
//! these the least fragmentation (the fewest devices left over on the nodes touched); on a node
//! the slots that it last had, then the lowest. A gang is of one kind of device.

mod choose;

use std::collections::{BTreeMap, BTreeSet};

use crate::types::{DeviceInfo, NodeId, NodeShare, Placement};

pub use choose::choose_nodes;

/// Devices that may be given away, by node.
#[derive(Clone, Debug, Default)]
pub struct FreeDevices<'d> {
    /// By name.
    nodes: Vec<(&'d NodeId, Vec<&'d DeviceInfo>)>,
    kinds: BTreeMap<&'d str, Kind>,
}

/// The free devices of one kind.
#[derive(Clone, Debug, Default)]
struct Kind {
    count: usize,
    /// Least memory of one of them, bytes.
    memory_bytes_min: u64,
    /// Nodes (their places) by how many they have: a gang is not looked for on each of a thousand.
    by_free: BTreeMap<usize, BTreeSet<usize>>,
}

impl Kind {
    /// A node has another number of them.
    fn change(&mut self, node: usize, before: usize, after: usize) {
        self.count = self.count + after - before;
        if let Some(nodes) = self.by_free.get_mut(&before) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.by_free.remove(&before);
            }
        }
        if after > 0 {
            self.by_free.entry(after).or_default().insert(node);
        }
    }
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
    /// Adds the free devices of a node; nodes come in the order of their names. Slots of a node are
    /// distinct.
    pub fn add(&mut self, node: &'d NodeId, devices: Vec<&'d DeviceInfo>) {
        debug_assert!(self.nodes.last().is_none_or(|last| last.0 < node), "{node:?} comes late");
        let place = self.nodes.len();
        for (name, count) in count_kinds(&devices) {
            let kind = self
                .kinds
                .entry(name)
                .or_insert_with(|| Kind { memory_bytes_min: u64::MAX, ..Kind::default() });
            let memory = devices.iter().filter(|it| it.kind == name).map(|it| it.memory_bytes);
            kind.memory_bytes_min = memory.fold(kind.memory_bytes_min, u64::min);
            kind.change(place, 0, count);
        }
        self.nodes.push((node, devices));
    }

    /// Takes the devices of a placement away.
    pub fn take(&mut self, placement: &Placement) {
        for part in &placement.parts {
            let Some(place) = self.place_of(&part.node) else { continue };
            let Some((_, devices)) = self.nodes.get_mut(place) else { continue };
            let before = count_kinds(devices);
            devices.retain(|device| !part.slots.contains(&device.slot));
            let after = count_kinds(devices);
            for (name, before) in before {
                let after = after.iter().find(|it| it.0 == name).map_or(0, |it| it.1);
                if let Some(kind) = self.kinds.get_mut(name) {
                    kind.change(place, before, after);
                }
            }
        }
    }

    fn place_of(&self, node: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&node, |entry| entry.0).ok()
    }

    fn devices_of(&self, node: &NodeId) -> Option<&[&'d DeviceInfo]> {
        Some(self.nodes[self.place_of(node)?].1.as_slice())
    }

    /// Whether every device of a placement is among them.
    #[must_use]
    pub fn has(&self, placement: &Placement) -> bool {
        placement.parts.iter().all(|part| {
            self.devices_of(&part.node).is_some_and(|devices| {
                part.slots.iter().all(|slot| devices.iter().any(|device| device.slot == *slot))
            })
        })
    }

    /// Devices by node.
    pub fn by_node(&self) -> impl Iterator<Item = (&'d NodeId, &[&'d DeviceInfo])> + '_ {
        let nodes = self.nodes.iter().filter(|(_, devices)| !devices.is_empty());
        nodes.map(|(node, devices)| (*node, devices.as_slice()))
    }

    /// Free devices in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kinds.values().map(|kind| kind.count).sum()
    }

    /// Free devices of each kind, by name.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'d str, usize)> + '_ {
        let kinds = self.kinds.iter().map(|(name, kind)| (*name, kind.count));
        kinds.filter(|(_, count)| *count > 0)
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
            let found = self.place_kind(kind, wish);
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

    fn place_kind(&self, name: &str, wish: &Wish<'_>) -> Option<Placement> {
        let wish = &Wish { kind: Some(name), ..*wish };
        let kind = self.kinds.get(name)?;
        let fits = kind.by_free.range(wish.gpus as usize..).next();
        let tightest = fits.and_then(|(_, places)| places.first().copied());
        let is_indexed = wish.memory_bytes <= kind.memory_bytes_min;
        let places: Vec<usize> = match (wish.node, tightest) {
            (Some(node), _) => self.place_of(node).into_iter().collect(),
            (None, None) if wish.one_node => return None,
            // Where it last ran or the tightest: no other node alone holds it better.
            (None, Some(tightest)) if is_indexed => {
                let last = wish.last.iter().flat_map(|last| &last.parts);
                let last = last.filter_map(|part| self.place_of(&part.node));
                last.chain([tightest]).collect::<BTreeSet<_>>().into_iter().collect()
            }
            (None, _) => (0..self.nodes.len()).collect(),
        };
        let nodes: Vec<(&NodeId, &[&DeviceInfo])> = places
            .into_iter()
            .map(|place| (self.nodes[place].0, self.nodes[place].1.as_slice()))
            .collect();
        let counts: Vec<(u32, u32)> = nodes.iter().map(|node| count_on(*node, wish)).collect();
        let chosen = choose_nodes(&counts, wish.gpus)?;
        if wish.one_node && chosen.len() > 1 {
            return None;
        }
        let parts = chosen.into_iter().map(|(index, gpus)| share(nodes[index], gpus, wish));
        Some(Placement { parts: parts.collect() })
    }
}

fn count_kinds<'d>(devices: &[&'d DeviceInfo]) -> Vec<(&'d str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for device in devices {
        match counts.iter_mut().find(|it| it.0 == device.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((&device.kind, 1)),
        }
    }
    counts
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
