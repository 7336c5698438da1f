//! Data parallel training over libtorch's own c10d: several processes, one model.
//!
//! Each process (a *worker*, numbered by its *rank*) works on its share of every batch; the flat gradient buffers are
//! summed by one all-reduce, so that all workers take the same step. Where they meet comes from the environment, under
//! the names of PyTorch's launcher, which the coordinator's agents use too: see [`Rendezvous::from_env`].
//!
//! On a CPU gloo carries the sums, on GPUs NCCL where it is built in; [`Backend`] says which, and `SHOCKWAVE_BACKEND`.
//!
//! A worker that dies, or is not heard of within the timeout, makes the call in progress fail on all others
//! ([`Error::Workers`](crate::Error::Workers)); nothing hangs.

mod backend;
mod group;
mod rendezvous;
mod share;

pub use backend::Backend;
pub use group::Group;
pub use rendezvous::Rendezvous;
pub use share::share;
