//! Why a job runs or waits.

use serde::{Deserialize, Serialize};

use super::{Engine, job::Job, lease::Lease, prospects::Prospects};
use crate::types::{Checkpoint, JobId, NodeId, Placement};

/// What a job does, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Standing {
    /// It waits for other jobs to finish.
    Blocked {
        /// Those jobs.
        on: Vec<JobId>,
    },
    /// It is on hold.
    Held,
    /// A failure is behind it; it is tried again after a while.
    BackingOff {
        /// Not before this time, seconds.
        until_s: f64,
        /// What happened.
        why: String,
    },
    /// No part of the cluster could run it, even alone.
    TooLarge {
        /// Devices in service.
        gpus: u32,
    },
    /// It waits for devices.
    Queued {
        /// Jobs that are offered devices before it.
        ahead: usize,
        /// Devices that those ask for together.
        gpus_ahead: u32,
        /// Whether its user's cap is what keeps it back.
        user_cap: bool,
        /// Rounds for which the plan has it.
        planned: Vec<u64>,
    },
    /// Its devices are fixed; it starts when their last user has released them.
    Starting {
        /// The devices.
        placement: Placement,
    },
    /// It has its gang.
    Running {
        /// The devices.
        placement: Placement,
        /// Its lease.
        lease_epoch: u64,
        /// Since when it has them, seconds.
        since_s: f64,
        /// Whether it trains already.
        training: bool,
        /// When it is asked to yield, if that is decided, seconds.
        yields_s: Option<f64>,
        /// Rounds for which the plan has it.
        planned: Vec<u64>,
    },
    /// It was asked for its devices back.
    Yielding {
        /// The lease.
        lease_epoch: u64,
        /// When it is killed, seconds.
        deadline_s: f64,
        /// Why.
        reason: super::YieldReason,
    },
    /// Its lease was not renewed, or its node is away: it goes on elsewhere when nothing can be
    /// left of it.
    OutOfReach {
        /// The lease.
        lease_epoch: u64,
        /// At the latest, seconds.
        over_s: f64,
        /// Nodes that are away.
        nodes: Vec<NodeId>,
    },
}

/// Why a job runs or waits: the answer to `explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The job.
    pub job: JobId,
    /// The moment, seconds.
    pub now_s: f64,
    /// What it does.
    pub standing: Standing,
    /// Market budget: its weight times its user's.
    pub budget: f64,
    /// Estimated finish-time fairness (eq. 9): above 1, it is behind its fair share.
    pub rho_hat: Option<f64>,
    /// Contention that it has seen on average (N_avg of eq. 9).
    pub contention_mean: f64,
    /// Contention now.
    pub contention: f64,
    /// Progress and prospects.
    pub progress: Progress,
    /// The newest checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Failures in a row, and what the last one was.
    pub failures: u32,
    /// The last failure.
    pub last_failure: Option<String>,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Training epochs (whole and part) done.
    pub epochs_done: f64,
    /// Training epochs in all.
    pub epochs_total: u32,
    /// Batch size, samples.
    pub batch: u32,
    /// Service time, seconds.
    pub attained_s: f64,
    /// Remaining service time as forecast, seconds.
    pub left_s: Option<f64>,
}

impl Engine {
    /// Why a job runs or waits; `None` for a job that has ended or never was.
    #[must_use]
    pub fn explain(&self, id: JobId) -> Option<Explanation> {
        self.state.jobs.get(&id)?;
        self.explain_by(id, &self.prospects())
    }

    /// The same with what [`Engine::prospects`] has found, for many jobs.
    #[must_use]
    pub fn explain_by(&self, id: JobId, prospects: &Prospects) -> Option<Explanation> {
        let state = &self.state;
        let job = state.jobs.get(&id)?;
        let now_s = state.now_s;
        let progress = self.progress_of(job, now_s);
        let forecast = self.predictor.forecast(&job.spec, &progress);
        let left_s = Some(forecast.left_s).filter(|left| left.is_finite());
        let fair_s = forecast.total_s * progress.contention_mean;
        let rho_hat = (fair_s.is_finite() && fair_s > 0.0).then(|| {
            let left_s = forecast.left_s * progress.contention_mean;
            (job.seen.active_s(now_s) + left_s) / fair_s
        });
        Some(Explanation {
            job: id,
            now_s,
            standing: self.standing(job, prospects),
            budget: self.weight_of(job),
            rho_hat,
            contention_mean: progress.contention_mean,
            contention: state.competing() as f64 / f64::from(state.cluster.gpus().max(1)),
            progress: Progress {
                epochs_done: progress.epochs_done(),
                epochs_total: job.spec.epochs_total,
                batch: job.track.batch().unwrap_or(job.spec.initial_batch),
                attained_s: progress.attained_s,
                left_s,
            },
            checkpoint: job.checkpoint.clone(),
            failures: job.failures,
            last_failure: job.last_failure.clone(),
        })
    }

    /// The first jobs that are offered devices before a job, at most `most`.
    #[must_use]
    pub fn before(&self, id: JobId, most: usize) -> Vec<JobId> {
        self.precedence().into_iter().take_while(|other| *other != id).take(most).collect()
    }

    fn standing(&self, job: &Job, prospects: &Prospects) -> Standing {
        let state = &self.state;
        let id = job.spec.id;
        if let Some(lease) = state.leases.get(&id) {
            return self.standing_leased(lease, prospects);
        }
        if job.held {
            Standing::Held
        } else if !job.after.is_empty() {
            Standing::Blocked { on: job.after.clone() }
        } else if job.not_before_s > state.now_s {
            let why = job.last_failure.clone().unwrap_or_default();
            Standing::BackingOff { until_s: job.not_before_s, why }
        } else if let Some(placement) = state.reserved.get(&id) {
            Standing::Starting { placement: placement.clone() }
        } else if state.unhosted.contains(&id) {
            Standing::TooLarge { gpus: state.cluster.gpus() }
        } else {
            self.standing_queued(job, prospects)
        }
    }

    fn standing_queued(&self, job: &Job, prospects: &Prospects) -> Standing {
        let (ahead, gpus_ahead) = prospects.ahead(job.spec.id);
        let held = prospects.held(&job.user);
        let cap = self.state.user_gpus_max(&job.user);
        Standing::Queued {
            ahead,
            gpus_ahead,
            user_cap: cap.is_some_and(|cap| held + job.spec.gpus > cap),
            planned: prospects.planned(job.spec.id),
        }
    }

    fn standing_leased(&self, lease: &Lease, prospects: &Prospects) -> Standing {
        let lease_epoch = lease.epoch;
        if lease.expired || self.is_out_of_reach(lease) {
            let nodes = &self.state.cluster.nodes;
            let away = lease.parts.iter().filter(|part| !nodes.contains_key(part));
            let nodes = away.cloned().collect();
            let over_s = lease.over_s() + self.state.settings.kill_wait_s;
            return Standing::OutOfReach { lease_epoch, over_s, nodes };
        }
        match &lease.yielding {
            Some(yielding) => Standing::Yielding {
                lease_epoch,
                deadline_s: yielding.deadline_s,
                reason: yielding.reason.clone(),
            },
            None => Standing::Running {
                placement: lease.placement.clone(),
                lease_epoch,
                since_s: lease.granted_s,
                training: lease.training_s.is_some(),
                yields_s: lease.yield_at.as_ref().map(|planned| planned.0),
                planned: prospects.planned(lease.job),
            },
        }
    }
}
