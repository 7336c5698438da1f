//! What a session tells its coordinator, and hears from it. Without a coordinator nothing of it happens.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::save::SavePoint;
use super::stop::Stop;
use super::{Outcome, Session};
use crate::Error;
use crate::checkpoint::Saved;
use crate::client::{Client, Declaration, DeclaredPolicy, Directive, Event, Position, YieldCause};
use crate::policy::{Decision, PolicyDeclaration};

/// How long the end of a run waits for its events to be acknowledged. They stay on disk beyond that.
const FLUSH: Duration = Duration::from_secs(10);

/// How long before a yield's deadline the process stops waiting.
const BEFORE_DEADLINE: Duration = Duration::from_millis(500);

/// The connection to the coordinator, if there is one.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    client: Option<Client>,
    /// When the process must have ended, once the coordinator asked it to.
    deadline: Option<Instant>,
    /// Who asked the process to end, once somebody did.
    cause: Option<YieldCause>,
}

/// The policy in the protocol's words: the known kinds by their parameters, others by their bounds.
fn declared(policy: &PolicyDeclaration, (min, max): (u64, u64)) -> DeclaredPolicy {
    let within = |batch: u64| batch.clamp(min, max);
    if policy.configurations.len() == 1 {
        return DeclaredPolicy::Static;
    }
    match policy.kind.as_str() {
        "accordion" => {
            DeclaredPolicy::Accordion { small: within(policy.min), large: within(policy.max) }
        }
        "gns" if !policy.can_shrink => {
            DeclaredPolicy::Gns { initial: within(policy.initial), max: within(policy.max) }
        }
        _ if !policy.schedule.is_empty() => {
            DeclaredPolicy::Schedule(policy.schedule.iter().map(|&(e, b)| (e, within(b))).collect())
        }
        _ => DeclaredPolicy::Bounded { min, max },
    }
}

impl Coordinator {
    /// The folder for checkpoints that the environment gives, under a coordinator.
    pub(super) fn checkpoint_folder(&self) -> Option<PathBuf> {
        self.client.as_ref()?;
        let folder = std::env::var_os(shockwave_proto::env::CHECKPOINT_DIR)?;
        (!folder.is_empty()).then(|| PathBuf::from(folder))
    }

    /// The connection that the environment names, if it names one.
    pub(super) fn from_env() -> Result<Self, Error> {
        let client = Client::from_env().map_err(|e| Error::Coordinator(e.to_string()))?;
        Ok(Self { client, deadline: None, cause: None })
    }

    /// The epoch of the lease; 0 without a coordinator.
    pub(super) fn generation(&self) -> u64 {
        self.client.as_ref().and_then(Client::lease).map_or(0, |lease| lease.epoch)
    }

    /// Time left of the lease.
    pub(super) fn lease_left(&self) -> Option<Duration> {
        Some(self.client.as_ref()?.lease()?.ends_in)
    }

    fn report(&self, event: Event) {
        if let Some(client) = &self.client {
            client.report(event);
        }
    }

    /// Whether the coordinator can be spoken with.
    ///
    /// # Errors
    /// It has refused this SDK's protocol.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.client.as_ref().and_then(Client::refusal) {
            Some(reason) => Err(Error::Coordinator(reason)),
            None => Ok(()),
        }
    }

    /// How the session must end now, if the coordinator says so.
    pub(super) fn asked(&self) -> Option<Stop> {
        let (outcome, cause, deadline) = match self.client.as_ref()?.directive() {
            Directive::Run => return None,
            Directive::Yield { deadline, reason } => {
                (Outcome::Yielded { reason }, YieldCause::Yield, Some(deadline))
            }
            Directive::Revoked { reason } => {
                (Outcome::Revoked { reason }, YieldCause::Revoked, None)
            }
            Directive::Park => {
                let reason = "no answer from the coordinator for longer than the lease".into();
                // Whoever did not answer for so long is not waited for: others may be about to run.
                (Outcome::Yielded { reason }, YieldCause::Ttl, Some(Instant::now()))
            }
        };
        Some(Stop { outcome, cause, deadline })
    }

    /// Notes by when the process must have ended, and who asked for it.
    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>, cause: YieldCause) {
        (self.deadline, self.cause) = (deadline, Some(cause));
    }

    /// Who asked the process to end.
    pub(super) fn cause(&self) -> Option<YieldCause> {
        self.cause
    }

    /// Hands over what is not acknowledged yet, for a limited time.
    pub(super) fn close(&mut self) {
        let Some(client) = self.client.take() else { return };
        let until = self.deadline.and_then(|d| d.checked_sub(BEFORE_DEADLINE));
        let timeout =
            until.map_or(FLUSH, |d| d.saturating_duration_since(Instant::now()).min(FLUSH));
        client.close(timeout);
    }
}

