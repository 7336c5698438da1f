//! Shockwave's scheduling core: what a team's GPUs run next, and why.
//!
//! The directories read as a pipeline: [`types`] (what is known) -> [`predictor`] (how each job's
//! batch size and run time go on) -> [`market`] (utilities, fairness, prices) -> [`solver`] (who
//! runs in which round) -> [`policies`] (the market and every policy it is compared with)
//! -> [`engine`] (leases, rounds, faults: events in, actions out).
//!
//! Architecture invariant: this crate does no I/O, reads no clock and no environment, starts no
//! thread and knows neither tokio nor libtorch; `now_s` is always an argument. The simulator and
//! the service drive the same code.

pub mod engine;
pub mod market;
pub mod placement;
pub mod policies;
pub mod predictor;
pub mod simulator;
pub mod solver;
pub mod types;
