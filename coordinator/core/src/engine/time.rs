//! Moments that sort.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// Latest moment, seconds: rounds of every length can still be counted there.
pub const NOW_MOST_S: f64 = 1e11;

/// A moment on the driver's clock, seconds; finite.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Moment(pub(super) f64);

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
