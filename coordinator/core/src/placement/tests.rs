//! Placement against brute force on small clusters, and its preferences by example.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn node(name: &str, slots: &[u32]) -> (NodeId, Vec<DeviceInfo>) {
    let device = |slot: &u32| DeviceInfo { slot: *slot, kind: "gpu".into(), memory_bytes: 0 };
    (NodeId(name.into()), slots.iter().map(device).collect())
}

fn free(nodes: &[(NodeId, Vec<DeviceInfo>)]) -> FreeDevices<'_> {
    let mut free = FreeDevices::default();
    for (node, devices) in nodes {
        free.add(node, devices.iter().collect());
    }
    free
}

fn check(nodes: &[(NodeId, Vec<DeviceInfo>)], wish: &Wish<'_>, expect: &[(&str, &[u32])]) {
    let found = free(nodes).place(wish).unwrap();
    let parts: Vec<(&str, &[u32])> =
        found.parts.iter().map(|part| (part.node.0.as_str(), part.slots.as_slice())).collect();
    assert_eq!(parts, expect);
}

#[test]
fn one_node_and_the_tightest_fit() {
    let nodes = [node("a", &[0, 1, 2, 3]), node("b", &[0, 1]), node("c", &[0, 1, 2])];
    check(&nodes, &Wish::any(2), &[("b", &[0, 1])]);
    check(&nodes, &Wish::any(3), &[("c", &[0, 1, 2])]);
    check(&nodes, &Wish::any(4), &[("a", &[0, 1, 2, 3])]);
    check(&nodes, &Wish::any(6), &[("a", &[0, 1, 2, 3]), ("b", &[0, 1])]);
}

#[test]
fn where_it_last_ran() {
    let nodes = [node("a", &[0, 1, 2, 3]), node("b", &[0, 1])];
    let share = NodeShare { node: NodeId("a".into()), slots: vec![2, 3] };
    let last = Placement { parts: vec![share] };
    check(&nodes, &Wish::any(2).near(Some(&last)), &[("a", &[2, 3])]);
    check(&nodes, &Wish::any(3).near(Some(&last)), &[("a", &[0, 2, 3])]);
}

#[test]
fn demands_are_kept() {
    let mut nodes = [node("a", &[0, 1]), node("b", &[0, 1])];
    nodes[1].1.iter_mut().for_each(|device| device.kind = "big".into());
    let all = free(&nodes);
    assert_eq!(all.place(&Wish::any(3)), None, "a gang is of one kind");
    let big = Wish { kind: Some("big"), ..Wish::any(1) };
    check(&nodes, &big, &[("b", &[0])]);
    let here = NodeId("b".into());
    check(&nodes, &Wish { node: Some(&here), ..Wish::any(2) }, &[("b", &[0, 1])]);
    assert_eq!(all.place(&Wish { memory_bytes: 1, ..Wish::any(1) }), None);
    let two = [node("a", &[0, 1]), node("b", &[0, 1])];
    assert_eq!(free(&two).place(&Wish { one_node: true, ..Wish::any(3) }), None);
}

/// Fewest nodes by trying every subset.
fn brute_fewest(counts: &[u32], gpus: u32) -> Option<u32> {
    (0_u32..1 << counts.len())
        .filter(|set| {
            let held: u32 =
                (0..counts.len()).filter(|n| set >> n & 1 == 1).map(|n| counts[n]).sum();
            held >= gpus
        })
        .map(u32::count_ones)
        .min()
}

/// Free slots by node, and who chooses among them.
struct Cluster(Vec<(NodeId, Vec<DeviceInfo>)>);

impl Cluster {
    fn take(&mut self, placement: &Placement) {
        for (node, devices) in &mut self.0 {
            let part = placement.parts.iter().find(|part| part.node == *node);
            devices.retain(|device| part.is_none_or(|part| !part.slots.contains(&device.slot)));
        }
    }

    fn give(&mut self, placement: &Placement) {
        for part in &placement.parts {
            let devices = self.0.iter_mut().find(|(node, _)| *node == part.node).unwrap();
            devices.1.extend(node("", &part.slots).1);
            devices.1.sort_by_key(|device| device.slot);
        }
    }

    /// The first free devices in the order of the nodes.
    fn first_fit(&self, gpus: u32) -> Placement {
        let mut left = gpus as usize;
        let mut parts = Vec::new();
        for (node, devices) in self.0.iter().filter(|(_, devices)| !devices.is_empty()) {
            let slots: Vec<u32> = devices.iter().take(left).map(|device| device.slot).collect();
            left -= slots.len();
            parts.push(NodeShare { node: node.clone(), slots });
            if left == 0 {
                break;
            }
        }
        Placement { parts }
    }
}

