//! The engine's single entrance.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::time::NOW_MOST_S;
use super::{Action, Event, Planning, Refusal, Settings, SettingsError, clock::Step, state::State};
use crate::{
    policies::Policy,
    predictor::Predictor,
    types::{JobId, MemoryError},
};

/// The scheduler of one cluster.
pub struct Engine {
    pub(super) state: State,
    pub(super) policy: Box<dyn Policy>,
    pub(super) predictor: Box<dyn Predictor>,
}

/// The whole of an engine as data. Its content is the engine's own business; it is only written
/// and read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    version: u32,
    policy: String,
    policy_memory: String,
    predictor: String,
    predictor_memory: String,
    state: State,
}

/// Layout of [`Snapshot`].
const SNAPSHOT_VERSION: u32 = 1;

/// A snapshot that cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Another layout.
    #[error("snapshot has layout {got}, expected {SNAPSHOT_VERSION}")]
    Version {
        /// The snapshot's.
        got: u32,
    },
    /// The policy or the predictor is another one.
    #[error("snapshot was made with {made_with}, not with {given}")]
    Other {
        /// The snapshot's.
        made_with: String,
        /// What was given.
        given: String,
    },
    /// Its memory cannot be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// One call of [`Engine::handle`].
pub(super) struct Turn {
    pub(super) now_s: f64,
    pub(super) out: Vec<Action>,
    /// Jobs whose timers may have changed.
    pub(super) touched: Vec<JobId>,
    /// Jobs that may be able to start on what is reserved for them: devices were given back.
    pub(super) freed: BTreeSet<JobId>,
}

impl Turn {
    pub(super) fn touch(&mut self, job: JobId) {
        if self.touched.last() != Some(&job) {
            self.touched.push(job);
        }
    }

    pub(super) fn refuse(&mut self, job: impl Into<Option<JobId>>, reason: Refusal) {
        self.out.push(Action::Refused { job: job.into(), reason });
    }
}

impl Engine {
    /// An engine without nodes and jobs.
    ///
    /// # Errors
    /// [`SettingsError`] names the first setting that cannot be.
    pub fn new(
        settings: Settings,
        policy: Box<dyn Policy>,
        predictor: Box<dyn Predictor>,
    ) -> Result<Self, SettingsError> {
        settings.validate()?;
        Ok(Self { state: State::new(settings), policy, predictor })
    }

    /// Takes in one event that happens at `now_s` (seconds on the driver's clock, from 0; a time
    /// before the last event's counts as that one, one beyond [`NOW_MOST_S`] as that) and says what
    /// is to be done.
    ///
    /// Whatever is due by `now_s` is done first. Never fails: an event that cannot be is answered
    /// with [`Action::Refused`].
    pub fn handle(&mut self, event: Event, now_s: f64) -> Vec<Action> {
        if now_s.is_finite() && now_s > self.state.now_s {
            self.state.now_s = now_s.min(NOW_MOST_S);
        }
        let mut turn = Turn {
            now_s: self.state.now_s,
            out: Vec::new(),
            touched: Vec::new(),
            freed: BTreeSet::new(),
        };
        if matches!(event, Event::Started) {
            self.on_started(&mut turn);
        }
        self.advance(&mut turn);
        self.take_in(event, &mut turn);
        self.dispatch(&mut turn);
        self.ask_early(&mut turn);
        self.rearm(&mut turn);
        turn.out
    }

