//! Everything that can happen to the engine.

use serde::{Deserialize, Serialize};

use super::{Declaration, PlanAnswer, Submission};
use crate::types::{JobId, NodeId, NodeInfo};

/// A fact. The driver logs it with its time before it acts on the engine's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The coordinator started, perhaps after a gap: leases get `reconnect_s` to be renewed.
    Started,
    /// A job is handed in.
    JobSubmitted(Box<Submission>),
    /// The SDK has told more about its job.
    JobDeclared {
        /// The job.
        job: JobId,
        /// The fields that it declares.
        declaration: Box<Declaration>,
    },
    /// A user (or an administrator) wants the job to end.
    JobCancelled {
        /// The job.
        job: JobId,
        /// By whom and why, for the record.
        why: String,
    },
    /// The job is not to run until it is released; it yields when it runs. Also for an attached
    /// program that has lost its terminal.
    JobHeld {
        /// The job.
        job: JobId,
    },
    /// The hold ends.
    JobReleased {
        /// The job.
        job: JobId,
    },
    /// A job's budget changes.
    WeightChanged {
        /// The job.
        job: JobId,
        /// Its new weight, above 0.
        weight: f64,
    },
    /// A user's budget or device cap changes. Users not mentioned have weight 1 and no cap.
    UserChanged {
        /// The user.
        user: String,
        /// Factor on the weights of the user's jobs, above 0.
        weight: f64,
        /// Most devices that the user's jobs hold together.
        gpus_max: Option<u32>,
    },
    /// A node offers devices (again). All of them are free, except those of `keeps`.
    NodeJoined {
        /// The node and its devices.
        node: NodeInfo,
        /// Workers that the agent still carries. Those whose lease is no longer valid are answered
        /// with a kill.
        keeps: Vec<KeptWorker>,
    },
    /// A node is gone (its agent's heartbeats ended).
    NodeLost {
        /// The node.
        node: NodeId,
        /// Whether it is certain that its processes are gone too (the machine was switched off, the
        /// batch system says so). If not, its leases must run out before the jobs run elsewhere.
        processes_gone: bool,
        /// For the record.
        why: String,
    },
    /// A node that has nothing left to run is given back for good: it is forgotten, and whether it
    /// was drained with it.
    NodeLeft {
        /// The node.
        node: NodeId,
    },
    /// Nothing new starts on the node; what runs there yields.
    NodeDrained {
        /// The node.
        node: NodeId,
        /// For the record.
        why: String,
    },
    /// The node is used again.
    NodeResumed {
        /// The node.
        node: NodeId,
    },
    /// The whole gang trains (SDK: its state is restored; plain command: it is started).
    WorkerStarted {
        /// The job.
        job: JobId,
        /// Its lease.
        lease_epoch: u64,
        /// Training epochs (whole and part) in the state that it resumed from.
        epochs_done: f64,
    },
    /// A training epoch is complete.
    EpochDone {
        /// The job.
        job: JobId,
        /// Lease that it ran under.
        lease_epoch: u64,
        /// Training epochs complete with this one, counted from 1.
        epochs: u32,
        /// Batch size over the whole gang, samples.
        batch: u32,
        /// Time spent training this epoch, pauses and restarts excluded, seconds.
        duration_s: f64,
    },
    /// The job has changed its batch size.
    RegimeChanged {
        /// The job.
        job: JobId,
        /// Its lease.
        lease_epoch: u64,
        /// Training epochs (whole and part) done when it changed.
        epochs_done: f64,
        /// The new batch size over the whole gang, samples.
        batch: u32,
    },
    /// A checkpoint is durable and wants to be the one to resume from: compare-and-set on the
    /// lease epoch.
    CheckpointSaved {
        /// The job.
        job: JobId,
        /// Lease that it was saved under.
        lease_epoch: u64,
        /// Optimiser steps that it contains.
        step: u64,
        /// Training epochs (whole and part) that it contains.
        epochs_done: f64,
        /// Where it lies.
        uri: String,
        /// Digest of its manifest, lower-case hex.
        sha256: String,
    },
    /// The chief asks to keep its lease: answered by exactly one of extend, yield, revoke.
    LeaseRenewed {
        /// The job.
        job: JobId,
        /// Its lease.
        lease_epoch: u64,
        /// Training epochs (whole and part) done, where the caller knows.
        epochs_done: Option<f64>,
    },
    /// No process of the lease is left on the node: its devices there are free.
    Released {
        /// The job.
        job: JobId,
        /// The lease.
        lease_epoch: u64,
        /// Where.
        node: NodeId,
        /// How it ended there.
        reason: ReleaseReason,
    },
    /// The job is complete: said by the job itself. Idempotent.
    Finished {
        /// The job.
        job: JobId,
        /// Its lease.
        lease_epoch: u64,
        /// Its last optimiser step.
        step: u64,
    },
    /// The job says that it cannot go on.
    Failed {
        /// The job.
        job: JobId,
        /// Its lease.
        lease_epoch: u64,
        /// What it says.
        why: String,
        /// Whether another attempt may help.
        retry: bool,
    },
    /// The answer to [`super::Action::Plan`].
    Planned(Box<PlanAnswer>),
    /// Time has passed.
    Tick,
}

/// A worker that outlived its agent's connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptWorker {
    /// The job.
    pub job: JobId,
    /// The lease that it was started under.
    pub lease_epoch: u64,
    /// Device slots that it uses on the node.
    pub slots: Vec<u32>,
}

/// How a worker's processes ended on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseReason {
    /// The job gave its devices back, resumable: asked to, or parked by itself after a lost lease.
    Yielded,
    /// The process ended by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal that this coordinator did not send ended it.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// Killed on this coordinator's order.
    Killed,
    /// The node could not start it (no such user, no space, a device that is broken). A command
    /// that does not exist is the job's fault: exit code 127.
    StartFailed {
        /// Why.
        why: String,
    },
    /// The node is taken away (preempted pilot, end of walltime): no fault of the job.
    NodeLeaving,
    /// It is gone, and nobody saw how it ended (the node was started anew, its keeper was killed).
    Lost,
}
