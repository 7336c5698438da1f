//! Shockwave's coordinator: the shell around `shockwave-core`.
//!
//! Architecture invariant: decisions are made in the core; this crate carries them out (gRPC,
//! store, agent, command line, figures).

pub mod cli;
pub mod figures;
pub mod reproduce;
pub mod simulation;
