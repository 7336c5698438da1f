//! The fewest nodes that hold a gang.

use std::cmp::Reverse;

/// Chooses nodes for a gang of `gpus` among nodes with `(free devices, devices that the job last
/// had)`. Gives `(index of the node, devices on it)`, the largest part first, or `None` when there
/// are too few free devices.
///
/// The number of nodes is the least possible: each step takes the node that the job knows best
/// among those that leave the least possible number of nodes in reach, the tightest fit when one
/// node can take all that is left.
#[must_use]
pub fn choose_nodes(counts: &[(u32, u32)], gpus: u32) -> Option<Vec<(usize, u32)>> {
    let mut by_free: Vec<usize> = (0..counts.len()).filter(|node| counts[*node].0 > 0).collect();
    by_free.sort_by_key(|node| (Reverse(counts[*node].0), *node));
    let mut nodes_left = fewest(counts, &by_free, gpus)?;
    let mut left = gpus;
    let mut chosen = Vec::with_capacity(nodes_left);
    while left > 0 {
        let reach = |node: usize| {
            let others = by_free.iter().filter(|other| **other != node).take(nodes_left - 1);
            counts[node].0 + others.map(|other| counts[*other].0).sum::<u32>()
        };
        // A node that the job knows serves only as far as its known devices are used.
        let known = |node: usize| counts[node].1.min(left);
        let key = |node: usize| {
            let (free, takes_all) = (counts[node].0, counts[node].0 >= left);
            let fit = if takes_all { free - left } else { u32::MAX - free };
            (Reverse(known(node)), Reverse(takes_all), fit, node)
        };
        let feasible = by_free.iter().copied().filter(|node| reach(*node) >= left);
        let node = feasible.min_by_key(|node| key(*node))?;
        let part = counts[node].0.min(left);
        chosen.push((node, part));
        left -= part;
        nodes_left = nodes_left.saturating_sub(1).max(1);
        by_free.retain(|other| *other != node);
    }
    chosen.sort_by_key(|(node, part)| (Reverse(*part), *node));
    Some(chosen)
}

/// The least number of nodes that hold `gpus`, given the nodes by falling number of free devices.
fn fewest(counts: &[(u32, u32)], by_free: &[usize], gpus: u32) -> Option<usize> {
    let mut held = 0;
    for (taken, node) in by_free.iter().enumerate() {
        held += counts[*node].0;
        if held >= gpus {
            return Some(taken + 1);
        }
    }
    None
}
