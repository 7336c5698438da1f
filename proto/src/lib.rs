//! What the coordinator, its agents, the command line and the training SDK say to each other.
//!
//! The messages are in `proto/shockwave.proto`; every field has its unit there. This crate also
//! holds the two contracts that no message carries: the environment of a training process
//! ([`mod@env`]) and its exit codes ([`exit`]).
//!
//! Architecture invariant: no logic and no I/O here. The SDK and the coordinator meet only in this
//! crate.

pub mod env;
pub mod exit;

/// The messages and services, generated from `proto/shockwave.proto`.
#[allow(missing_docs, clippy::all, clippy::unwrap_used, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("shockwave.v1");
}

/// Version of the protocol. Peers whose versions differ by at most one work together; others are
/// refused with one sentence.
pub const PROTOCOL_VERSION: u32 = 1;

/// Most events in one `Report` call.
pub const REPORT_EVENTS_MAX: usize = 256;

/// Largest message either way, bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Metadata entry that carries `Bearer TOKEN`.
pub const AUTHORIZATION: &str = "authorization";
