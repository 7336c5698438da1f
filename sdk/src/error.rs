//! The one error type of the SDK: every variant names the input, what was wrong and what would be right.

use std::path::{Path, PathBuf};

/// Everything that can go wrong in the SDK.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A libtorch call failed.
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),

    /// An argument or setting is outside what is allowed.
    #[error("{what} is {got}; expected {expected}")]
    Invalid {
        /// The argument or setting.
        what: String,
        /// The value that was given.
        got: String,
        /// What would be right.
        expected: String,
    },

    /// A call came at a moment at which it makes no sense.
    #[error("{call} was called {when}; {instead}")]
    OutOfOrder {
        /// The method.
        call: &'static str,
        /// The state in which it was called.
        when: String,
        /// What to do instead.
        instead: &'static str,
    },

    /// A variable is not, or no longer, a view of the flat buffers.
    #[error("variable '{name}' left the flat buffers: {what}")]
    LeftArena {
        /// The variable's name in the `VarStore`.
        name: String,
        /// What happened, and the usual cause.
        what: String,
    },

    /// The model cannot be laid into one flat buffer.
    #[error("variable '{name}' cannot be trained by a session: {what}")]
    Unsupported {
        /// The variable's name in the `VarStore`.
        name: String,
        /// Why.
        what: String,
    },

    /// A data set could not give the samples that were asked for.
    #[error("data: {0}")]
    Data(String),

    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The verb: "write", "read", "sync", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },

    /// A checkpoint is damaged or not a checkpoint.
    #[error("checkpoint {} is not usable: {reason}", path.display())]
    Corrupt {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// Checkpoints exist, but none of them can be read. Training does not silently start anew.
    #[error(
        "none of the {count} checkpoints in {} can be read; the newest: {newest}. \
         Move them away to start from the beginning",
        folder.display()
    )]
    NoUsableCheckpoint {
        /// The folder that holds the checkpoints.
        folder: PathBuf,
        /// How many were tried.
        count: usize,
        /// What is wrong with the newest one.
        newest: String,
    },

    /// A checkpoint is sound, but belongs to another training run.
    #[error(
        "the checkpoint was written by another run: {what} was {checkpoint}, now it is {now}; \
         restore the old setting or use another checkpoint folder"
    )]
    Mismatch {
        /// What differs.
        what: String,
        /// The value in the checkpoint.
        checkpoint: String,
        /// The value of this run.
        now: String,
    },

    /// A call among the workers of a data parallel run failed: one of them has died, or did not come in time.
    #[error(
        "{what} failed on rank {rank} of {size} workers: {reason}. A worker has ended or cannot be reached; \
         training can be resumed from the last checkpoint"
    )]
    Workers {
        /// The call.
        what: &'static str,
        /// This worker.
        rank: usize,
        /// How many there are.
        size: usize,
        /// libtorch's reason.
        reason: String,
    },

    /// The connection to the coordinator failed in a way that training must know of.
    #[error("coordinator: {0}")]
    Coordinator(String),
}

impl Error {
    /// Shorthand for [`Error::Invalid`].
    pub(crate) fn invalid(
        what: impl Into<String>,
        got: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Invalid { what: what.into(), got: got.to_string(), expected: expected.into() }
    }

    /// Wraps an I/O error with what was being done to which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
