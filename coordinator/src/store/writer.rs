//! The one writer: a thread that puts whatever has gathered into one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};
use tokio::sync::watch;

use super::mark::Mark;
use super::open::{name_damage, open_connection};
use super::{Snapshot, StoreError, StoreInfo, StoredRecord, fail_point};

/// A record to be appended.
#[derive(Clone, Debug)]
pub struct NewRecord {
    /// Number: one more than the record before it.
    pub number: u64,
    /// Coordinator's clock, seconds.
    pub now_s: f64,
    /// Seconds since 1970.
    pub unix_s: f64,
    /// Job that it concerns (0: no single one).
    pub job_id: u64,
    /// The record as JSON.
    pub body: String,
}

/// How far the writer is.
#[derive(Clone, Debug, Default)]
pub struct WriterState {
    /// Everything up to this record is on the disk.
    pub durable: u64,
    /// Nothing can be written for now (a full disk), and why: it is being tried again.
    pub trouble: Option<String>,
    /// The writer will write no more, and why.
    pub ended: Option<Arc<StoreError>>,
}

/// Where records go. The service needs no more of a store than this.
pub trait Log: Send {
    /// Takes a record; it is durable only once the state of the log says so.
    ///
    /// # Errors
    /// When no more can be taken now, or ever.
    fn append(&self, record: NewRecord) -> Result<(), StoreError>;

    /// Takes a snapshot; `version` is the program that can read it again.
    ///
    /// # Errors
    /// As [`Log::append`].
    fn snapshot(&self, snapshot: Snapshot, version: &str) -> Result<(), StoreError>;
}

impl Log for Writer {
    fn append(&self, record: NewRecord) -> Result<(), StoreError> {
        self.send(Work::Record(record))
    }

    fn snapshot(&self, snapshot: Snapshot, version: &str) -> Result<(), StoreError> {
        self.send(Work::Snapshot(snapshot, version.into()))
    }
}

enum Work {
    Record(NewRecord),
    Snapshot(Snapshot, String),
}

/// The writer's near end.
#[derive(Debug)]
pub struct Writer {
    sender: Option<SyncSender<Work>>,
    state: watch::Receiver<WriterState>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Records that may wait for the disk; beyond that, appends are refused.
pub const QUEUE_RECORDS: usize = 8192;
/// Records in one transaction at most.
const BATCH_RECORDS: usize = 1024;
/// How long a write that failed waits before it is tried again.
const RETRY: Duration = Duration::from_millis(500);

impl Writer {
    pub(super) fn start(info: &StoreInfo) -> Result<Self, StoreError> {
        let connection = open_connection(&info.path)?;
        let mark = Mark::open(&info.path)?;
        let (sender, receiver) = sync_channel(QUEUE_RECORDS);
        let start = WriterState { durable: info.last_number, ..WriterState::default() };
        let (report, state) = watch::channel(start);
        let closing = Arc::new(AtomicBool::new(false));
        let (path, epoch, closes) = (info.path.clone(), info.epoch, Arc::clone(&closing));
        let body = move || {
            let error = serve((connection, &mark), epoch, &receiver, &report, &closes);
            let error = Arc::new(name_damage(&path, error));
            report.send_modify(|state| state.ended = Some(error));
        };
        let thread = std::thread::Builder::new().name("store".into()).spawn(body);
        let thread = crate::files::at("start a thread for", &info.path, thread)?;
        Ok(Self { sender: Some(sender), state, closing, thread: Some(thread) })
    }

    /// Hands a record to the writer. It is durable only once the state says so.
    ///
    /// # Errors
    /// When the queue is full, or the writer has ended.
    pub fn append(&self, record: NewRecord) -> Result<(), StoreError> {
        Log::append(self, record)
    }

    /// Hands a snapshot to the writer. `version` is the program that can read it again.
    ///
    /// # Errors
    /// When the queue is full, or the writer has ended.
    pub fn snapshot(&self, snapshot: Snapshot, version: &str) -> Result<(), StoreError> {
        Log::snapshot(self, snapshot, version)
    }

