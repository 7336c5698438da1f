//! Records for the scenarios of the store, and what must be found of them.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use shockwave::store::{LogReader, NewRecord, StoreError, StoredRecord, Writer};

use super::Tally;

/// The record of a number: what it must be can be told from its number alone.
#[must_use]
pub fn record(number: u64, by: &str) -> NewRecord {
    let filler = "x".repeat((number as usize * 37) % 3000);
    NewRecord {
        number,
        now_s: number as f64,
        unix_s: 1e9 + number as f64,
        job_id: number % 5,
        body: format!("{{\"fact\":{number},\"by\":\"{by}\",\"text\":\"{filler}\"}}"),
    }
}

/// Appends, also where the queue is full for a moment.
///
/// # Errors
/// The writer has ended.
pub fn append(writer: &Writer, record: &NewRecord) -> Result<(), StoreError> {
    loop {
        match writer.append(record.clone()) {
            Err(StoreError::Busy) => std::thread::sleep(Duration::from_micros(100)),
            result => return result,
        }
    }
}

/// Waits until a record is durable.
///
/// # Errors
/// The writer has ended before.
pub fn wait_for(writer: &Writer, number: u64) -> Result<()> {
    let state = writer.state();
    loop {
        let now = state.borrow().clone();
        if now.durable >= number {
            return Ok(());
        }
        if let Some(error) = now.ended {
            bail!("the writer has ended: {error}");
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Every record of a log.
///
/// # Errors
/// It cannot be read to its end.
pub fn all(reader: &LogReader) -> Result<Vec<StoredRecord>, StoreError> {
    reader.read(1, 0, 1 << 20)
}

/// Checks that a log holds the records from 1 on without a gap, each as it was asked for, and at
/// least those that were acknowledged.
///
/// # Errors
/// Something is missing, or there that nobody has asked for; counted in the tally.
pub fn check_prefix(
    found: &[StoredRecord],
    acknowledged: u64,
    asked: u64,
    tally: &mut Tally,
) -> Result<()> {
    let mut phantom = 0;
    for (index, stored) in found.iter().enumerate() {
        let wanted = record(index as u64 + 1, "one");
        phantom += u64::from(
            stored.number > asked || (stored.number, &stored.body) != (wanted.number, &wanted.body),
        );
    }
    let lost = acknowledged.saturating_sub(found.len() as u64);
    tally.checked += acknowledged;
    tally.phantom += phantom;
    tally.lost += lost;
    ensure!(phantom == 0, "{phantom} records that nobody has asked for");
    ensure!(lost == 0, "{} records of {acknowledged} acknowledged ones", found.len());
    Ok(())
}
