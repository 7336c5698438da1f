//! The tables, and how an older store becomes one of today.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// Steps from each version to the next; `user_version` counts those that were taken. A step that
/// has been released is never changed.
const MIGRATIONS: &[&str] = &[
    // 0 -> 1
    "CREATE TABLE log (
         number INTEGER PRIMARY KEY,      -- from 1, no gaps
         now_s REAL NOT NULL,             -- coordinator's clock: seconds since the store was made
         unix_s REAL NOT NULL,            -- seconds since 1970, for people
         epoch INTEGER NOT NULL,          -- incarnation of the coordinator that wrote it
         job_id INTEGER NOT NULL,         -- 0: concerns no single job
         body TEXT NOT NULL,              -- the record as JSON
         sum TEXT NOT NULL                -- digest of all of it: SQLite does not notice a flipped bit
     ) STRICT;
     CREATE INDEX log_by_job ON log (job_id, number) WHERE job_id != 0;
     CREATE TABLE snapshot (
         number INTEGER PRIMARY KEY,      -- last record that it holds
         now_s REAL NOT NULL,
         version TEXT NOT NULL,           -- program that wrote it: another one replays the log
         body BLOB NOT NULL,
         sha256 TEXT NOT NULL
     ) STRICT;
     CREATE TABLE incarnation (
         id INTEGER PRIMARY KEY CHECK (id = 1),
         epoch INTEGER NOT NULL,          -- starts of a coordinator on this store
         holder TEXT NOT NULL,            -- drawn at that start
         unix_s REAL NOT NULL
     ) STRICT;
     CREATE TABLE store (
         id INTEGER PRIMARY KEY CHECK (id = 1),
         made_unix_s REAL NOT NULL,
         secret TEXT NOT NULL             -- job tokens and nonces are made from it
     ) STRICT;",
];

/// Version of today's tables.
#[must_use]
pub fn current_version() -> i64 {
    MIGRATIONS.len() as i64
}

/// Brings the tables to [`current_version`], each step in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let version = user_version(connection)?;
    if version > current_version() {
        return Err(StoreError::Newer { found: version, known: current_version() });
    }
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(version.unsigned_abs() as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", step as i64 + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

/// How many steps the store has taken.
pub(super) fn user_version(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
