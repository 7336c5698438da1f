//! The engine by example: one fact after the other, and what it orders.

#![allow(clippy::unwrap_used)]

mod eta;
mod faults;
mod jobs;
mod leases;
mod restart;
mod rounds;

use super::*;
use crate::{
    policies::{Policy, Replan},
    predictor::{Forecast, Predictor, RegimeForecast, RunTime},
    types::{
        Adaptation, ClusterView, Decision, DeviceInfo, JobId, JobProgress, JobSpec, NodeId,
        NodeInfo,
    },
};

/// Gives GPUs to the job that has had the least service, before every round.
pub(super) struct LeastServed;

impl Policy for LeastServed {
    fn name(&self) -> &'static str {
        "least-served"
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let mut jobs: Vec<_> = view.jobs.iter().collect();
        let served = |job: &crate::types::JobView| job.attained_s / job.weight;
        jobs.sort_by(|a, b| served(a).total_cmp(&served(b)));
        Decision::Order(jobs.iter().map(|job| job.id).collect())
    }
}

/// Expects every epoch to take as long as the last one, 10 s at first.
pub(super) struct Same;

impl Predictor for Same {
    fn name(&self) -> &'static str {
        "same"
    }

    fn finished(&mut self, _: &JobSpec, _: &JobProgress) {}

    fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast {
        let epochs = f64::from(spec.epochs_total) - progress.epochs_done();
        let epoch_s = progress.regimes.last().and_then(|r| r.epoch_s).unwrap_or(10.0);
        let left_s = epochs * epoch_s;
        Forecast {
            regimes: vec![RegimeForecast { batch: spec.initial_batch, epochs, epoch_s }],
            left_s,
            left_sd_s: 0.1 * left_s,
            left_upper_s: 1.2 * left_s,
            total_s: progress.attained_s + left_s,
            left: RunTime::from_moments(left_s, 0.1 * left_s, 0.5 * left_s, 1.5 * left_s),
        }
    }

    fn sample(
        &self,
        spec: &JobSpec,
        progress: &JobProgress,
        count: usize,
        _: u64,
    ) -> Vec<Vec<RegimeForecast>> {
        vec![self.forecast(spec, progress).regimes; count]
    }
}

/// An engine, its clock, and what it has said since the last look.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) now_s: f64,
    said: Vec<Action>,
}

pub(super) fn settings() -> Settings {
    Settings { round_s: 100.0, ttl_s: 130.0, min_run_s: 20.0, lead_s: 10.0, ..Settings::default() }
}

pub(super) fn node(name: &str) -> NodeId {
    NodeId(name.into())
}

impl World {
    /// Nodes named a, b, ... with so many devices.
    pub(super) fn new(nodes: &[u32]) -> Self {
        Self::with(settings(), nodes)
    }

    pub(super) fn with(settings: Settings, nodes: &[u32]) -> Self {
        let engine = Engine::new(settings, Box::new(LeastServed), Box::new(Same)).unwrap();
        let mut world = Self { engine, now_s: 0.0, said: Vec::new() };
        for (name, devices) in ["a", "b", "c", "d"].iter().zip(nodes) {
            world.join(name, *devices, Vec::new());
        }
        world
    }

    pub(super) fn join(&mut self, name: &str, devices: u32, keeps: Vec<KeptWorker>) {
        let device = |slot| DeviceInfo { slot, kind: "gpu".into(), memory_bytes: 0 };
        let devices = (0..devices).map(device).collect();
        let node = NodeInfo { node: node(name), devices, until_s: None };
        self.tell(Event::NodeJoined { node, keeps });
    }

    pub(super) fn tell(&mut self, event: Event) {
        let actions = self.engine.handle(event, self.now_s);
        self.said.extend(actions);
    }

    /// Lets time pass, ticking when the engine wants it.
    pub(super) fn until(&mut self, at_s: f64) {
        while let Some(wake_s) = self.engine.wake_s().filter(|wake_s| *wake_s <= at_s) {
            self.now_s = self.now_s.max(wake_s);
            self.tell(Event::Tick);
        }
        self.now_s = at_s;
        self.tell(Event::Tick);
        // A driver that is asked to wake at a time that has passed would spin.
        assert!(self.engine.wake_s().is_none_or(|wake_s| wake_s > at_s), "{at_s}");
    }

