//! The time that records are stamped with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use shockwave_core::engine::NOW_MOST_S;

use crate::store::{StoreInfo, unix_now_s};

/// The coordinator's clock: seconds since the store was made, never backwards, deaf to changes of
/// the time of day while it runs.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The machine's monotonic clock.
    Machine { base_s: f64, since: Instant },
    /// Seconds that a driver sets, as bits.
    Driven(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that goes on from the last record, by the time of day that has passed since then.
    #[must_use]
    pub fn new(store: &StoreInfo) -> Self {
        let by_day_s = unix_now_s() - store.made_unix_s;
        let base_s = by_day_s.max(store.last_now_s).min(NOW_MOST_S);
        Self(Source::Machine { base_s, since: Instant::now() })
    }

    /// A clock that shows what its driver sets: the bits of seconds.
    #[must_use]
    pub fn driven(now_s: Arc<AtomicU64>) -> Self {
        Self(Source::Driven(now_s))
    }

    /// Now, seconds.
    #[must_use]
    pub fn now_s(&self) -> f64 {
        match &self.0 {
            Source::Machine { base_s, since } => base_s + since.elapsed().as_secs_f64(),
            Source::Driven(now_s) => f64::from_bits(now_s.load(Ordering::Relaxed)),
        }
    }
}
