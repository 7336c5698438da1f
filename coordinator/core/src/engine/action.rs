//! Everything that the engine wants done or known.

use serde::{Deserialize, Serialize};

use super::PlanRequest;
use crate::types::{Checkpoint, Decision, JobId, LeaseGrant, NodeId};

/// An order to the driver, or news for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Start the gang. Its devices are free.
    StartLease {
        /// The right to run.
        lease: LeaseGrant,
        /// Where to resume; `None` starts from the beginning.
        resume: Option<Checkpoint>,
    },
    /// The lease goes on: pushed at a round's boundary, or the answer to a renewal.
    ExtendLease {
        /// The job.
        job: JobId,
        /// Its lease.
        lease_epoch: u64,
        /// How long it holds from now, seconds.
        ttl_s: f64,
    },
    /// The job must checkpoint and release its devices.
    YieldBy {
        /// The job.
        job: JobId,
        /// Its lease.
        lease_epoch: u64,
        /// When it will be killed, seconds on the driver's clock.
        deadline_s: f64,
        /// How long that is from now, seconds.
        grace_s: f64,
        /// Why it has to go.
        reason: YieldReason,
    },
    /// End the worker's processes on these nodes now; [`super::Event::Released`] is awaited from
    /// each. Repeated while it does not come.
    Kill {
        /// The job.
        job: JobId,
        /// The lease.
        lease_epoch: u64,
        /// Where.
        nodes: Vec<NodeId>,
        /// Why.
        reason: KillReason,
    },
    /// The lease is not valid (any more): the worker must stop and park.
    RevokeLease {
        /// The job.
        job: JobId,
        /// The lease.
        lease_epoch: u64,
    },
    /// The checkpoint is the one to resume from; the one before may be deleted.
    CheckpointCommitted {
        /// The job.
        job: JobId,
        /// What was committed.
        checkpoint: Checkpoint,
    },
    /// The job is over. Devices may still be held until its processes are gone.
    JobEnded {
        /// The job.
        job: JobId,
        /// How.
        outcome: Outcome,
        /// The account of it.
        summary: Box<EndSummary>,
    },
    /// The job failed and will be tried again.
    JobRetried {
        /// The job.
        job: JobId,
        /// What happened.
        why: String,
        /// Failures in a row, with this one.
        failures: u32,
        /// Failures in a row at which it is stopped.
        failures_max: u32,
        /// Not before this time, seconds.
        not_before_s: f64,
    },
    /// Decide beside the round; answer with [`super::Event::Planned`].
    Plan(Box<PlanRequest>),
    /// There is a new decision.
    Replanned {
        /// The next round when it was made.
        round: u64,
        /// The decision.
        decision: Box<Decision>,
    },
    /// A round has begun.
    RoundStarted {
        /// Its index.
        round: u64,
        /// When, seconds.
        at_s: f64,
        /// Jobs that hold a lease.
        running: Vec<JobId>,
    },
    /// A node is not used any more after repeated failures.
    NodeSetAside {
        /// The node.
        node: NodeId,
        /// Why.
        why: String,
    },
    /// The event had no effect.
    Refused {
        /// The job, where it is about one.
        job: Option<JobId>,
        /// Why.
        reason: Refusal,
    },
}

/// Why a job has to yield.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum YieldReason {
    /// The next round belongs to others.
    Round {
        /// The next round.
        round: u64,
        /// The jobs that take its devices.
        to: Vec<JobId>,
    },
    /// It was put on hold.
    Held,
    /// It was cancelled.
    Cancelled,
    /// Its node is drained or about to leave.
    Drained {
        /// The node.
        node: NodeId,
    },
    /// Its time limit is reached.
    TimeLimit,
    /// The job has said that it ends, or a part of its gang has.
    Ending,
    /// It moves to other devices, so that others fit beside it.
    Moved {
        /// The next round.
        round: u64,
    },
}

/// Why a worker is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KillReason {
    /// It did not yield by its deadline.
    Deadline,
    /// Its lease was not renewed in time, nor did it park.
    Expired,
    /// A part of the gang is gone.
    GangBroken,
    /// The job has ended.
    JobEnded,
    /// The agent carries a lease that is no longer valid.
    Stale,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It said that it is complete.
    Finished {
        /// Its last optimiser step; `None` for a plain command.
        step: Option<u64>,
    },
    /// Too many failures, or one that no retry helps.
    Failed {
        /// The last one.
        why: String,
    },
    /// Somebody ended it.
    Cancelled {
        /// By whom and why.
        why: String,
    },
    /// A job that it waits for did not finish.
    DependencyFailed {
        /// That job.
        on: JobId,
    },
    /// Its time limit is reached.
    TimeLimit,
}

/// The account of a job at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndSummary {
    /// From submission to the end, seconds.
    pub jct_s: f64,
    /// Finish-time fairness rho: `jct / (exclusive run time x mean contention)` (section 2.1 with
    /// N_avg of eq. 9); the exclusive run time is the attained service. `None` if it never ran.
    pub rho: Option<f64>,
    /// Service time on its gang, seconds.
    pub attained_s: f64,
    /// Leases that it had.
    pub leases: u32,
    /// Leases that ended by a request to yield.
    pub preemptions: u32,
    /// Failures.
    pub failures: u32,
    /// Device time held without lasting progress (starting up, or lost after the last checkpoint),
    /// device-seconds.
    pub wasted_gpu_s: f64,
}

/// Why an event had no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// No such job.
    #[error("there is no such job")]
    UnknownJob,
    /// The job has ended.
    #[error("the job has ended")]
    JobOver,
    /// The job's number is taken.
    #[error("a job of this number exists")]
    DuplicateJob,
    /// It comes with a lease that is no longer the job's.
    #[error("lease {got} is not valid, the job's is {current}")]
    StaleLease {
        /// What it came with.
        got: u64,
        /// The job's newest lease.
        current: u64,
    },
    /// The checkpoint is older than the one committed.
    #[error("step {got} is before the committed step {committed}")]
    OldStep {
        /// What it came with.
        got: u64,
        /// The committed one.
        committed: u64,
    },
    /// A field that cannot be.
    #[error("{field} is {got}, expected {expected}")]
    Invalid {
        /// Which.
        field: String,
        /// What it was.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// No such node.
    #[error("there is no such node")]
    UnknownNode,
    /// The plan answers a request that is not the open one.
    #[error("plan {got} is not the one asked for")]
    StalePlan {
        /// What it answers.
        got: u64,
    },
}