    /// Lets time pass while every worker renews.
    pub(super) fn train_until(&mut self, at_s: f64) {
        while self.now_s < at_s {
            let leases: Vec<_> = self.engine.leases().filter(|lease| lease.live).collect();
            for lease in leases {
                let (job, lease_epoch) = (lease.job, lease.lease_epoch);
                self.tell(Event::LeaseRenewed { job, lease_epoch, epochs_done: None });
            }
            self.until((self.now_s + 30.0).min(at_s));
        }
    }

    pub(super) fn submission(id: u64, gpus: u32) -> Submission {
        Submission {
            spec: JobSpec {
                id: JobId(id),
                gpus,
                weight: 1.0,
                arrival_s: 0.0,
                epochs_total: 100,
                samples_per_epoch: 1000,
                initial_batch: 32,
                adaptation: Adaptation::Static,
                family: String::new(),
            },
            user: String::new(),
            demand: Demand::default(),
            terms: Terms::default(),
            after: Vec::new(),
            held: false,
        }
    }

    pub(super) fn submit(&mut self, id: u64, gpus: u32) {
        self.tell(Event::JobSubmitted(Box::new(Self::submission(id, gpus))));
    }

    /// The job's worker trains.
    pub(super) fn started(&mut self, id: u64, lease_epoch: u64) {
        self.tell(Event::WorkerStarted { job: JobId(id), lease_epoch, epochs_done: 0.0 });
    }

    pub(super) fn checkpoint(&mut self, id: u64, lease_epoch: u64, epochs_done: f64) {
        self.tell(Event::CheckpointSaved {
            job: JobId(id),
            lease_epoch,
            step: (epochs_done * 1000.0) as u64,
            epochs_done,
            uri: format!("file:///{id}/{epochs_done}"),
            sha256: "00".into(),
        });
    }

    pub(super) fn gone(&mut self, id: u64, lease_epoch: u64, on: &str, reason: ReleaseReason) {
        self.tell(Event::Released { job: JobId(id), lease_epoch, node: node(on), reason });
    }

    /// What was said since the last look.
    pub(super) fn said(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.said)
    }

    /// Starts, yields, kills, revocations, ends and refusals since the last look, in short.
    pub(super) fn orders(&mut self) -> Vec<String> {
        self.said().iter().filter_map(short).collect()
    }
}

fn short(action: &Action) -> Option<String> {
    Some(match action {
        Action::StartLease { lease, resume } => {
            let parts = lease.placement.parts.iter().map(|part| {
                let slots: Vec<String> = part.slots.iter().map(u32::to_string).collect();
                format!("{}{}", part.node, slots.join("+"))
            });
            let at = resume.as_ref().map_or(String::new(), |c| format!(" from {}", c.epochs_done));
            format!(
                "start {}.{} on {}{at}",
                lease.job,
                lease.epoch,
                parts.collect::<Vec<_>>().join(",")
            )
        }
        Action::YieldBy { job, lease_epoch, deadline_s, .. } => {
            format!("yield {job}.{lease_epoch} by {deadline_s}")
        }
        Action::Kill { job, lease_epoch, reason, .. } => {
            format!("kill {job}.{lease_epoch}: {reason:?}")
        }
        Action::RevokeLease { job, lease_epoch } => format!("revoke {job}.{lease_epoch}"),
        Action::JobEnded { job, outcome, .. } => format!("end {job}: {outcome:?}"),
        Action::JobRetried { job, why, not_before_s, .. } => {
            format!("retry {job} at {not_before_s}: {why}")
        }
        Action::NodeSetAside { node, .. } => format!("set aside {node}"),
        Action::Refused { job, reason } => {
            format!("refuse {}: {reason}", job.map_or_else(|| "-".into(), |job| job.to_string()))
        }
        _ => return None,
    })
}
