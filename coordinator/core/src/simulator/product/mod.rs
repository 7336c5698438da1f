//! The product's semantics: the service's own [`Engine`] in virtual time.
//!
//! The simulator takes the place of everything around the engine: the clock, the agents, the
//! training processes, the planner's thread. It tells the engine what they would tell it and
//! carries out what it orders:
//!
//! * A gang comes up `start_s` after its lease, trains epochs of the profile's batch sizes at the
//!   measured throughputs, reports each epoch and each change of its batch size, and renews its
//!   lease three times in a term.
//! * Asked to yield, it writes a checkpoint of where it is (`save_s`) and goes. It also writes one
//!   at the end of an epoch when the last is older than `checkpoint_s`. What was trained after the
//!   last committed checkpoint is lost with the processes, and trained again.
//! * A lease that runs out ends its processes, whoever can be reached ([`Engine`] counts on that).
//! * The policy decides beside the round, as in the service, and answers after `plan_s`.
//!
//! Faults ([`Faults`]) come from a seed. Equal input gives equal results.

mod account;
mod course;
mod drive;
mod fork;
mod life;
mod machines;
mod orders;
mod queue;
mod remote;
mod worker;

use super::faults::Faults;
use super::observer::Observer;
use super::report::Outcome;
use super::workload::Workload;
use crate::engine::{Planning, Settings, SettingsError};
use crate::policies::Policy;
use crate::predictor::Predictor;
use crate::types::{JobId, MemoryError};

pub use fork::{Fork, ForkEnd, ForkOutcome, expected, play_on, whole_s};

#[cfg(doc)]
use crate::engine::Engine;

/// What things cost in virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// From a lease to training, seconds.
    pub start_s: f64,
    /// Writing a checkpoint in order to yield, seconds.
    pub save_s: f64,
    /// Age of the last checkpoint from which the end of an epoch writes another, seconds.
    pub checkpoint_s: f64,
    /// A decision of the policy, seconds.
    pub plan_s: f64,
    /// A kill, from the order to the end of the processes, seconds.
    pub kill_s: f64,
    /// Silence after which a node is taken for lost, seconds.
    pub heartbeat_s: f64,
    /// How long a gang waits for a part that is gone before it fails, seconds.
    pub collective_s: f64,
    /// How long an operator takes to look at a node that was set aside, seconds.
    pub repair_s: f64,
}

impl Default for Costs {
    /// A start and a yield cost 20 s together, as in the published simulator.
    fn default() -> Self {
        Self {
            start_s: 15.0,
            save_s: 5.0,
            checkpoint_s: 600.0,
            plan_s: 1.0,
            kill_s: 1.0,
            heartbeat_s: 20.0,
            collective_s: 30.0,
            repair_s: 600.0,
        }
    }
}

/// The cluster of a simulation, and what happens to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// GPUs in the cluster.
    pub gpus: u32,
    /// GPUs in each machine, at least 1; the last one has the rest.
    pub gpus_per_node: u32,
    /// The engine's settings.
    pub engine: Settings,
    /// What things cost.
    pub costs: Costs,
    /// What goes wrong.
    pub faults: Faults,
    /// Seed of what goes wrong.
    pub seed: u64,
}

impl Setting {
    /// A cluster without faults, in machines of 8 GPUs, with the service's settings.
    #[must_use]
    pub fn of(gpus: u32) -> Self {
        Self {
            gpus,
            gpus_per_node: 8,
            engine: Settings { planning: Planning::Beside, ..Settings::default() },
            costs: Costs::default(),
            faults: Faults::default(),
            seed: 0,
        }
    }
}

/// A simulation that cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProductError {
    /// A setting of the engine.
    #[error(transparent)]
    Setting(#[from] SettingsError),
    /// The policy does not take back its own memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Jobs are left after far more time than they need.
    #[error("job {job} and {others} others have not ended after {at_s:.0} s")]
    Stalled {
        /// The first of them.
        job: JobId,
        /// How many others.
        others: usize,
        /// When that was seen, seconds.
        at_s: f64,
    },
    /// The live state has a job whose course is not given.
    #[error("the course of job {job} is not given")]
    Unknown {
        /// The job.
        job: JobId,
    },
    /// The engine ended a job otherwise than by its completion.
    #[error("job {job} did not finish: {outcome}")]
    Unfinished {
        /// The job.
        job: JobId,
        /// How it ended.
        outcome: String,
    },
}

/// Plays a workload to its end. `policy` decides beside the engine.
///
/// # Errors
/// [`ProductError`] when a setting cannot be, or when jobs do not come to their end.
pub fn simulate(
    workload: &Workload,
    setting: &Setting,
    policy: &mut dyn Policy,
    predictor: Box<dyn Predictor>,
    observer: &mut dyn Observer,
) -> Result<Outcome, ProductError> {
    drive::Product::new(workload, setting, policy, predictor, observer)?.run()
}
