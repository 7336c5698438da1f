//! The engine's state as its driver may read it.

use serde::{Deserialize, Serialize};

use super::{Demand, Engine, Settings};
use crate::predictor::Forecast;
use crate::types::{ClusterView, Decision, JobId, JobProgress, JobSpec, NodeInfo, NodeShare};

/// A node and who holds its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node.
    pub info: NodeInfo,
    /// Why nothing new starts on it.
    pub drained: Option<String>,
    /// `(slot, holder)`: job and lease epoch.
    pub slots: Vec<(u32, Option<(JobId, u64)>)>,
}

/// A lease in short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// The job; it may have ended while its processes have not.
    pub job: JobId,
    /// The lease.
    pub lease_epoch: u64,
    /// Devices.
    pub gpus: u32,
    /// When it was granted, seconds.
    pub granted_s: f64,
    /// Until when it holds without renewal, seconds.
    pub expires_s: f64,
    /// Whether nothing takes it back.
    pub live: bool,
}

/// A lease with all that its processes would go on with.
#[derive(Clone, Debug, PartialEq)]
pub struct Holding {
    /// The job; it may have ended while its processes have not.
    pub job: JobId,
    /// The lease.
    pub lease_epoch: u64,
    /// Devices on nodes whose processes are not known to be gone, the chief's first.
    pub parts: Vec<NodeShare>,
    /// Until when it holds without renewal, seconds.
    pub expires_s: f64,
    /// Whether the gang trains (it may still come up).
    pub training: bool,
    /// Whether it was asked for its devices.
    pub yielding: bool,
    /// Whether its processes are being killed.
    pub killing: bool,
}

impl Engine {
    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// Name of the policy.
    #[must_use]
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// What the policy remembers.
    #[must_use]
    pub fn policy_memory(&self) -> String {
        self.policy.memory()
    }

    /// Time of the last event, seconds.
    #[must_use]
    pub fn now_s(&self) -> f64 {
        self.state.now_s
    }

    /// Index of the round that goes on.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.state.clock.round
    }

    /// When the next round begins, seconds.
    #[must_use]
    pub fn boundary_s(&self) -> f64 {
        self.state.clock.boundary_s()
    }

    /// When the engine wants to be called with [`super::Event::Tick`] if nothing else happens
    /// before, seconds; after a call this lies in the future. `None`: nothing is due.
    #[must_use]
    pub fn wake_s(&self) -> Option<f64> {
        self.next_due().map(|(at_s, _)| at_s)
    }

    /// Devices in service.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.state.cluster.gpus()
    }

    /// Jobs that have not ended, in order of admission.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.state.admitted.values().copied()
    }

    /// Devices that each queued or running job asks for, and of what sort.
    pub fn wanted(&self) -> impl Iterator<Item = (u32, &Demand)> + '_ {
        let jobs = self.state.jobs.values().filter(|job| job.is_active());
        jobs.map(|job| (job.spec.gpus, &job.demand))
    }

    /// Jobs that are queued or running.
    #[must_use]
    pub fn active_jobs(&self) -> usize {
        self.state.active
    }

    /// What is declared of a job that has not ended.
    #[must_use]
    pub fn spec(&self, job: JobId) -> Option<&JobSpec> {
        self.state.jobs.get(&job).map(|job| &job.spec)
    }

    /// Where a job that has not ended stands.
    #[must_use]
    pub fn progress(&self, job: JobId) -> Option<JobProgress> {
        self.state.jobs.get(&job).map(|job| self.progress_of(job, self.state.now_s))
    }

    /// Every lease, those of ended jobs included as long as their processes are not gone.
    pub fn leases(&self) -> impl Iterator<Item = LeaseStatus> + '_ {
        self.state.leases.values().map(status_of)
    }

    /// The lease of a job, if it has one.
    #[must_use]
    pub fn lease(&self, job: JobId) -> Option<LeaseStatus> {
        self.state.leases.get(&job).map(status_of)
    }

    /// Every lease with its devices.
    pub fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        self.state.leases.values().map(|lease| Holding {
            job: lease.job,
            lease_epoch: lease.epoch,
            parts: (lease.placement.parts.iter())
                .filter(|part| lease.parts.contains(&part.node))
                .cloned()
                .collect(),
            expires_s: lease.expires_s,
            training: lease.training_s.is_some(),
            yielding: lease.yielding.is_some(),
            killing: lease.killing.is_some(),
        })
    }

    /// The forecast for the rest of a job that has not ended.
    #[must_use]
    pub fn forecast(&self, job: JobId) -> Option<Forecast> {
        let job = self.state.jobs.get(&job)?;
        let progress = self.progress_of(job, self.state.now_s);
        Some(self.predictor.forecast(&job.spec, &progress))
    }

    /// What a start and a yield have cost on average so far, seconds, as measured on the jobs that
    /// have not ended; `None` for what was never measured.
    #[must_use]
    pub fn measured_costs_s(&self) -> (Option<f64>, Option<f64>) {
        let mean = |values: Vec<f64>| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let jobs = || self.state.jobs.values();
        let starts = jobs().filter_map(|job| job.start_s).collect();
        (mean(starts), mean(jobs().filter_map(|job| job.yield_s).collect()))
    }

    /// The account of a user: budget factor, and cap on devices.
    #[must_use]
    pub fn user_terms(&self, user: &str) -> (f64, Option<u32>) {
        (self.state.user_weight(user), self.state.user_gpus_max(user))
    }

    /// Every node.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let nodes = self.state.cluster.nodes.values();
        nodes
            .map(|node| NodeStatus {
                info: node.info.clone(),
                drained: node.drained.clone(),
                slots: node.holders().collect(),
            })
            .collect()
    }

    /// The decision in force.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.state.mechanism.decision()
    }

    /// What a policy would see now.
    #[must_use]
    pub fn cluster_view(&self) -> ClusterView {
        self.view_now().0
    }
}

fn status_of(lease: &super::lease::Lease) -> LeaseStatus {
    LeaseStatus {
        job: lease.job,
        lease_epoch: lease.epoch,
        gpus: lease.placement.gpus(),
        granted_s: lease.granted_s,
        expires_s: lease.expires_s,
        live: lease.is_live(),
    }
}
