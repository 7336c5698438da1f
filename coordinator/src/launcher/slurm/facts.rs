//! What the launcher needs to know of the coordinator, and the little that it tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use shockwave_core::engine::Demand;
use shockwave_core::types::NodeId;

use super::decide::Machine;
use super::settings::{Mode, Pool};
use crate::grpc::agent::LEAVING;
use crate::service::Shared;
use crate::service::book::Node;
use crate::service::carriers::PLACE;
use crate::service::owner::Owner;
use crate::service::record::Record;

/// What is known of machines and work.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Machines that agents of pilots have entered, by the pilot's name.
    pub(super) machines: BTreeMap<String, Machine>,
    /// Devices that jobs want of each pool.
    pub(super) wanted: Vec<u64>,
}

/// The pilot that carries a machine: machines are named `HOST.PILOT`.
fn pilot_of<'a>(node: &'a str, prefix: &str) -> Option<&'a str> {
    node.rsplit_once('.').map(|(_, pilot)| pilot).filter(|pilot| pilot.starts_with(prefix))
}

/// Whether a Slurm job's name is one of a pool's.
pub(super) fn is_of_pool(name: &str, prefix: &str, pool: &Pool) -> bool {
    let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(pool.name.as_str()));
    rest.is_some_and(|rest| rest.starts_with('-'))
}

pub(super) fn gather(owner: &Owner, pools: &[Pool], prefix: &str) -> Facts {
    let drained: BTreeMap<NodeId, String> = owner
        .state
        .engine
        .nodes()
        .into_iter()
        .filter_map(|node| Some((node.info.node, node.drained?)))
        .collect();
    let mut facts = Facts::default();
    let leases = leases_by_node(owner);
    let mut fixed = 0;
    for (name, node) in &owner.state.book.nodes {
        let why = drained.get(&NodeId(name.clone()));
        match pilot_of(name, prefix) {
            Some(pilot) => {
                let mut machine = machine(owner, name, node, why);
                machine.leases = leases.get(name.as_str()).copied().unwrap_or(0);
                facts.machines.insert(pilot.to_owned(), machine);
            }
            // A place is what a pool may have, not what is there anyway.
            None if node.instance == PLACE => {}
            None if !node.lost && why.is_none() => fixed += node.devices.len() as u64,
            None => {}
        }
    }
    facts.wanted = share_out(owner.state.engine.wanted(), pools, fixed);
    facts
}

/// Leases whose time is not over, by the machines that may run them.
fn leases_by_node(owner: &Owner) -> BTreeMap<&str, u32> {
    let engine = owner.state.engine.leases();
    let engine: BTreeSet<(u64, u64)> = engine.map(|it| (it.job.0, it.lease_epoch)).collect();
    let mut counts = BTreeMap::new();
    for lease in owner.state.book.leases.values() {
        if engine.contains(&(lease.job, lease.epoch)) {
            lease.holders().for_each(|node| *counts.entry(node).or_insert(0) += 1);
        }
    }
    counts
}

fn machine(owner: &Owner, name: &str, node: &Node, drained: Option<&String>) -> Machine {
    Machine {
        node: name.to_owned(),
        is_lost: node.lost,
        drained: drained.filter(|why| *why != LEAVING).cloned(),
        is_leaving: drained.is_some_and(|why| why == LEAVING),
        leases: 0,
        silent_s: owner.heard.get(name).map_or(0.0, |heard_s| owner.now_s() - heard_s),
    }
}

/// Gives each job's devices to the first pool that has room for them, once the machines that are
/// there anyway are full. A pool that is full already is wanted all the same: jobs take turns.
fn share_out<'a>(
    jobs: impl Iterator<Item = (u32, &'a Demand)>,
    pools: &[Pool],
    mut fixed: u64,
) -> Vec<u64> {
    let whole = |pool: &Pool| u64::from(pool.nodes_max) * u64::from(pool.devices_per_node);
    let mut wanted = vec![0; pools.len()];
    for (gpus, demand) in jobs {
        let gpus = u64::from(gpus);
        if demand.kind.is_none() && gpus <= fixed {
            fixed -= gpus;
            continue;
        }
        let fits = |pool: &Pool| {
            let kind = demand.kind.as_ref();
            // The other mode asks for what leases need once they are granted.
            pool.mode == Mode::Pilot
                && demand.node.is_none()
                && gpus <= whole(pool)
                && kind.is_none_or(|kind| pool.kind.is_empty() || pool.kind == *kind)
                && !(demand.one_node && gpus > u64::from(pool.devices_per_node))
        };
        let fitting = || (0..pools.len()).filter(|index| fits(&pools[*index]));
        let has_room = |index: &usize| wanted[*index] + gpus <= whole(&pools[*index]);
        if let Some(index) = fitting().find(has_room).or_else(|| fitting().next()) {
            wanted[index] += gpus;
        }
    }
    wanted
}

/// Counts a machine as lost.
pub(super) async fn lose(shared: &Shared, node: String, why: String) {
    let ask = move |owner: &mut Owner| {
        if owner.state.book.nodes.get(&node).is_some_and(|node| !node.lost) {
            tracing::warn!(node, why, "a machine is lost");
            owner.append(&Record::Lost { node, why })?;
        }
        Ok(())
    };
    let _ = shared.handle.ask(ask).await;
}

/// Forgets a machine; whether that is durable.
pub(super) async fn leave(shared: &Shared, node: String) -> bool {
    let ask = move |owner: &mut Owner| {
        if owner.state.book.nodes.contains_key(&node) {
            let why = "Slurm has nothing of it any more".into();
            owner.append(&Record::Left { node: node.clone(), why })?;
            owner.forget_node(&node);
        }
        Ok(())
    };
    shared.handle.ask(ask).await.is_ok()
}

/// The last line of a file, for a sentence; empty when there is none.
pub(super) fn last_line(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("; it said: {}", line.chars().take(300).collect::<String>()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, kind: &str, nodes_max: u32) -> Pool {
        let (name, kind) = (name.into(), kind.into());
        Pool { name, kind, nodes_max, devices_per_node: 4, ..Pool::default() }
    }

    fn check(jobs: &[(u32, Demand)], fixed: u64, expected: [u64; 2]) {
        let pools = [pool("small", "", 1), pool("large", "h100", 2)];
        let jobs = jobs.iter().map(|(gpus, demand)| (*gpus, demand));
        assert_eq!(share_out(jobs, &pools, fixed), expected);
    }

    #[test]
    fn work_goes_to_the_first_pool_that_can_have_it() {
        let any = Demand::default;
        let h100 = || Demand { kind: Some("h100".into()), ..any() };
        let other = || Demand { kind: Some("v100".into()), ..any() };
        check(&[], 0, [0, 0]);
        check(&[(2, any()), (2, any()), (1, any())], 0, [4, 1]);
        check(&[(2, any()), (2, any())], 3, [2, 0]);
        check(&[(8, h100()), (1, other())], 8, [1, 8]);
        check(&[(9, any())], 0, [0, 0]);
        check(&[(5, Demand { one_node: true, ..any() })], 0, [0, 0]);
        check(&[(1, Demand { node: Some(NodeId("n".into())), ..any() })], 0, [0, 0]);
    }

    /// A gang that does not fit beside what runs takes its turn: the nodes for it stay.
    #[test]
    fn a_full_pool_is_wanted_by_those_that_wait() {
        let one = [pool("small", "", 1)];
        let any = Demand::default();
        assert_eq!(share_out([(1, &any), (4, &any)].into_iter(), &one, 0), [5]);
    }
}
