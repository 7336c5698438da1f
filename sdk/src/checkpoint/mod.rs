//! Checkpoints: whole or absent, verified when read, never the cause of a lost run.
//!
//! A checkpoint is a folder. It is written under a temporary name, every file is synced, the folder is renamed and its
//! parent synced: after a crash at any moment there is either the whole checkpoint or none of it. `SHA256SUMS` (readable
//! by `sha256sum -c`) covers every file; a damaged checkpoint is put aside and the one before is used.
//!
//! ```text
//! ckpt-g000001-n00000012/    g: generation (the lease's epoch), n: number of the checkpoint
//!   model.safetensors        all named variables under their own names, readable by any safetensors library
//!   training.safetensors     optimiser moments and other buffers
//!   state.json               everything else
//!   SHA256SUMS
//! ```
//!
//! The newest checkpoint is the one with the highest generation, then number: a process that lost its lease and writes
//! late cannot replace the work of the one that has it.

mod fingerprint;
mod folder;
mod name;
mod read;
mod snapshot;
mod write;
mod writer;

pub use fingerprint::Fingerprint;
pub use folder::{Best, Checkpoints, Saved};
pub use name::Name;
pub use read::Loaded;
pub use snapshot::{HostTensor, Snapshot};
pub use write::write_safetensors;
pub(crate) use writer::Writer;

/// File with all named variables of the model.
pub const MODEL_FILE: &str = "model.safetensors";
/// File with the optimiser's moments and the monitor's buffers.
pub const TRAINING_FILE: &str = "training.safetensors";
/// File with everything that is not a tensor.
pub const STATE_FILE: &str = "state.json";
/// File with the other files' SHA-256 sums.
pub const SUMS_FILE: &str = "SHA256SUMS";
