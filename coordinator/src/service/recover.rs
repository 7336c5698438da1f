//! From the log to the state: the newest snapshot, then every record after it.

use serde::{Deserialize, Serialize};
use shockwave_core::engine;

use super::apply::{Stamp, State};
use super::book::Book;
use super::record::{Record, RecordError};
use super::settings::{Configuration, ConfigurationError};
use crate::store::{LogReader, Snapshot, StoreError, StoreInfo};

/// Records read at a time.
const PAGE: usize = 4096;

/// Programs of the same version read each other's snapshots; others replay the log.
pub const SNAPSHOT_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/2");

/// Most bytes of a snapshot; a larger one is not read, and the log is replayed.
const SNAPSHOT_BYTES_MAX: usize = 2 << 30;

/// Why a log does not become a state.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The log has a hole.
    #[error("record {expected} of the log is missing ({found} follows): restore a snapshot file")]
    Hole {
        /// The number that should come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// The configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

/// What a snapshot holds.
#[derive(Serialize, Deserialize)]
struct Saved {
    configuration: Configuration,
    book: Book,
    engine: engine::Snapshot,
}

impl State {
    /// The state of a store without records.
    ///
    /// # Errors
    /// When the configuration cannot be.
    pub fn empty(configuration: &Configuration, secret: &str) -> Result<Self, ConfigurationError> {
        Ok(Self {
            engine: configuration.engine()?,
            book: Book::default(),
            configuration: configuration.clone(),
            secret: secret.to_owned(),
        })
    }

    /// As a snapshot of the log so far.
    ///
    /// # Errors
    /// In one sentence.
    pub fn save(&self) -> Result<Snapshot, String> {
        let saved = Saved {
            configuration: self.configuration.clone(),
            book: self.book.clone(),
            engine: self.engine.snapshot(),
        };
        let body = bincode::serde::encode_to_vec(&saved, bincode::config::standard())
            .map_err(|error| error.to_string())?;
        Ok(Snapshot { number: self.book.number, now_s: self.book.now_s, body })
    }

    /// From a snapshot.
    ///
    /// # Errors
    /// In one sentence.
    pub fn load(snapshot: &Snapshot, secret: &str) -> Result<Self, String> {
        // A length that cannot be is an error here; without a limit it is a panic.
        let config = bincode::config::standard().with_limit::<SNAPSHOT_BYTES_MAX>();
        let (saved, _): (Saved, usize) =
            bincode::serde::decode_from_slice(&snapshot.body, config).map_err(|e| e.to_string())?;
        Ok(Self {
            engine: saved.configuration.restore(saved.engine)?,
            book: saved.book,
            configuration: saved.configuration,
            secret: secret.to_owned(),
        })
    }
}

/// The state that a store's log adds up to. `configuration` serves a store without records only:
/// the log holds its own.
///
/// # Errors
/// A log that cannot be read to its end is an error, never a shorter log.
pub fn recover(
    info: &StoreInfo,
    reader: &LogReader,
    configuration: &Configuration,
    secret: &str,
) -> Result<State, RecoverError> {
    let mut state = start(reader, configuration, secret)?;
    let mut next = state.book.number + 1;
    loop {
        let page = reader.read(next, 0, PAGE)?;
        for stored in &page {
            if stored.number != next {
                return Err(RecoverError::Hole { expected: next, found: stored.number });
            }
            let record = Record::decode(stored.number, &stored.body)?;
            let stamp = Stamp { number: next, now_s: stored.now_s, unix_s: stored.unix_s };
            state.apply(stamp, &record);
            next += 1;
        }
        if page.len() < PAGE {
            break;
        }
    }
    if next != info.last_number + 1 {
        return Err(RecoverError::Hole { expected: next, found: info.last_number });
    }
    Ok(state)
}

fn start(
    reader: &LogReader,
    configuration: &Configuration,
    secret: &str,
) -> Result<State, RecoverError> {
    if let Some(snapshot) = reader.snapshot(SNAPSHOT_VERSION)? {
        match State::load(&snapshot, secret) {
            Ok(state) => return Ok(state),
            Err(error) => tracing::warn!(error, "a snapshot cannot be used; the log is replayed"),
        }
    }
    // The first record of a log says what it was configured to.
    let first = reader.read(1, 0, 1)?;
    let configured = match first.first() {
        Some(stored) => match Record::decode(stored.number, &stored.body)? {
            Record::Started { configuration, .. } => Some(*configuration),
            _ => None,
        },
        None => None,
    };
    Ok(State::empty(&configured.unwrap_or_else(|| configuration.clone()), secret)?)
}