/// A long run of gangs that come and go on 16 nodes of 8: how many are split that would fit on one
/// node of an empty cluster, by this placement and by first fit.
#[test]
fn fewer_gangs_are_split_than_by_first_fit() {
    let names: Vec<String> = (0..16).map(|index| format!("n{index:02}")).collect();
    let all = || names.iter().map(|name| node(name, &[0, 1, 2, 3, 4, 5, 6, 7])).collect();
    let (mut ours, mut theirs) = (Cluster(all()), Cluster(all()));
    let mut running: Vec<(u32, Placement, Placement)> = Vec::new();
    let (mut splits, mut placed) = ((0, 0), 0);
    let mut random = 1_u64;
    let mut draw = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..20_000 {
        let gpus = [1, 1, 1, 2, 2, 4, 4, 8][draw(8) as usize];
        let used: u32 = running.iter().map(|(gpus, ..)| gpus).sum();
        if used + gpus > 120 {
            let (_, our, their) = running.swap_remove(draw(running.len() as u64) as usize);
            ours.give(&our);
            theirs.give(&their);
            continue;
        }
        let our = free(&ours.0).place(&Wish::any(gpus)).unwrap();
        let their = theirs.first_fit(gpus);
        splits.0 += u32::from(our.parts.len() > 1);
        splits.1 += u32::from(their.parts.len() > 1);
        placed += 1;
        ours.take(&our);
        theirs.take(&their);
        running.push((gpus, our, their));
    }
    assert!(splits.0 * 2 < splits.1, "{splits:?} of {placed}");
}

/// A wish by looking at every node of each kind.
fn place_by_all(free: &FreeDevices<'_>, wish: &Wish<'_>) -> Option<Placement> {
    let kinds = free.by_kind().filter(|(kind, _)| wish.kind.is_none_or(|wanted| wanted == *kind));
    let found = kinds.filter_map(|(kind, _)| {
        let wish = Wish { kind: Some(kind), ..*wish };
        let nodes: Vec<_> = free.by_node().collect();
        let counts: Vec<_> = nodes.iter().map(|node| count_on(*node, &wish)).collect();
        let chosen = choose_nodes(&counts, wish.gpus)?;
        let parts = chosen.iter().map(|(index, gpus)| share(nodes[*index], *gpus, &wish));
        Some(Placement { parts: parts.collect() })
    });
    let fits = found.filter(|found| !wish.one_node || found.parts.len() == 1);
    fits.min_by_key(|found| rank(found, wish.last))
}

/// Devices of two kinds and memories on some nodes.
fn some_nodes() -> impl Strategy<Value = Vec<(NodeId, Vec<DeviceInfo>)>> {
    let device = (any::<bool>(), 1_u64..3);
    let devices = proptest::collection::vec(proptest::option::of(device), 1..5);
    proptest::collection::vec(devices, 1..7).prop_map(|nodes| {
        let device = |(slot, it): (usize, Option<(bool, u64)>)| {
            let (big, memory_bytes) = it?;
            let kind = if big { "big" } else { "gpu" }.into();
            Some(DeviceInfo { slot: slot as u32, kind, memory_bytes })
        };
        let named = |(index, devices): (usize, Vec<Option<(bool, u64)>>)| {
            let devices = devices.into_iter().enumerate().filter_map(device);
            (NodeId(format!("n{index}")), devices.collect())
        };
        nodes.into_iter().enumerate().map(named).collect()
    })
}

proptest! {
    /// Gang after gang, each placed as if every node had been looked at.
    #[test]
    fn the_index_hides_no_node(
        nodes in some_nodes(),
        wishes in proptest::collection::vec((1_u32..6, any::<bool>(), 0_u64..3), 1..12),
    ) {
        let mut free = free(&nodes);
        let mut last: Option<Placement> = None;
        for (gpus, one_node, memory_bytes) in wishes {
            let wish = Wish { one_node, memory_bytes, ..Wish::any(gpus).near(last.as_ref()) };
            let found = free.place(&wish);
            prop_assert_eq!(&found, &place_by_all(&free, &wish));
            if let Some(found) = found {
                // Every other one is only looked at: what it knows is still free.
                if gpus % 2 == 0 {
                    free.take(&found);
                }
                last = Some(found);
            }
        }
    }

    #[test]
    fn as_few_nodes_as_brute_force(
        counts in proptest::collection::vec((0_u32..9, 0_u32..9), 1..9),
        gpus in 1_u32..33,
    ) {
        let counts: Vec<(u32, u32)> = counts.iter().map(|(c, k)| (*c, *k.min(c))).collect();
        let frees: Vec<u32> = counts.iter().map(|count| count.0).collect();
        let chosen = choose_nodes(&counts, gpus);
        prop_assert_eq!(chosen.as_ref().map(|parts| parts.len() as u32), brute_fewest(&frees, gpus));
        if let Some(parts) = chosen {
            prop_assert_eq!(parts.iter().map(|part| part.1).sum::<u32>(), gpus);
            prop_assert!(parts.iter().all(|(node, part)| *part > 0 && *part <= frees[*node]));
            let mut nodes: Vec<usize> = parts.iter().map(|part| part.0).collect();
            nodes.sort_unstable();
            nodes.dedup();
            prop_assert_eq!(nodes.len(), parts.len());
        }
    }
}
