//! Nodes, devices, placements and leases: what agents and workers are told about.

use serde::{Deserialize, Serialize};

use super::{JobId, NodeId};

/// One accelerator (or CPU slot) of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Number of the device on its node (the CUDA index, or the CPU slot).
    pub slot: u32,
    /// Model, free text ("H100", "cpu"): jobs may ask for one.
    pub kind: String,
    /// Device memory, bytes; 0 when not known.
    pub memory_bytes: u64,
}

/// A machine that offers devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its name.
    pub node: NodeId,
    /// Its devices, slots distinct.
    pub devices: Vec<DeviceInfo>,
    /// When the node goes away by itself (a pilot's walltime), seconds on the driver's clock.
    pub until_s: Option<f64>,
}

/// The part of a gang on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: NodeId,
    /// Device slots on it, ascending.
    pub slots: Vec<u32>,
}

/// Where a gang runs. The first part is the chief's (rank 0).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement {
    /// One entry per node, nodes distinct.
    pub parts: Vec<NodeShare>,
}

impl Placement {
    /// Devices in it.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.parts.iter().map(|part| part.slots.len() as u32).sum()
    }

    /// Whether it uses a node.
    #[must_use]
    pub fn uses(&self, node: &NodeId) -> bool {
        self.parts.iter().any(|part| part.node == *node)
    }
}

/// The right of one job to use its devices, until it is renewed, given back or runs out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseGrant {
    /// The job.
    pub job: JobId,
    /// Fencing token: grows with every lease of the job. What comes with an older one is refused.
    pub epoch: u64,
    /// The devices.
    pub placement: Placement,
    /// How long it holds without a renewal, seconds on the receiver's monotonic clock.
    pub ttl_s: f64,
}

/// A checkpoint that the coordinator has acknowledged: where the job resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Lease that it was saved under.
    pub lease_epoch: u64,
    /// Optimiser steps that it contains.
    pub step: u64,
    /// Training epochs (whole and part) that it contains.
    pub epochs_done: f64,
    /// Where it lies.
    pub uri: String,
    /// Digest of its manifest, lower-case hex.
    pub sha256: String,
}
