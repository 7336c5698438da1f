//! Opening a store: lock, integrity, migrations, incarnation.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use shockwave_core::engine::NOW_MOST_S;

use super::{LogReader, StoreError, Writer, mark, schema};
use crate::files::{FileLock, MODE_PRIVATE, at, make_folder};

/// What is known of an open store.
#[derive(Clone)]
pub struct StoreInfo {
    /// The database file.
    pub path: PathBuf,
    /// Incarnation of this coordinator: starts on this store, from 1.
    pub epoch: u64,
    /// When the store was made, seconds since 1970.
    pub made_unix_s: f64,
    /// From which job tokens and nonces are made; never shown.
    pub secret: String,
    /// Number of the last record (0: none).
    pub last_number: u64,
    /// Coordinator's clock at the last record, seconds.
    pub last_now_s: f64,
}

/// A store that belongs to this coordinator alone.
pub struct Store {
    /// What is known of it.
    pub info: StoreInfo,
    _lock: FileLock,
}

/// Name of the database file in the state folder.
const FILE: &str = "shockwave.db";

impl Store {
    /// Opens the store of a state folder, which is made when there is none, and starts its writer.
    ///
    /// # Errors
    /// Another coordinator, a damaged file, a store of a later program, a folder that cannot be used.
    pub fn open(folder: &Path) -> Result<(Self, Writer), StoreError> {
        make_folder(folder)?;
        let Some(lock) = FileLock::try_take(&folder.join("lock"))? else {
            return Err(StoreError::Locked { folder: folder.to_owned() });
        };
        let path = folder.join(FILE);
        let size_bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        if size_bytes == 0 && mark::is_used(folder) {
            return Err(StoreError::Emptied { path });
        }
        let wanted = mark::read(folder);
        let whole = |found| match found {
            found if found < wanted => {
                Err(StoreError::Shortened { path: path.clone(), found, wanted })
            }
            _ => Ok(()),
        };
        // Looked at without the right to write first: what is still in the log's files stays there.
        if size_bytes > 0
            && let Ok(found) = LogReader::open(&path).and_then(|reader| reader.last_number())
        {
            whole(found)?;
        }
        // Private from its first moment; SQLite gives its side files the same mode.
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(MODE_PRIVATE);
        at("create", &path, options.open(&path).map(drop))?;
        let connection = open_connection(&path).map_err(|error| name_damage(&path, error))?;
        let info = prepare(&path, connection).map_err(|error| name_damage(&path, error))?;
        whole(info.last_number)?;
        let writer = Writer::start(&info)?;
        Ok((Self { info, _lock: lock }, writer))
    }

    /// A connection of its own for reading the log beside the writer.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn reader(&self) -> Result<LogReader, StoreError> {
        LogReader::open(&self.info.path)
    }
}

/// A connection with the durability that the coordinator promises.
pub(super) fn open_connection(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

fn prepare(path: &Path, mut connection: Connection) -> Result<StoreInfo, StoreError> {
    // Cheap structural check of every page's links; a full integrity_check takes minutes on a long log.
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(StoreError::Damaged { path: path.to_owned(), what: verdict });
    }
    schema::migrate(&mut connection)?;
    let unix_s = unix_now_s();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "INSERT OR IGNORE INTO store (id, made_unix_s, secret) VALUES (1, ?1, ?2)",
        params![unix_s, crate::secrets::random_hex(32)],
    )?;
    transaction.execute(
        "INSERT INTO incarnation (id, epoch, holder, unix_s) VALUES (1, 1, ?1, ?2)
         ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1, holder = ?1, unix_s = ?2",
        params![crate::secrets::random_hex(8), unix_s],
    )?;
    let epoch: i64 =
        transaction.query_row("SELECT epoch FROM incarnation", [], |row| row.get(0))?;
    let (made_unix_s, secret) =
        transaction.query_row("SELECT made_unix_s, secret FROM store", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let last: Option<(i64, f64)> = transaction
        .query_row("SELECT number, now_s FROM log ORDER BY number DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let (last_number, last_now_s) = last.unwrap_or((0, 0.0));
    for (what, seconds) in [("it was made at", made_unix_s), ("its last record is of", last_now_s)]
    {
        if !(0.0..=NOW_MOST_S).contains(&seconds) {
            let what = format!("{what} {seconds} s, which is no time");
            return Err(StoreError::Damaged { path: path.to_owned(), what });
        }
    }
    transaction.commit()?;
    Ok(StoreInfo {
        path: path.to_owned(),
        epoch: epoch.unsigned_abs(),
        made_unix_s,
        secret,
        last_number: last_number.unsigned_abs(),
        last_now_s,
    })
}

/// Names a damaged file as such: it is never replaced by an empty one.
pub(super) fn name_damage(path: &Path, error: StoreError) -> StoreError {
    let StoreError::Sqlite(rusqlite::Error::SqliteFailure(code, ref what)) = error else {
        return error;
    };
    if !matches!(code.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) {
        return error;
    }
    let what = what.clone().unwrap_or_else(|| code.to_string());
    StoreError::Damaged { path: path.to_owned(), what }
}

/// The time of day, seconds since 1970.
#[must_use]
pub fn unix_now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}
