//! What the log adds up to beside the engine: requests, acknowledgements, machines, leases as
//! machines are to see them. Changed by records and the engine's actions only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use shockwave_core::engine::{Outcome, PlanRequest};
use shockwave_core::types::{Decision, Placement};
use shockwave_proto::v1;

use super::curve::Curve;
use super::notices::Outbox;
use super::regimes::Regimes;

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// What was asked for; the SDK's declaration replaces the submission's.
    pub request: v1::JobRequest,
    /// Whose it is.
    pub user: String,
    /// Submission: coordinator's clock and time of day, seconds.
    pub submitted_s: f64,
    /// Submission, seconds since 1970.
    pub submitted_unix_s: f64,
    /// First start, seconds since 1970.
    pub started_unix_s: Option<f64>,
    /// Its end.
    pub end: Option<End>,
    /// Epoch of its newest lease (0: none yet).
    pub lease_epoch: u64,
    /// Times that it gave devices back before its end.
    pub preemptions: u32,
    /// Number of the last acknowledged event.
    pub acknowledged: u64,
    /// Whether the SDK has spoken for it: then only its `Finished` finishes it.
    pub has_sdk: bool,
    /// Regimes as reported.
    pub regimes: Regimes,
    /// Its course: epochs and forecasts.
    pub curve: Curve,
    /// Where training is.
    pub position: Option<v1::Position>,
    /// Newest reported checkpoint; committed only if the engine took it.
    pub saved: Option<v1::CheckpointSaved>,
    /// Newest committed checkpoint.
    pub checkpoint: Option<v1::CheckpointSaved>,
    /// Metrics of the last epoch or of the end.
    pub metrics: BTreeMap<String, f64>,
    /// Loss, gradient norm and noise scale of the last epoch.
    pub monitor: Option<v1::EpochDone>,
    /// What it said at its end.
    pub finished: Option<v1::Finished>,
    /// Exit code of the last process that ended with one.
    pub exit_code: Option<i32>,
    /// Why it is where it is.
    pub note: String,
    /// Its user keeps it back.
    pub held: bool,
    /// It is carried by a program that was started by hand, and that program is gone.
    pub detached: bool,
    /// Record that changed it last.
    pub changed: u64,
}

/// The end of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// When, seconds since 1970.
    pub unix_s: f64,
    /// The engine's account.
    pub summary: shockwave_core::engine::EndSummary,
}

/// A lease of which some machine may still run processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// The job.
    pub job: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Names its processes.
    pub nonce: String,
    /// Its devices.
    pub placement: Placement,
    /// Machines on which its processes run.
    pub running: BTreeSet<String>,
    /// Machines from which they are gone.
    pub released: BTreeSet<String>,
    /// Whether training has reported.
    pub trains: bool,
    /// The yield that was asked for.
    pub stop: Option<StopAsked>,
    /// Machines on which it is to be killed at once.
    pub kill: BTreeSet<String>,
    /// Whether it is not valid any more.
    pub revoked: bool,
}

/// A yield that was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StopAsked {
    /// When it was asked, coordinator's clock, seconds.
    pub asked_s: f64,
    /// When it will be killed, coordinator's clock, seconds.
    pub deadline_s: f64,
    /// Why.
    pub reason: String,
}

/// A machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Node {
    /// Which start of its agent is in.
    pub instance: String,
    /// Host for rendezvous.
    pub address: String,
    /// Its devices.
    pub devices: Vec<v1::Device>,
    /// Identity of the running machine; empty: its agent takes no programs started by hand.
    pub machine: String,
    /// Whether its agent was lost.
    pub lost: bool,
    /// Whether nothing new starts on it.
    pub drained: bool,
}

/// Most stints that are remembered.
pub const HISTORY_MAX: usize = 4096;

/// The time that one lease held devices of one machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stint {
    /// The job.
    pub job: u64,
    /// Its lease.
    pub lease_epoch: u64,
    /// The machine.
    pub node: String,
    /// Devices on it.
    pub slots: Vec<u32>,
    /// Begin, seconds since 1970.
    pub from_unix_s: f64,
    /// End, seconds since 1970 (none: it goes on).
    pub to_unix_s: Option<f64>,
}

/// A token of an account.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    /// What it is.
    pub info: v1::TokenInfo,
    /// Digest of its secret; the secret itself is kept nowhere.
    pub digest: String,
}

