//! LPT: longest (remaining) processing time first, the classic heuristic for makespan
//! (section 2.2).

use super::{Information, Policy, Replan, ascending};
use crate::types::{ClusterView, Decision};

/// Longest remaining processing time first.
#[derive(Clone, Copy, Debug)]
pub struct Lpt {
    /// What is known of remaining times.
    pub information: Information,
}

impl Default for Lpt {
    fn default() -> Self {
        Self { information: Information::Reactive }
    }
}

impl Policy for Lpt {
    fn name(&self) -> &'static str {
        "lpt"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        ascending(view, |job| (-job.forecast.left_s, job.arrival_s))
    }
}
