//! FIFO: first in, first out; smaller gangs that arrived later fill what is left.

use super::{Policy, Replan, ascending};
use crate::types::{ClusterView, Decision};

/// First in, first out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        ascending(view, |job| (job.arrival_s, 0.0))
    }
}
