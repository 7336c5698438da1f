//! The places of pools that ask Slurm anew for every lease, and the parts of leases on them.

use std::collections::{BTreeMap, BTreeSet};

use shockwave_core::types::NodeId;
use shockwave_proto::v1::Device;

use super::lease::{Agent, Part};
use super::settings::{Mode, Pool};
use crate::launcher::Carries;
use crate::service::LOST_AFTER;
use crate::service::carriers::{Carrier, PLACE};
use crate::service::owner::Owner;
use crate::service::record::Record;

/// Why a place is drained that the settings do not have any more.
const UNWANTED: &str = "it is not in the settings any more";

/// A pool's places begin with it.
fn prefix(pool: &Pool) -> String {
    format!("slurm-{}-", pool.name)
}

/// Whether a place is one of a pool's.
pub(super) fn is_of_pool(place: &str, pool: &Pool) -> bool {
    let number = place.strip_prefix(&prefix(pool));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The places that pools are to have, with their devices.
pub(super) fn wanted(pools: &[Pool]) -> BTreeMap<String, Vec<Device>> {
    let of_pool = |pool: &Pool| {
        let kind = if pool.devices.starts_with("cpu") { "cpu" } else { "gpu" };
        let device = |index| Device {
            index,
            kind: kind.into(),
            model: pool.kind.clone(),
            ..Device::default()
        };
        let devices: Vec<Device> = (0..pool.devices_per_node).map(device).collect();
        let prefix = prefix(pool);
        (1..=pool.nodes_max).map(move |number| (format!("{prefix}{number}"), devices.clone()))
    };
    pools.iter().filter(|pool| pool.mode == Mode::Job).flat_map(of_pool).collect()
}

/// Brings the places to what they are to be.
pub(super) fn enter(owner: &mut Owner, wanted: &BTreeMap<String, Vec<Device>>) {
    let known: BTreeMap<String, (bool, Vec<Device>)> = owner
        .state
        .book
        .nodes
        .iter()
        .filter(|(_, node)| node.instance == PLACE)
        .map(|(name, node)| (name.clone(), (node.lost, node.devices.clone())))
        .collect();
    let names: BTreeSet<&String> = wanted.keys().chain(known.keys()).collect();
    for name in names {
        let keeps = held(owner, name);
        let devices = match (wanted.get(name), known.get(name)) {
            (Some(devices), None) => devices,
            (Some(devices), Some((_, had))) if devices != had && keeps.is_empty() => devices,
            (_, Some((true, had))) => had,
            _ => continue,
        };
        // Refused while the disk is full: it is tried again with the next look.
        let _ = owner.append(&Record::Joined {
            node: name.clone(),
            instance: PLACE.into(),
            address: String::new(),
            devices: devices.clone(),
            keeps,
            until_s: None,
            machine: String::new(),
        });
    }
    retire(owner, wanted);
}

fn held(owner: &Owner, place: &str) -> Vec<(u64, u64)> {
    let leases = owner.state.book.leases.values();
    let held = leases.filter(|lease| lease.holders().any(|holder| holder == place));
    held.map(|lease| (lease.job, lease.epoch)).collect()
}

/// Places that are not wanted any more get no more leases, and go once they are empty.
fn retire(owner: &mut Owner, wanted: &BTreeMap<String, Vec<Device>>) {
    let nodes = owner.state.engine.nodes();
    let drained: BTreeMap<NodeId, String> =
        nodes.into_iter().filter_map(|node| Some((node.info.node, node.drained?))).collect();
    let places = owner.state.book.nodes.iter().filter(|(_, node)| node.instance == PLACE);
    let places: Vec<String> = places.map(|(name, _)| name.clone()).collect();
    for node in places {
        let why = drained.get(&NodeId(node.clone()));
        let record = match (wanted.contains_key(&node), why) {
            (true, Some(why)) if why == UNWANTED => {
                Record::Drained { node, drained: false, why: String::new() }
            }
            (true, _) => continue,
            (false, _) if held(owner, &node).is_empty() => {
                let left = Record::Left { node: node.clone(), why: UNWANTED.into() };
                if owner.append(&left).is_ok() {
                    owner.forget_node(&node);
                }
                continue;
            }
            (false, None) => Record::Drained { node, drained: true, why: UNWANTED.into() },
            (false, Some(_)) => continue,
        };
        let _ = owner.append(&record);
    }
}

/// Every part of a lease on a place.
pub(super) fn parts(owner: &Owner) -> Vec<Part> {
    let settings = &owner.state.configuration.engine;
    let (ttl_s, now_s) = (settings.ttl_s, owner.now_s());
    let mut parts = Vec::new();
    for lease in owner.state.book.leases.values() {
        let Some(job) = owner.state.book.jobs.get(&lease.job) else { continue };
        let status = owner.state.engine.lease(shockwave_core::types::JobId(lease.job));
        let status = status.filter(|status| status.lease_epoch == lease.epoch);
        let over_s = status.map_or(f64::NEG_INFINITY, |it| it.expires_s + job.grace_s(settings));
        let is_due = status.is_some_and(|it| it.live && it.expires_s - now_s < ttl_s * 0.67);
        for part in &lease.placement.parts {
            let place = &part.node.0;
            if lease.released.contains(place) || !owner.is_place(place) {
                continue;
            }
            let is_killed = lease.kill.contains(place);
            parts.push(Part {
                carries: Carries {
                    job: lease.job,
                    lease_epoch: lease.epoch,
                    place: place.clone(),
                    devices: part.slots.len() as u32,
                },
                user: job.user.clone(),
                is_stopped: is_killed || lease.stop.is_some() || lease.revoked,
                is_killed,
                has_run: lease.running.contains(place),
                is_over: over_s < now_s,
                is_due,
            });
        }
    }
    parts
}

/// The agents that carry leases, by the names of their Slurm jobs.
pub(super) fn agents(owner: &Owner) -> BTreeMap<String, Agent> {
    let now_s = owner.now_s();
    let agent = |(node, carrier): (&String, &Carrier)| {
        let (_, pilot) = node.rsplit_once('.')?;
        let is_heard = now_s - carrier.heard_s < LOST_AFTER.as_secs_f64();
        let is_due = carrier.until_s.is_some_and(|until_s| until_s < now_s);
        Some((pilot.to_owned(), Agent { is_heard, is_due }))
    };
    owner.carriers.iter().filter_map(agent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_as_many_places_as_it_may_have_nodes() {
        let pool = Pool {
            name: "gpu".into(),
            mode: Mode::Job,
            kind: "a100".into(),
            devices_per_node: 2,
            nodes_max: 2,
            ..Pool::default()
        };
        let other = Pool { name: "gpu2".into(), mode: Mode::Pilot, ..pool.clone() };
        let places = wanted(&[pool.clone(), other]);
        assert_eq!(places.keys().collect::<Vec<_>>(), ["slurm-gpu-1", "slurm-gpu-2"]);
        assert_eq!(places["slurm-gpu-1"][1].model, "a100");
        assert!(is_of_pool("slurm-gpu-17", &pool) && !is_of_pool("slurm-gpu-a-1", &pool));
    }
}
