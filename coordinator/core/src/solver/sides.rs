//! Side constraints: what a plan must respect beyond capacity.

use super::{Program, Schedule};

/// Constraints that the aggregated solver does not know; plans with any of them take the exact
/// path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// `(job, round)`: the job must not run then.
    pub forbidden: Vec<(usize, usize)>,
    /// `(job, round)`: the job must run then.
    pub pinned: Vec<(usize, usize)>,
    /// Most starts of all jobs in the window.
    pub starts_max: Option<usize>,
}

impl Sides {
    /// Whether there are no constraints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forbidden.is_empty() && self.pinned.is_empty() && self.starts_max.is_none()
    }

    /// Whether a schedule respects them.
    #[must_use]
    pub fn hold(&self, program: &Program, schedule: &Schedule) -> bool {
        self.forbidden.iter().all(|&(job, round)| !schedule.runs(job, round))
            && self.pinned.iter().all(|&(job, round)| schedule.runs(job, round))
            && self.starts_max.is_none_or(|most| schedule.starts(program) <= most)
    }
}