    /// Everything as data.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            version: SNAPSHOT_VERSION,
            policy: self.policy.name().to_owned(),
            policy_memory: self.policy.memory(),
            predictor: self.predictor.name().to_owned(),
            predictor_memory: self.predictor.memory(),
            state: self.state.clone(),
        }
    }

    /// The engine of a snapshot. Policy and predictor are new ones of the same kind and parameters.
    ///
    /// # Errors
    /// [`RestoreError`] when the snapshot is of another layout, policy or predictor.
    pub fn restore(
        snapshot: Snapshot,
        mut policy: Box<dyn Policy>,
        mut predictor: Box<dyn Predictor>,
    ) -> Result<Self, RestoreError> {
        if snapshot.version != SNAPSHOT_VERSION {
            return Err(RestoreError::Version { got: snapshot.version });
        }
        for (made_with, given) in
            [(snapshot.policy, policy.name()), (snapshot.predictor, predictor.name())]
        {
            if made_with != given {
                return Err(RestoreError::Other { made_with, given: given.to_owned() });
            }
        }
        policy.recall(&snapshot.policy_memory)?;
        predictor.recall(&snapshot.predictor_memory)?;
        Ok(Self { state: snapshot.state, policy, predictor })
    }

    fn take_in(&mut self, event: Event, turn: &mut Turn) {
        match event {
            Event::Started | Event::Tick => {}
            Event::JobSubmitted(submission) => self.on_submitted(*submission, turn),
            Event::JobDeclared { job, declaration } => self.on_declared(job, &declaration, turn),
            Event::JobCancelled { job, why } => self.on_cancelled(job, why, turn),
            Event::JobHeld { job } => self.on_held(job, turn),
            Event::JobReleased { job } => self.on_released_by_user(job, turn),
            Event::WeightChanged { job, weight } => self.on_weight(job, weight, turn),
            Event::UserChanged { user, weight, gpus_max } => {
                self.on_user(user, weight, gpus_max, turn);
            }
            Event::NodeJoined { node, keeps } => self.on_node_joined(node, &keeps, turn),
            Event::NodeLost { node, processes_gone, .. } => {
                self.on_node_lost(&node, processes_gone, turn);
            }
            Event::NodeLeft { node } => self.on_node_left(&node, turn),
            Event::NodeDrained { node, why } => self.on_node_drained(&node, why, turn),
            Event::NodeResumed { node } => self.on_node_resumed(&node, turn),
            Event::Planned(answer) => self.on_planned(*answer, turn),
            worker => self.take_in_worker(worker, turn),
        }
    }

    fn take_in_worker(&mut self, event: Event, turn: &mut Turn) {
        match event {
            Event::WorkerStarted { job, lease_epoch, epochs_done } => {
                self.on_worker_started(job, lease_epoch, epochs_done, turn);
            }
            Event::EpochDone { job, lease_epoch, epochs, batch, duration_s } => {
                self.on_epoch(job, lease_epoch, (epochs, batch, duration_s), turn);
            }
            Event::RegimeChanged { job, lease_epoch, epochs_done, batch } => {
                self.on_regime(job, lease_epoch, epochs_done, batch, turn);
            }
            Event::CheckpointSaved { job, lease_epoch, step, epochs_done, uri, sha256 } => {
                let checkpoint =
                    crate::types::Checkpoint { lease_epoch, step, epochs_done, uri, sha256 };
                self.on_checkpoint(job, checkpoint, turn);
            }
            Event::LeaseRenewed { job, lease_epoch, epochs_done } => {
                self.on_renewed(job, lease_epoch, epochs_done, turn);
            }
            Event::Released { job, lease_epoch, node, reason } => {
                self.on_released(job, lease_epoch, &node, reason, turn);
            }
            Event::Finished { job, lease_epoch, step } => {
                self.on_finished(job, lease_epoch, step, turn);
            }
            Event::Failed { job, lease_epoch, why, retry } => {
                self.on_failed(job, lease_epoch, why, retry, turn);
            }
            _ => {}
        }
    }

    /// Does what is due, in order of time.
    fn advance(&mut self, turn: &mut Turn) {
        while let Some((at_s, due)) = self.next_due().filter(|(at_s, _)| *at_s <= turn.now_s) {
            match due {
                Due::Job(job) => self.on_job_timer(job, turn),
                Due::Round(step) => self.on_round_step(step, at_s, turn),
            }
            self.rearm(turn);
        }
    }

    /// What is due next, and when.
    pub(super) fn next_due(&self) -> Option<(f64, Due)> {
        let settings = &self.state.settings;
        let ask_lead_s = match settings.planning {
            Planning::Inline => None,
            Planning::Beside => Some(settings.lead_s + settings.plan_budget_s),
        };
        let step = self.state.clock.next(settings.lead_s, ask_lead_s);
        let job = self.state.timers.first();
        match (step, job) {
            (Some((step_s, _)), Some((job_s, job))) if job_s < step_s => {
                Some((job_s, Due::Job(job)))
            }
            (Some((step_s, step)), _) => Some((step_s, Due::Round(step))),
            (None, Some((job_s, job))) => Some((job_s, Due::Job(job))),
            (None, None) => None,
        }
    }

    fn rearm(&mut self, turn: &mut Turn) {
        for job in turn.touched.drain(..) {
            self.state.rearm(job);
        }
    }
}

/// What is due next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    Job(JobId),
    Round(Step),
}
