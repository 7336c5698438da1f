//! What the log holds: every fact that the coordinator acts on, and nothing else.
//!
//! A record is written as JSON with its version. Fields are only ever added, with a default; a
//! record that a later program wrote is refused, never skipped.

use serde::{Deserialize, Serialize};
use shockwave_core::engine;
use shockwave_proto::v1;

use super::settings::Configuration;

/// Version of the records that this program writes.
pub const RECORD_VERSION: u32 = 1;

/// A fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A coordinator started on this store.
    Started {
        /// What it was configured to.
        configuration: Box<Configuration>,
        /// Version of the program.
        program: String,
    },
    /// A job was handed in.
    Submitted {
        /// Its number.
        job: u64,
        /// Whose it is.
        user: String,
        /// The client's key for repeats; empty: none.
        key: String,
        /// What to run.
        request: Box<v1::JobRequest>,
    },
    /// The SDK said what the job is going to do.
    Declared {
        /// The job.
        job: u64,
        /// The lease that said so.
        lease_epoch: u64,
        /// What it said.
        declaration: Box<v1::Declaration>,
    },
    /// Training reported.
    Reported {
        /// The job.
        job: u64,
        /// The lease that handed the events over.
        lease_epoch: u64,
        /// Events, numbered without gaps from the last acknowledged one on.
        events: Vec<v1::Event>,
    },
    /// A lease was renewed.
    Renewed {
        /// The job.
        job: u64,
        /// Its lease.
        lease_epoch: u64,
        /// Where training is.
        position: Option<v1::Position>,
    },
    /// A user ended a job.
    Cancelled {
        /// The job.
        job: u64,
        /// By whom and why.
        why: String,
    },
    /// A user keeps a job back, or ends that.
    Held {
        /// The job.
        job: u64,
        /// Whether it is kept back.
        held: bool,
    },
    /// A program that was started by hand carries the job from now on, or is gone.
    Attached {
        /// The job.
        job: u64,
        /// The program; none: it is gone.
        program: Option<v1::Attachment>,
    },
    /// A job's budget was changed.
    Weighed {
        /// The job.
        job: u64,
        /// Its weight.
        weight: f64,
    },
    /// A user's budget and cap were set.
    UserSet {
        /// What they are.
        terms: v1::UserTerms,
    },
    /// A token was made.
    TokenAdded {
        /// What it is.
        token: v1::TokenInfo,
        /// Digest of its secret.
        digest: String,
    },
    /// A token was revoked.
    TokenRevoked {
        /// Its number.
        id: u64,
    },
    /// A machine has joined with a token for agents: from then on it is that machine's.
    TokenBound {
        /// Its number.
        id: u64,
        /// The machine.
        node: String,
    },
    /// A machine was drained, or that was ended.
    Drained {
        /// The machine.
        node: String,
        /// Whether nothing new starts on it.
        drained: bool,
        /// For people.
        why: String,
    },
    /// An agent entered its machine.
    Joined {
        /// The machine.
        node: String,
        /// Which start of the agent.
        instance: String,
        /// Host for rendezvous.
        address: String,
        /// Its devices.
        devices: Vec<v1::Device>,
        /// Leases that it still carries: job and epoch.
        keeps: Vec<(u64, u64)>,
        /// Coordinator's clock at which its allocation ends, seconds.
        until_s: Option<f64>,
        /// Identity of the running machine; empty: not told.
        #[serde(default)]
        machine: String,
    },
    /// An agent was not heard for too long.
    Lost {
        /// The machine.
        node: String,
        /// For people.
        why: String,
    },
    /// A machine was given back for good, with nothing left on it.
    Left {
        /// The machine.
        node: String,
        /// For people.
        why: String,
    },
    /// A lease's processes were started on a machine.
    Running {
        /// The job.
        job: u64,
        /// The lease.
        lease_epoch: u64,
        /// The machine.
        node: String,
    },
    /// A lease's processes are gone from a machine.
    Released {
        /// The job.
        job: u64,
        /// The lease.
        lease_epoch: u64,
        /// The machine.
        node: String,
        /// How they ended.
        reason: engine::ReleaseReason,
    },
    /// The planner's answer.
    Planned {
        /// The answer.
        answer: Box<engine::PlanAnswer>,
        /// Time that it took, seconds.
        solve_s: f64,
    },
    /// Notices were delivered, or given up.
    Notified {
        /// Up to this number.
        up_to: u64,
    },
    /// Time has passed.
    Tick,
}

/// A record that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A later program wrote it.
    #[error(
        "record {number} was written by a newer program (record version {found}, this program \
         knows {RECORD_VERSION}); start the newer program again (nothing was changed)"
    )]
    Newer {
        /// Which record.
        number: u64,
        /// Its version.
        found: u32,
    },
    /// It is no record.
    #[error("record {number} of the log cannot be understood: {source}")]
    Damaged {
        /// Which record.
        number: u64,
        /// Why.
        source: serde_json::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    record: T,
}

impl Record {
    /// The job that it concerns; 0 for no single one.
    #[must_use]
    pub fn job_id(&self) -> u64 {
        match self {
            Self::Submitted { job, .. }
            | Self::Declared { job, .. }
            | Self::Reported { job, .. }
            | Self::Renewed { job, .. }
            | Self::Cancelled { job, .. }
            | Self::Held { job, .. }
            | Self::Attached { job, .. }
            | Self::Weighed { job, .. }
            | Self::Running { job, .. }
            | Self::Released { job, .. } => *job,
            Self::Started { .. }
            | Self::UserSet { .. }
            | Self::TokenAdded { .. }
            | Self::TokenRevoked { .. }
            | Self::TokenBound { .. }
            | Self::Drained { .. }
            | Self::Joined { .. }
            | Self::Lost { .. }
            | Self::Left { .. }
            | Self::Planned { .. }
            | Self::Notified { .. }
            | Self::Tick => 0,
        }
    }

    /// As JSON.
    ///
    /// # Errors
    /// When a number in it is not finite in a place that must be.
    pub fn encode(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Versioned { v: RECORD_VERSION, record: self })
    }

    /// From JSON.
    ///
    /// # Errors
    /// [`RecordError`] names the record.
    pub fn decode(number: u64, text: &str) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        let damaged = |source| RecordError::Damaged { number, source };
        let Version { v: found } = serde_json::from_str(text).map_err(damaged)?;
        if found > RECORD_VERSION {
            return Err(RecordError::Newer { number, found });
        }
        serde_json::from_str::<Versioned<Self>>(text).map(|it| it.record).map_err(damaged)
    }
}
