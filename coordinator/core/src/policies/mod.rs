//! Scheduling policies: one file each, one registry, told apart by nothing but this trait.

mod afs;
mod allox;
mod company;
mod conic;
mod drf;
mod fifo;
mod gandiva_fair;
mod gavel;
pub mod information;
mod list_rule;
mod lpt;
pub mod mechanism;
mod mst;
mod ossp;
mod shockwave;
mod shockwave_paper;
mod srpt;
#[cfg(test)]
mod testing;
mod themis;
mod themis_filter;
mod tiresias;
mod tuning;

pub use afs::Afs;
pub use allox::Allox;
pub use drf::Drf;
pub use fifo::Fifo;
pub use gandiva_fair::GandivaFair;
pub use gavel::Gavel;
pub use list_rule::ListRule;
pub use lpt::Lpt;
pub use mst::MaxSumThroughput;
pub use ossp::OpenShop;
pub use shockwave::Shockwave;
pub use shockwave_paper::ShockwavePaper;
pub use srpt::Srpt;
pub use themis::Themis;
pub use themis_filter::ThemisFilter;
pub use tiresias::Tiresias;
pub use tuning::{PolicyError, SAMPLES_MAX, Tuning, names, tuned};

use crate::types::{ClusterView, Decision, JobView, MemoryError};

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

    /// How many trajectories of each job it wants drawn from the posterior; 1: the posterior mean
    /// alone, and none is drawn (Appendix F).
    fn samples(&self) -> usize {
        1
    }

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

/// A policy's name on the command line, and how to make it with its defaults.
pub type Entry = (&'static str, fn() -> Box<dyn Policy>);

/// Every policy: the one place in which they are listed.
pub const REGISTRY: &[Entry] = &[
    ("shockwave", || Box::<Shockwave>::default()),
    ("shockwave-paper", || Box::<ShockwavePaper>::default()),
    ("gavel", || Box::<Gavel>::default()),
    ("themis", || Box::<Themis>::default()),
    ("themis-filter", || Box::<ThemisFilter>::default()),
    ("allox", || Box::<Allox>::default()),
    ("ossp", || Box::<OpenShop>::default()),
    ("mst", || Box::<MaxSumThroughput>::default()),
    ("gandiva-fair", || Box::<GandivaFair>::default()),
    ("drf", || Box::<Drf>::default()),
    ("fifo", || Box::<Fifo>::default()),
    ("srpt", || Box::<Srpt>::default()),
    ("lpt", || Box::<Lpt>::default()),
    ("tiresias", || Box::<Tiresias>::default()),
    ("afs", || Box::<Afs>::default()),
    ("list-rule", || Box::<ListRule>::default()),
];

/// Makes a policy by its name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    REGISTRY.iter().find(|entry| entry.0 == name).map(|entry| (entry.1)())
}

/// Jobs by ascending key; equals stay in order of admission.
fn ascending(view: &ClusterView, key: impl Fn(&JobView) -> (f64, f64)) -> Decision {
    let mut ranked: Vec<_> = view.jobs.iter().map(|job| (key(job), job.id)).collect();
    ranked.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    Decision::Order(ranked.into_iter().map(|(_, id)| id).collect())
}

/// A memory as text.
fn remembered(memory: &impl serde::Serialize) -> String {
    // Maps with numbers as keys and finite values cannot fail to serialise.
    serde_json::to_string(memory).unwrap_or_default()
}

/// A memory from its text; nothing from no text.
fn recalled<T: serde::de::DeserializeOwned + Default>(
    owner: &str,
    memory: &str,
) -> Result<T, MemoryError> {
    if memory.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_str(memory).map_err(|error| MemoryError::new(owner, error))
}
