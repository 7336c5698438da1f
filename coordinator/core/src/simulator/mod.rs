//! The simulator: traces played against policies in virtual time.
//!
//! A [`Workload`] (a [`trace`] joined with [`profiles`]) is played by [`published`], which keeps the
//! published simulator's semantics to the last quirk, or through the service's own engine. Both
//! give an [`Outcome`], from which [`report`] computes the paper's metrics.
//!
//! Architecture invariant: a policy and a predictor see declared facts and observations only. What
//! a job is going to do stays in [`workload`].

pub mod faults;
pub mod generate;
mod noise;
mod observer;
pub mod oracle;
pub mod product;
pub mod profiles;
pub mod published;
pub mod published_trace;
pub mod report;
pub mod sample;
mod table;
pub mod trace;
pub mod workload;

pub use faults::Faults;
pub use noise::Noisy;
pub use observer::Observer;
pub use oracle::Exact;
pub use report::{JobOutcome, Metrics, Outcome, RoundRecord};
pub use table::InputError;
pub use workload::{Workload, WorkloadJob};
