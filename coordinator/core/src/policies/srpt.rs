//! SRPT: shortest remaining processing time first, which minimises mean completion time on one
//! machine when run times are known (section 2.2).

use super::{Information, Policy, Replan, ascending};
use crate::types::{ClusterView, Decision};

/// Shortest remaining processing time first.
#[derive(Clone, Copy, Debug)]
pub struct Srpt {
    /// What is known of remaining times.
    pub information: Information,
}

impl Default for Srpt {
    fn default() -> Self {
        Self { information: Information::Reactive }
    }
}

impl Policy for Srpt {
    fn name(&self) -> &'static str {
        "srpt"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        ascending(view, |job| (job.forecast.left_s, job.arrival_s))
    }
}
