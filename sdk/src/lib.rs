//! Training SDK on libtorch: adaptive batch size, exact checkpoints, yield and resume.
//!
//! A [`Session`] wraps a plain tch loop. It owns the order of the data, the batch size, the optimiser and the
//! checkpoints; the forward pass stays yours. The same program runs alone, or under a coordinator that shares the
//! machine's devices among many such programs.

pub mod arena;
pub mod checkpoint;
pub mod client;
pub mod data;
pub mod distributed;
mod error;
pub mod gradient;
mod json;
pub mod lr;
pub mod metrics;
pub mod monitor;
pub mod optim;
pub mod policy;
mod precision;
mod progress;
pub mod session;
mod shim;
mod signals;
mod stopwatch;

pub use data::{Batch, Dataset};
pub use error::Error;
pub use precision::{Precision, with_precision};
pub use progress::Output;
pub use session::{Outcome, Session};
pub use shim::{generator_state, set_deterministic, set_generator_state};
pub use signals::StopHandle;
