//! What comes with a job besides its [`JobSpec`]: whose it is, where it may run, on which terms.

use serde::{Deserialize, Serialize};

use crate::types::{Adaptation, JobId, JobSpec, NodeId};

/// A job as handed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// What is declared about the training. `spec.arrival_s` is set to the time of the event.
    pub spec: JobSpec,
    /// Whose job it is.
    #[serde(default)]
    pub user: String,
    /// Which devices it may run on.
    #[serde(default)]
    pub demand: Demand,
    /// Grace, retries, limits.
    #[serde(default)]
    pub terms: Terms,
    /// Jobs that must be finished before it queues; it ends with them when one of them fails.
    #[serde(default)]
    pub after: Vec<JobId>,
    /// Whether it is handed in on hold.
    #[serde(default)]
    pub held: bool,
}

/// Which devices a job may run on. Empty: any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Demand {
    /// Only this node (an attached program cannot move).
    pub node: Option<NodeId>,
    /// Only devices of this kind.
    pub kind: Option<String>,
    /// Only devices with at least this memory, bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Whether the whole gang must lie on one node.
    #[serde(default)]
    pub one_node: bool,
}

/// A job's terms. `None` takes the coordinator's [`super::Settings`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Time from the request to yield to the kill, seconds.
    pub grace_s: Option<f64>,
    /// Shortest run of a lease before the policy may take it back, seconds.
    pub min_run_s: Option<f64>,
    /// What a stop and a later start cost, seconds, until it is measured.
    pub restart_s: Option<f64>,
    /// Failures in a row, without a checkpoint between them, that are retried.
    pub retries: Option<u32>,
    /// Longest service time before the job is stopped, seconds.
    pub time_limit_s: Option<f64>,
    /// Whether exit code 0 finishes the job (a plain command without the SDK). With the SDK only
    /// [`super::Event::Finished`] does.
    #[serde(default)]
    pub exit_zero_finishes: bool,
}

/// What the SDK declares when it connects: refines the submission. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// Epochs that it will train.
    pub epochs_total: Option<u32>,
    /// Samples in an epoch.
    pub samples_per_epoch: Option<u64>,
    /// Batch size of the first epoch over the whole gang, samples.
    pub initial_batch: Option<u32>,
    /// What can happen to the batch size.
    pub adaptation: Option<Adaptation>,
    /// Model and data set.
    pub family: Option<String>,
}

impl Declaration {
    /// The spec with the declared fields replaced.
    #[must_use]
    pub fn refine(&self, spec: &JobSpec) -> JobSpec {
        let mut refined = spec.clone();
        if let Some(epochs) = self.epochs_total {
            refined.epochs_total = epochs;
        }
        if let Some(samples) = self.samples_per_epoch {
            refined.samples_per_epoch = samples;
        }
        if let Some(batch) = self.initial_batch {
            refined.initial_batch = batch;
        }
        if let Some(adaptation) = &self.adaptation {
            refined.adaptation = adaptation.clone();
        }
        if let Some(family) = &self.family {
            refined.family.clone_from(family);
        }
        refined
    }
}
