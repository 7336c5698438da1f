//! What a job says beforehand: all that a forecast of its run time may know.

use shockwave_proto::v1;

/// A job's shape (paper section 5: "leverage knowledge about the techniques used").
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Epochs in all.
    pub epochs: u64,
    /// Samples in an epoch.
    pub samples_per_epoch: u64,
    /// Batch size of the first epoch, over all workers, in samples.
    pub initial_batch: u64,
    /// Model and data set, in free words: jobs of one family share what was learnt about speed.
    pub family: String,
    /// How the batch size may change.
    pub policy: DeclaredPolicy,
}

/// How a job's batch size may change. Sizes are over all workers, in samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredPolicy {
    /// Never.
    Static,
    /// Between two sizes, either way.
    Accordion {
        /// Of critical regimes.
        small: u64,
        /// Of all others.
        large: u64,
    },
    /// Upwards only, up to a limit.
    Gns {
        /// Of the first epoch.
        initial: u64,
        /// The limit.
        max: u64,
    },
    /// By a table: (first epoch, batch size), epochs ascending from 0.
    Schedule(Vec<(u64, u64)>),
    /// By another rule, within bounds.
    Bounded {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
}

impl From<&Declaration> for v1::Declaration {
    fn from(declaration: &Declaration) -> Self {
        Self {
            epochs_total: clip(declaration.epochs),
            samples_per_epoch: declaration.samples_per_epoch,
            initial_batch: clip(declaration.initial_batch),
            family: declaration.family.clone(),
            policy: Some(policy(&declaration.policy)),
        }
    }
}

fn policy(policy: &DeclaredPolicy) -> v1::declaration::Policy {
    use v1::declaration::Policy;
    match policy {
        DeclaredPolicy::Static => Policy::Static(v1::Static {}),
        DeclaredPolicy::Accordion { small, large } => {
            Policy::Accordion(v1::Accordion { small: clip(*small), large: clip(*large) })
        }
        DeclaredPolicy::Gns { initial, max } => {
            Policy::Gns(v1::Gns { initial: clip(*initial), max: clip(*max) })
        }
        DeclaredPolicy::Schedule(entries) => {
            let entry = |&(first_epoch, batch): &(u64, u64)| v1::ScheduleEntry {
                first_epoch: clip(first_epoch),
                batch: clip(batch),
            };
            Policy::Schedule(v1::Schedule { entries: entries.iter().map(entry).collect() })
        }
        DeclaredPolicy::Bounded { min, max } => {
            Policy::Bounded(v1::Bounded { min: clip(*min), max: clip(*max) })
        }
    }
}

/// The protocol's counts of epochs and batch sizes have 32 bits; larger ones are not meaningful.
pub(super) fn clip(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
