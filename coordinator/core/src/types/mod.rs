//! What is known about jobs and the cluster, and what a plan says.
//!
//! Quantities carry their unit as the last part of their name: `_s` seconds, `_bytes` bytes.

mod cluster;
mod ids;
mod job;
mod memory;
mod plan;
mod view;

pub use cluster::{Checkpoint, DeviceInfo, LeaseGrant, NodeInfo, NodeShare, Placement};
pub use ids::{JobId, NodeId};
pub use job::{Adaptation, JobProgress, JobSpec, RegimeRecord, SpecError};
pub use memory::MemoryError;
pub use plan::{Appraisal, Decision, RoundPlan};
pub use view::{ClusterView, JobView};
