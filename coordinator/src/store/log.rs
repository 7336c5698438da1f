//! Reading the log and snapshots of what it adds up to.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::StoreError;
use super::open::name_damage;

/// A record of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRecord {
    /// Number, from 1, no gaps.
    pub number: u64,
    /// Coordinator's clock, seconds since the store was made.
    pub now_s: f64,
    /// Seconds since 1970.
    pub unix_s: f64,
    /// Incarnation of the coordinator that wrote it.
    pub epoch: u64,
    /// Job that it concerns (0: no single one).
    pub job_id: u64,
    /// The record as JSON.
    pub body: String,
}

impl StoredRecord {
    /// Digest of its content.
    #[must_use]
    pub fn sum(&self) -> String {
        let Self { number, now_s, unix_s, epoch, job_id, body } = self;
        let (now, unix) = (now_s.to_bits(), unix_s.to_bits());
        let text = format!("{number}/{now:x}/{unix:x}/{epoch}/{job_id}/{body}");
        crate::secrets::digest(&text)[..16].to_owned()
    }
}

/// What the log added up to at one record.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The last record that it holds.
    pub number: u64,
    /// Coordinator's clock there, seconds.
    pub now_s: f64,
    /// The state.
    pub body: Vec<u8>,
}

/// Reads the log beside the writer.
#[derive(Debug)]
pub struct LogReader {
    connection: Connection,
    path: PathBuf,
}

impl LogReader {
    /// Opens a store's file for reading only.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Up to `limit` records from number `from` on, of one job or (0) of all.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn read(
        &self,
        from: u64,
        job_id: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let filter = if job_id == 0 { "?2 = 0" } else { "job_id = ?2 AND job_id != 0" };
        let sql = format!(
            "SELECT number, now_s, unix_s, epoch, job_id, body, sum FROM log
             WHERE number >= ?1 AND {filter} ORDER BY number LIMIT ?3"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let range = params![from.cast_signed(), job_id.cast_signed(), limit as i64];
        let rows = statement.query_map(range, |row| {
            let record = StoredRecord {
                number: row.get::<_, i64>(0)?.unsigned_abs(),
                now_s: row.get(1)?,
                unix_s: row.get(2)?,
                epoch: row.get::<_, i64>(3)?.unsigned_abs(),
                job_id: row.get::<_, i64>(4)?.unsigned_abs(),
                body: row.get(5)?,
            };
            Ok((record, row.get::<_, String>(6)?))
        })?;
        let mut records = Vec::new();
        for row in rows {
            let (record, sum) = row.map_err(|error| name_damage(&self.path, error.into()))?;
            if sum != record.sum() {
                let what = format!("record {} is not as it was written", record.number);
                return Err(StoreError::Damaged { path: self.path.clone(), what });
            }
            records.push(record);
        }
        Ok(records)
    }

    /// The newest snapshot that this version of the program wrote and that is undamaged.
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn snapshot(&self, version: &str) -> Result<Option<Snapshot>, StoreError> {
        let mut statement = self.connection.prepare(
            "SELECT number, now_s, body, sha256 FROM snapshot WHERE version = ?1
             ORDER BY number DESC LIMIT 2",
        )?;
        let mut rows = statement.query(params![version])?;
        while let Some(row) = rows.next()? {
            let body: Vec<u8> = row.get(2)?;
            if crate::secrets::digest_bytes(&body) == row.get::<_, String>(3)? {
                let number = row.get::<_, i64>(0)?.unsigned_abs();
                return Ok(Some(Snapshot { number, now_s: row.get(1)?, body }));
            }
            tracing::error!("a snapshot is damaged; the log is replayed from an earlier point");
        }
        Ok(None)
    }

    /// Number of the last record (0: none).
    ///
    /// # Errors
    /// When SQLite cannot read.
    pub fn last_number(&self) -> Result<u64, StoreError> {
        let sql = "SELECT number FROM log ORDER BY number DESC LIMIT 1";
        let last: Option<i64> = self.connection.query_row(sql, [], |row| row.get(0)).optional()?;
        Ok(last.unwrap_or(0).unsigned_abs())
    }
}
