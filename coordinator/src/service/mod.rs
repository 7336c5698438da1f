//! The coordinator's state and its one owner.
//!
//! [`record`] is what the log holds; [`apply`] adds records up into the engine and the [`book`];
//! [`owner`] takes new ones, live; [`recover`] replays the old ones; `planner` decides beside.

mod accounts;
pub mod actions;
pub mod apply;
mod bell;
pub mod book;
pub mod carriers;
pub mod check;
pub mod clock;
pub mod curve;
mod governed;
pub mod joining;
pub mod notices;
pub mod owner;
mod planner;
pub mod record;
pub mod recover;
mod regimes;
mod reported;
pub mod settings;
pub mod translate;
pub mod view;
mod vigil;
pub mod wanted;
pub mod whatif;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use owner::Handle;

/// How long an agent may be silent before its machine counts as lost.
pub const LOST_AFTER: Duration = Duration::from_secs(30);

/// What every call needs.
pub struct Shared {
    /// The owner of the state.
    pub handle: Handle,
    /// From which job tokens are made.
    pub secret: String,
    /// Digest of the token that the coordinator's own user has (in a file that only that user can
    /// read).
    pub local_token_digest: String,
    /// Name of that user.
    pub local_user: String,
    /// The database, for reading the log beside the writer.
    pub database: PathBuf,
    /// Where each job has its folder.
    pub jobs_dir: PathBuf,
    /// The mark by which agents are known to have the same folder.
    pub jobs_mark: String,
    /// Address that workers are given.
    pub address: String,
    /// Whether agents must show a certificate.
    pub agents_show_certificates: bool,
    /// Tokens that are good, as of the last durable change.
    pub accounts: tokio::sync::watch::Receiver<Arc<Vec<book::Token>>>,
    /// Pilots that a batch system carries for this coordinator.
    pub pilots: tokio::sync::watch::Receiver<Arc<Vec<crate::launcher::Pass>>>,
}
