//! Scheduling policies: one file each, one registry, told apart by nothing but this trait.

pub mod information;
pub mod mechanism;
mod shockwave;
mod shockwave_paper;

pub use shockwave::Shockwave;
pub use shockwave_paper::ShockwavePaper;

use crate::types::{ClusterView, Decision, MemoryError};

/// What a policy is told about the future of a job (paper sections 2.2 and 8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Information {
    /// The throughput of the first regime, for ever.
    Agnostic,
    /// The throughput of this moment.
    Reactive,
    /// The predictor's forecast.
    Proactive,
}

/// When a policy decides again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replan {
    /// Before every round.
    EveryRound,
    /// After arrivals, completions and failures (the published baselines: at most every 1000 s).
    OnJobChange,
}

/// A scheduling policy. It sees only the view: never a trace, never a clock.
pub trait Policy: Send {
    /// Name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// What it wants to know of each job's future.
    fn information(&self) -> Information {
        Information::Reactive
    }

    /// When it wants to be asked again.
    fn replan(&self) -> Replan {
        Replan::OnJobChange
    }

    /// Decides who runs next.
    fn decide(&mut self, view: &ClusterView) -> Decision;

    /// What it remembers from one decision to the next, as text (JSON): part of every snapshot, so
    /// that a restarted coordinator decides as the old one would have. Empty when it remembers
    /// nothing that matters.
    fn memory(&self) -> String {
        String::new()
    }

    /// Takes over what [`Policy::memory`] of the same policy gave.
    ///
    /// # Errors
    /// [`MemoryError`] when the text is not such a memory.
    fn recall(&mut self, memory: &str) -> Result<(), MemoryError> {
        if memory.is_empty() { Ok(()) } else { Err(MemoryError::new(self.name(), "none expected")) }
    }
}
