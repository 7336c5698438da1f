//! What is known about jobs and the cluster, and what a plan says.
//!
//! Quantities carry their unit as the last part of their name: `_s` seconds, `_bytes` bytes.

mod ids;
mod job;
mod plan;
mod view;

pub use ids::{JobId, NodeId};
pub use job::{Adaptation, JobProgress, JobSpec, RegimeRecord, SpecError};
pub use plan::{Decision, RoundPlan};
pub use view::{ClusterView, JobView};