impl Session {
    /// Says what the run will do and where it begins.
    pub(super) fn report_start(&self, family: String) {
        let Some(client) = &self.coordinator.client else { return };
        client.declare(Declaration {
            epochs: self.epochs,
            samples_per_epoch: self.sampler.len() as u64,
            initial_batch: self.initial_batch,
            family,
            policy: declared(&self.policy.declare(), self.bounds),
        });
        client.report(Event::Started {
            epoch: self.position.epoch,
            step: self.position.step,
            sample: self.sampler.cursor() as u64,
            batch: self.position.batch,
            device: format!("{:?}", self.device()).to_lowercase(),
            checkpoint_sha256: self.resumed.as_ref().map(|(_, sha256)| sha256.clone()),
        });
    }

    /// Says where training is; the client sends it along with its renewals.
    pub(super) fn report_position(&self) {
        let Some(client) = &self.coordinator.client else { return };
        let seconds = self.stopwatch.seconds();
        let done = self.sampler.cursor() as f64;
        client.set_position(Position {
            epoch: self.position.epoch,
            step: self.position.step,
            sample: self.sampler.cursor() as u64,
            batch: self.position.batch,
            samples_per_s: if seconds > 0.0 { done / seconds } else { 0.0 },
        });
    }

    pub(super) fn report_epoch(&self, loss: f64, grad_norm: f64, noise_scale: Option<f64>) {
        self.coordinator.report(Event::EpochDone {
            epoch: self.position.epoch,
            step: self.position.step,
            batch: self.position.batch,
            samples: self.sampler.len() as u64,
            duration_s: self.stopwatch.seconds(),
            loss: Some(loss),
            metrics: self.metrics.clone(),
            grad_norm: Some(grad_norm),
            noise_scale,
        });
    }

    pub(super) fn report_decision(&self, decision: &Decision, cursor: u64) {
        self.coordinator.report(Event::RegimeChanged {
            epoch: decision.epoch,
            sample: cursor,
            old_batch: decision.old_batch,
            new_batch: decision.new_batch,
            estimate: decision.estimate,
            interval: decision.interval,
            reason: decision.reason.clone(),
        });
    }

    pub(super) fn report_saved(&self, saved: &Saved, point: &SavePoint) {
        let absolute = std::path::absolute(&saved.path).unwrap_or_else(|_| saved.path.clone());
        self.coordinator.report(Event::CheckpointSaved {
            epoch: point.epoch,
            step: point.step,
            uri: absolute.display().to_string(),
            sha256: saved.sha256.clone(),
            sample: point.cursor as u64,
            size_bytes: saved.size_bytes,
            duration_s: point.stood_still.as_secs_f64(),
        });
    }

    pub(super) fn report_yield(&self, cause: YieldCause) {
        let (epoch, step) = (self.position.epoch, self.position.step);
        self.coordinator.report(Event::Yielded { epoch, step, cause });
    }

    pub(super) fn report_finished(&self) {
        let written = self.last_checkpoint().map(|saved| saved.sha256.clone());
        let resumed = self.resumed.as_ref().map(|(_, sha256)| sha256.clone());
        let (step, metrics) = (self.position.step, self.metrics.clone());
        let checkpoint_sha256 = written.or(resumed);
        self.coordinator.report(Event::Finished { step, metrics, checkpoint_sha256 });
    }
}
