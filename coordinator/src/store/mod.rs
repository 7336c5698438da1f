//! The durable event log: one SQLite file, the only state that the coordinator has.
//!
//! An append returns once its records are on the disk (WAL, `synchronous=FULL`); appends that come
//! together share one transaction. Two coordinators on one store: the folder is locked, and every
//! transaction checks that the incarnation row still names its writer.
//!
//! Architecture invariant: this module knows records as numbered text. What they mean is
//! [`service`](crate::service)'s business. Nothing is ever deleted or wiped.

mod copy;
mod failpoint;
mod log;
mod mark;
mod open;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;

use crate::files::FileError;
pub use copy::copy;
pub use failpoint::fail_point;
pub use log::{LogReader, Snapshot, StoredRecord};
pub use open::unix_now_s;
pub use open::{Store, StoreInfo};
pub use schema::current_version;
pub use writer::{Log, NewRecord, QUEUE_RECORDS, Writer, WriterState};

/// Why the store refuses.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder could not be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another coordinator works on this folder.
    #[error(
        "the state folder {} is in use by another coordinator; stop that one, or choose another \
         folder with --state", folder.display()
    )]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// Another coordinator has taken the store over.
    #[error("incarnation {own} of the coordinator was replaced by {current}: it may write no more")]
    Fenced {
        /// This one.
        own: u64,
        /// The one that took over.
        current: u64,
    },
    /// A later program has written this store.
    #[error(
        "the store is of version {found}, this program knows versions up to {known}; start the \
         newer program again (nothing was changed)"
    )]
    Newer {
        /// Version of the store.
        found: i64,
        /// Newest version that this program knows.
        known: i64,
    },
    /// The database is damaged.
    #[error(
        "{} is damaged ({what}); nothing was changed: restore a snapshot, or keep the file and \
         start with an empty folder", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        what: String,
    },
    /// The database is empty or missing, in a folder that was used.
    #[error(
        "{} is empty or missing, but this state folder was used: restore a snapshot into it, or \
         start with an empty folder", path.display()
    )]
    Emptied {
        /// The file.
        path: PathBuf,
    },
    /// The log has lost its end.
    #[error(
        "{} ends with record {found}, but {wanted} were durable: it is damaged; restore a snapshot, \
         or keep the files and start with an empty folder", path.display()
    )]
    Shortened {
        /// The file.
        path: PathBuf,
        /// Its last record.
        found: u64,
        /// The last that was durable.
        wanted: u64,
    },
    /// SQLite refused.
    #[error("the store cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// More records wait for the disk than may wait.
    #[error("the disk does not keep up")]
    Busy,
    /// The coordinator could not write its first record.
    #[error("the store takes nothing: {0}")]
    Refused(String),
    /// The writer has ended.
    #[error("the store is closed")]
    Closed,
}
