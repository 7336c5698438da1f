//! Everything that the engine knows, in one serialisable value.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Demand, Settings,
    clock::RoundClock,
    cluster::Cluster,
    contention::Contention,
    job::{Ended, Job},
    lease::Lease,
    time::Moment,
};
use crate::{
    policies::mechanism::{Mechanism, MechanismConfig},
    types::{JobId, Placement},
};

/// The state. Everything here is a function of the settings and the events so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) settings: Settings,
    /// Time of the last event, seconds. It never goes back.
    pub(super) now_s: f64,
    pub(super) clock: RoundClock,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// Jobs in order of admission.
    pub(super) admitted: BTreeMap<u64, JobId>,
    pub(super) seq_next: u64,
    /// Jobs that are queued or running.
    pub(super) active: usize,
    /// Those of them that nothing in service could run, even alone.
    #[serde(default)]
    pub(super) unhosted: BTreeSet<JobId>,
    /// Who waits for the end of a job.
    pub(super) dependents: BTreeMap<JobId, Vec<JobId>>,
    pub(super) leases: BTreeMap<JobId, Lease>,
    /// Devices of the next leases.
    pub(super) reserved: BTreeMap<JobId, Placement>,
    pub(super) ended: Ended,
    pub(super) users: BTreeMap<String, UserTerms>,
    pub(super) cluster: Cluster,
    pub(super) contention: Contention,
    pub(super) mechanism: Mechanism,
    /// Number of the open question to the policy.
    pub(super) question: Option<u64>,
    pub(super) questions: u64,
    pub(super) timers: Timers,
    /// Something may be able to start.
    pub(super) dispatch_due: bool,
}

/// A user's budget and cap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct UserTerms {
    pub(super) weight: f64,
    pub(super) gpus_max: Option<u32>,
}

/// When to look at a job again. One entry a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Timers {
    due: BTreeSet<(Moment, JobId)>,
    armed: BTreeMap<JobId, Moment>,
}

impl Timers {
    /// Sets or clears (with an infinite time) a job's timer.
    pub(super) fn arm(&mut self, job: JobId, at_s: f64) {
        if let Some(old) = self.armed.remove(&job) {
            self.due.remove(&(old, job));
        }
        if at_s.is_finite() {
            self.armed.insert(job, Moment(at_s));
            self.due.insert((Moment(at_s), job));
        }
    }

    /// The first job that is due, and when.
    pub(super) fn first(&self) -> Option<(f64, JobId)> {
        self.due.first().map(|(at, job)| (at.0, *job))
    }
}

impl State {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            clock: RoundClock::new(settings.round_s),
            mechanism: Mechanism::new(MechanismConfig::product(settings.round_s)),
            settings,
            now_s: 0.0,
            jobs: BTreeMap::new(),
            admitted: BTreeMap::new(),
            seq_next: 0,
            active: 0,
            unhosted: BTreeSet::new(),
            dependents: BTreeMap::new(),
            leases: BTreeMap::new(),
            reserved: BTreeMap::new(),
            ended: Ended::default(),
            users: BTreeMap::new(),
            cluster: Cluster::default(),
            contention: Contention::default(),
            question: None,
            questions: 0,
            timers: Timers::default(),
            dispatch_due: false,
        }
    }

    /// A user's factor on the weights of its jobs.
    pub(super) fn user_weight(&self, user: &str) -> f64 {
        self.users.get(user).map_or(1.0, |terms| terms.weight)
    }

    /// Most devices that a user's jobs may hold.
    pub(super) fn user_gpus_max(&self, user: &str) -> Option<u32> {
        self.users.get(user).and_then(|terms| terms.gpus_max)
    }

    /// Jobs that compete for what is in service: a job that nothing could run takes nothing from
    /// the others.
    pub(super) fn competing(&self) -> usize {
        self.active.saturating_sub(self.unhosted.len())
    }

    /// The number of competing jobs or of devices has changed.
    pub(super) fn note_contention(&mut self) {
        self.contention.set(self.now_s, self.competing(), self.cluster.gpus());
    }

    /// The devices in service have changed: which jobs they could run.
    pub(super) fn note_hosting(&mut self) {
        // Many jobs ask for few sorts of gangs.
        let mut known: BTreeMap<(u32, &Demand), bool> = BTreeMap::new();
        let mut unhosted = BTreeSet::new();
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.is_active()) {
            let (gpus, demand) = (job.spec.gpus, &job.demand);
            let hosted = known.entry((gpus, demand));
            if !*hosted.or_insert_with(|| self.cluster.could_host(gpus, demand)) {
                unhosted.insert(*id);
            }
        }
        self.unhosted = unhosted;
        self.note_contention();
    }

    /// Looks at a job again when its lease or its waiting time needs it.
    pub(super) fn rearm(&mut self, id: JobId) {
        let at_s = match (self.leases.get(&id), self.jobs.get(&id)) {
            (Some(lease), job) => {
                let limit_s = job.map_or(f64::INFINITY, |job| time_limit_s(job, lease));
                lease.next_s(self.settings.kill_wait_s).min(limit_s)
            }
            (None, Some(job)) if job.not_before_s > self.now_s => job.not_before_s,
            _ => f64::INFINITY,
        };
        self.timers.arm(id, at_s);
    }
}

/// When a running job reaches its time limit, seconds.
pub(super) fn time_limit_s(job: &Job, lease: &Lease) -> f64 {
    match (job.terms.time_limit_s, lease.training_s) {
        (Some(limit_s), Some(since_s)) if lease.is_live() => {
            since_s + (limit_s - job.track.attained_s(since_s)).max(0.0)
        }
        _ => f64::INFINITY,
    }
}