/// The round going on and the plan in force.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rounds {
    /// Round going on.
    pub round: u64,
    /// When it began, coordinator's clock, seconds.
    pub began_s: f64,
    /// The decision in force.
    pub decision: Option<Decision>,
    /// Round that the decision was made for.
    pub decided_for: u64,
    /// Time that it took, seconds.
    pub solve_s: f64,
}

/// All of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Book {
    /// Jobs by number.
    pub jobs: BTreeMap<u64, Job>,
    /// Jobs by user and idempotency key.
    pub keys: BTreeMap<(String, String), u64>,
    /// Leases by job and epoch, until every machine has let go of them.
    pub leases: BTreeMap<(u64, u64), Lease>,
    /// Machines by name.
    pub nodes: BTreeMap<String, Node>,
    /// Budgets and caps by user, where they were set.
    pub users: BTreeMap<String, v1::UserTerms>,
    /// Tokens by number, the ended ones included.
    pub tokens: BTreeMap<u64, Token>,
    /// Forecasts of ended jobs that held their end, and how many there were.
    pub forecasts_held: (u64, u64),
    /// What others are to be told of.
    pub outbox: Outbox,
    /// Who held which devices when, the oldest first; bounded.
    pub history: VecDeque<Stint>,
    /// The round and the plan.
    pub rounds: Rounds,
    /// The question to the planner that is open.
    pub open_plan: Option<Box<PlanRequest>>,
    /// Number of the last record.
    pub number: u64,
    /// Coordinator's clock at the last record, seconds.
    pub now_s: f64,
}

impl Job {
    /// A job that has just been handed in.
    #[must_use]
    pub fn new(id: u64, user: String, request: v1::JobRequest, now_s: f64, unix_s: f64) -> Self {
        Self {
            id,
            has_sdk: request.declaration.is_some() || request.attached.is_some(),
            held: request.held,
            detached: false,
            request,
            user,
            submitted_s: now_s,
            submitted_unix_s: unix_s,
            started_unix_s: None,
            end: None,
            lease_epoch: 0,
            preemptions: 0,
            acknowledged: 0,
            regimes: Regimes::default(),
            curve: Curve::default(),
            position: None,
            saved: None,
            checkpoint: None,
            metrics: BTreeMap::new(),
            monitor: None,
            finished: None,
            exit_code: None,
            note: String::new(),
            changed: 0,
        }
    }

    /// Training epochs, whole and part, that are done at a point of an epoch.
    #[must_use]
    pub fn epochs_at(&self, epoch: u32, sample: u64) -> f64 {
        let declaration = self.request.declaration.as_ref();
        let samples = declaration.map_or(0, |it| it.samples_per_epoch);
        let part = if samples == 0 { 0.0 } else { sample as f64 / samples as f64 };
        f64::from(epoch) + part.min(1.0)
    }
}

impl Lease {
    /// Machines that may still run processes of it.
    pub fn holders(&self) -> impl Iterator<Item = &str> {
        let nodes = self.placement.parts.iter().map(|part| part.node.0.as_str());
        nodes.filter(|node| !self.released.contains(*node))
    }

    /// Whether its processes run on every machine of its placement.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.placement.parts.iter().all(|part| self.running.contains(&part.node.0))
    }
}

impl Book {
    /// The lease under which a job runs now.
    #[must_use]
    pub fn current_lease(&self, job: &Job) -> Option<&Lease> {
        self.leases.get(&(job.id, job.lease_epoch))
    }

    /// Number for the next job.
    #[must_use]
    pub fn next_job(&self) -> u64 {
        self.jobs.last_key_value().map_or(0, |(id, _)| *id) + 1
    }

    /// A lease holds devices of a machine from now on.
    pub fn begin_stint(&mut self, stint: Stint) {
        if self.history.len() >= HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(stint);
    }

    /// And no more.
    pub fn end_stint(&mut self, (job, lease_epoch): (u64, u64), node: &str, unix_s: f64) {
        let mut stints = self.history.iter_mut().rev();
        let stint = stints.find(|stint| {
            (stint.job, stint.lease_epoch, stint.node.as_str()) == (job, lease_epoch, node)
        });
        if let Some(stint) = stint {
            stint.to_unix_s.get_or_insert(unix_s);
        }
    }

    /// Jobs that have not ended.
    pub fn active(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(|job| job.end.is_none())
    }
}
