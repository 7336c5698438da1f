//! `Client.Cluster`: the machines and what runs on them.

use std::collections::BTreeMap;

use shockwave_proto::v1::{ClusterReply, DeviceInfo, NodeInfo};
use tonic::Status;

use crate::service::Shared;
use crate::service::book::Node;
use crate::service::owner::Owner;

/// Agents speak every ten seconds; one that is later than this is worth a look.
const SILENT_AFTER_S: f64 = 13.0;

pub(crate) async fn cluster(shared: &Shared) -> Result<ClusterReply, Status> {
    let ask = |owner: &mut Owner| {
        let holders = Holders::of(owner);
        let nodes = owner.state.book.nodes.iter();
        let nodes = nodes.map(|(name, node)| info(owner, &holders, name, node));
        Ok(ClusterReply {
            nodes: nodes.collect(),
            coordinator_epoch: owner.store.epoch,
            version: env!("CARGO_PKG_VERSION").into(),
            active_jobs: owner.state.book.active().count() as u32,
            pools: owner.pools.clone(),
        })
    };
    shared.handle.ask(ask).await
}

/// Which job holds each device, found once for many machines.
pub(crate) struct Holders<'a>(BTreeMap<(&'a str, u32), u64>);

impl<'a> Holders<'a> {
    pub(crate) fn of(owner: &'a Owner) -> Self {
        let mut jobs = BTreeMap::new();
        // A machine holds what its agent has not given back yet, however old the lease is.
        for lease in owner.state.book.leases.values() {
            for holder in lease.holders() {
                let mut parts = lease.placement.parts.iter();
                let Some(part) = parts.find(|part| part.node.0 == holder) else { continue };
                for slot in &part.slots {
                    jobs.entry((part.node.0.as_str(), *slot)).or_insert(lease.job);
                }
            }
        }
        Self(jobs)
    }
}

/// A machine as users see it.
pub(crate) fn info(owner: &Owner, holders: &Holders<'_>, name: &str, node: &Node) -> NodeInfo {
    let holder = |index: u32| holders.0.get(&(name, index)).copied().unwrap_or(0);
    let devices = node.devices.iter();
    let devices = devices
        .map(|it| DeviceInfo { device: Some(it.clone()), job_id: holder(it.index) })
        .collect();
    let heard_s = owner.heard.get(name).map(|heard_s| owner.now_s() - heard_s);
    let late = heard_s.is_some_and(|heard_s| heard_s > SILENT_AFTER_S);
    let state = match (node.lost, node.drained) {
        _ if owner.left.contains(name) => "stopped",
        (true, _) => "lost",
        (false, true) => "draining",
        (false, false) if late => "silent",
        (false, false) => "up",
    };
    NodeInfo {
        name: name.to_owned(),
        devices,
        state: state.into(),
        heard_ago_s: heard_s.unwrap_or(0.0),
    }
}
