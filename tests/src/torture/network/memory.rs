//! A log in memory: what is not durable is gone with its coordinator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shockwave::store::{Log, NewRecord, Snapshot, StoreError};

/// The records, shared by the owner and the world.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Vec<NewRecord>>>);

impl Memory {
    pub(super) fn records(&self) -> MutexGuard<'_, Vec<NewRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.records().len() as u64
    }
}

impl Log for Memory {
    fn append(&self, record: NewRecord) -> Result<(), StoreError> {
        self.records().push(record);
        Ok(())
    }

    fn snapshot(&self, _snapshot: Snapshot, _version: &str) -> Result<(), StoreError> {
        Ok(())
    }
}
