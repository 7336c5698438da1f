//! The time that records are stamped with.

use std::time::Instant;

use crate::store::{StoreInfo, unix_now_s};

/// The coordinator's clock: seconds since the store was made, never backwards, deaf to changes of
/// the time of day while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base_s: f64,
    since: Instant,
}

impl Clock {
    /// A clock that goes on from the last record, by the time of day that has passed since then.
    #[must_use]
    pub fn new(store: &StoreInfo) -> Self {
        let by_day_s = unix_now_s() - store.made_unix_s;
        Self { base_s: by_day_s.max(store.last_now_s), since: Instant::now() }
    }

    /// Now, seconds.
    #[must_use]
    pub fn now_s(&self) -> f64 {
        self.base_s + self.since.elapsed().as_secs_f64()
    }
}
