//! Training SDK on libtorch: adaptive batch size, exact checkpoints, yield and resume.
//!
//! A [`Session`] wraps a plain tch loop. It owns the order of the data, the batch size, the optimiser and the
//! checkpoints; the forward pass stays yours. The same program runs alone, or under a coordinator that shares the
//! machine's devices among many such programs.
//!
//! ```no_run
//! use shockwave_sdk::{Dataset, Error, Session, optim::Sgd, policy::Accordion};
//! use tch::{Device, nn, nn::Module};
//!
//! fn train(data: impl Dataset + 'static) -> Result<(), Error> {
//!     let vs = nn::VarStore::new(Device::cuda_if_available());
//!     let net = nn::linear(vs.root(), 784, 10, Default::default());
//!     let mut session = Session::builder(&vs, Sgd::new(0.1).momentum(0.9), Accordion::new(32, 256))
//!         .epochs(30)
//!         .checkpoints("runs/first")
//!         .metrics("runs/first/metrics")
//!         .build(data)?;
//!     while let Some(_epoch) = session.next_epoch()? {
//!         while let Some(batch) = session.next_batch()? {
//!             session.step(&batch, |b| net.forward(&b.x).cross_entropy_for_logits(&b.y))?;
//!         }
//!         session.end_epoch([] as [(&str, f64); 0])?;
//!     }
//!     std::process::exit(session.finish()?.exit_code());
//! }
//! ```
//!
//! The guide, `docs/guide.md`, goes from a plain tch loop to all of this: data sets and policies of your own, learning
//! rates, precision, checkpoints, several processes, metrics, environment.
//!
//! | module | what it is |
//! |---|---|
//! | [`session`] | the loop: epochs, batches, steps, stops, and all settings |
//! | [`policy`] | who sets the batch size |
//! | [`monitor`] | gradient norms, the noise scale, the Hessian's eigenvalue |
//! | [`optim`], [`lr`], [`gradient`] | optimisers on flat buffers, learning rates, clipping and loss scale |
//! | [`data`] | data sets and their order |
//! | [`checkpoint`], [`metrics`] | what a run leaves on the disk |
//! | [`distributed`] | several processes, one model |
//! | [`arena`], [`client`] | the flat buffers; the conversation with a coordinator |
//! | [`mod@attach`] | programs that are started by hand and share devices |

pub mod arena;
pub mod attach;
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
mod syncs;

pub use attach::attach;
pub use data::{Batch, Dataset};
pub use error::Error;
pub use precision::{Precision, with_precision};
pub use progress::Output;
pub use session::{Outcome, Session};
pub use shim::{generator_state, set_deterministic, set_generator_state};
pub use signals::StopHandle;
pub use syncs::SyncCount;

/// The version of libtorch that this program was built with.
pub const LIBTORCH_VERSION: &str = env!("SHOCKWAVE_LIBTORCH_VERSION");

/// The code of the guide, for the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide.md")]
struct Guide;