    fn send(&self, work: Work) -> Result<(), StoreError> {
        let sender = self.sender.as_ref().ok_or(StoreError::Closed)?;
        sender.try_send(work).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Disconnected(_) => StoreError::Closed,
        })
    }

    /// How far the writer is, now and as it goes on.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<WriterState> {
        self.state.clone()
    }
}

impl Drop for Writer {
    /// Writes what is left, unless the disk is full, and ends the thread.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes until the other end is dropped; returns why it ended.
fn serve(
    (mut connection, mark): (Connection, &Mark),
    epoch: u64,
    work: &Receiver<Work>,
    report: &watch::Sender<WriterState>,
    closing: &AtomicBool,
) -> StoreError {
    loop {
        let first = match work.recv() {
            Ok(first) => first,
            Err(RecvError) => return StoreError::Closed,
        };
        let batch: Vec<Work> =
            std::iter::once(first).chain(work.try_iter().take(BATCH_RECORDS - 1)).collect();
        loop {
            match commit(&mut connection, epoch, &batch) {
                Ok(last) => {
                    fail_point("store.committed");
                    if let Some(last) = last {
                        mark.note(last);
                        fail_point("store.marked");
                    }
                    report.send_modify(|state| {
                        state.durable = last.unwrap_or(state.durable);
                        state.trouble = None;
                    });
                    break;
                }
                Err(error) if is_passing(&error) && !closing.load(Ordering::Relaxed) => {
                    report.send_modify(|state| state.trouble = Some(error.to_string()));
                    std::thread::sleep(RETRY);
                }
                Err(error) => return error,
            }
        }
    }
}

/// Puts a batch into one transaction; returns the last record's number.
fn commit(
    connection: &mut Connection,
    epoch: u64,
    batch: &[Work],
) -> Result<Option<u64>, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "SELECT epoch FROM incarnation";
    let current = transaction.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs();
    if current != epoch {
        return Err(StoreError::Fenced { own: epoch, current });
    }
    let mut last = None;
    for work in batch {
        match work {
            Work::Record(record) => {
                insert(&transaction, epoch, record)?;
                fail_point("store.inserted");
                last = Some(record.number);
            }
            Work::Snapshot(snapshot, version) => keep(&transaction, snapshot, version)?,
        }
    }
    fail_point("store.commit");
    transaction.commit()?;
    Ok(last)
}

fn insert(transaction: &Transaction<'_>, epoch: u64, new: &NewRecord) -> Result<(), StoreError> {
    let stored = StoredRecord {
        number: new.number,
        now_s: new.now_s,
        unix_s: new.unix_s,
        epoch,
        job_id: new.job_id,
        body: new.body.clone(),
    };
    let sql = "INSERT INTO log (number, now_s, unix_s, epoch, job_id, body, sum)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    transaction.prepare_cached(sql)?.execute(params![
        stored.number.cast_signed(),
        stored.now_s,
        stored.unix_s,
        stored.epoch.cast_signed(),
        stored.job_id.cast_signed(),
        stored.body,
        stored.sum(),
    ])?;
    Ok(())
}

/// Snapshots are a short cut through the log, which keeps everything: two are enough.
fn keep(
    transaction: &Transaction<'_>,
    snapshot: &Snapshot,
    version: &str,
) -> Result<(), StoreError> {
    transaction.execute(
        "INSERT OR REPLACE INTO snapshot (number, now_s, version, body, sha256)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            snapshot.number.cast_signed(),
            snapshot.now_s,
            version,
            snapshot.body,
            crate::secrets::digest_bytes(&snapshot.body),
        ],
    )?;
    transaction.execute(
        "DELETE FROM snapshot WHERE number NOT IN
         (SELECT number FROM snapshot ORDER BY number DESC LIMIT 2)",
        [],
    )?;
    Ok(())
}

/// Whether trying again can help without anybody's decision.
fn is_passing(error: &StoreError) -> bool {
    let StoreError::Sqlite(rusqlite::Error::SqliteFailure(code, _)) = error else { return false };
    matches!(
        code.code,
        ErrorCode::DiskFull
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
    )
}
