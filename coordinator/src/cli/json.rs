//! What commands print for programs: JSON with a version. Fields are only ever added.

use std::collections::BTreeMap;

use serde::Serialize;
use shockwave_proto::v1;
use shockwave_proto::v1::declaration::Policy;

use super::connect::CliError;

/// Version of every JSON object that a command prints.
pub const VERSION: u32 = 1;

/// A job.
#[derive(Debug, Serialize)]
pub struct Job {
    /// Number.
    pub id: u64,
    /// Name.
    pub name: String,
    /// State: queued, starting, running, yielding, held, finished, failed, cancelled.
    pub state: &'static str,
    /// Why it is in this state.
    pub reason: String,
    /// Account that submitted it.
    pub user: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Devices that it needs together.
    pub gpus: u32,
    /// Processes.
    pub workers: u32,
    /// Market budget relative to other jobs.
    pub weight: f64,
    /// Batch size policy: static, accordion, gns, schedule, bounded; none for a plain command.
    pub policy: Option<&'static str>,
    /// Epochs that it will train; none for a plain command.
    pub epochs: Option<u32>,
    /// Epochs, whole and part, that it has trained.
    pub epochs_done: f64,
    /// Optimiser steps that it has done.
    pub step: Option<u64>,
    /// Batch size now, samples.
    pub batch: Option<u32>,
    /// Regimes so far.
    pub regimes: Vec<Regime>,
    /// Leases so far.
    pub leases: u64,
    /// Times that it gave devices back before its end.
    pub preemptions: u32,
    /// Submission, seconds since 1970.
    pub submitted_unix_s: f64,
    /// First start, seconds since 1970.
    pub started_unix_s: Option<f64>,
    /// End, seconds since 1970.
    pub ended_unix_s: Option<f64>,
    /// From submission to end, seconds.
    pub jct_s: Option<f64>,
    /// Finish-time fairness: measured once ended, forecast before.
    pub rho: Option<f64>,
    /// Whether it has had so little service (less than two rounds) that `rho` says little.
    pub rho_says_little: bool,
    /// Service time received, seconds.
    pub attained_s: f64,
    /// Time to its end.
    pub eta: Option<Eta>,
    /// Metrics of the last epoch or of the end.
    pub metrics: BTreeMap<String, f64>,
    /// Newest committed checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Digest of the final checkpoint.
    pub checkpoint_sha256: Option<String>,
    /// Exit code of its last process.
    pub exit_code: Option<i32>,
    /// What went wrong last with one of its leases; none once it has ended.
    pub last_failure: Option<String>,
    /// Devices that it holds: `NODE/INDEX`.
    pub devices: Vec<String>,
}

/// A phase of constant batch size.
#[derive(Debug, Serialize)]
pub struct Regime {
    /// Batch size, samples.
    pub batch: u32,
    /// Epochs, whole and part, trained in it.
    pub epochs: f64,
    /// Measured duration of an epoch, seconds.
    pub epoch_s: Option<f64>,
}

/// Time to the end of a job, seconds; four in five jobs end between `low_s` and `high_s`.
#[derive(Debug, Serialize)]
pub struct Eta {
    /// Expectation.
    pub mean_s: f64,
    /// One in ten jobs ends before it.
    pub low_s: f64,
    /// One in ten jobs ends after it.
    pub high_s: f64,
    /// Intervals given for jobs that have finished which held their end.
    pub past_held: u64,
    /// Intervals given for jobs that have finished.
    pub past_given: u64,
}

/// A checkpoint.
#[derive(Debug, Serialize)]
pub struct Checkpoint {
    /// Optimiser steps that it holds.
    pub step: u64,
    /// Where it lies.
    pub uri: String,
    /// Digest of its content.
    pub sha256: String,
}

/// Name of a state.
#[must_use]
pub fn state_name(state: v1::JobState) -> &'static str {
    match state {
        v1::JobState::Unspecified => "unknown",
        v1::JobState::Queued => "queued",
        v1::JobState::Starting => "starting",
        v1::JobState::Running => "running",
        v1::JobState::Yielding => "yielding",
        v1::JobState::Held => "held",
        v1::JobState::Finished => "finished",
        v1::JobState::Failed => "failed",
        v1::JobState::Cancelled => "cancelled",
    }
}

/// Whether a job in this state has ended.
#[must_use]
pub fn has_ended(state: v1::JobState) -> bool {
    matches!(state, v1::JobState::Finished | v1::JobState::Failed | v1::JobState::Cancelled)
}

fn policy_name(policy: &Policy) -> &'static str {
    match policy {
        Policy::Static(_) => "static",
        Policy::Accordion(_) => "accordion",
        Policy::Gns(_) => "gns",
        Policy::Schedule(_) => "schedule",
        Policy::Bounded(_) => "bounded",
    }
}

impl From<v1::JobInfo> for Job {
    fn from(info: v1::JobInfo) -> Self {
        let state = state_name(info.state());
        let request = info.request.unwrap_or_default();
        let declaration = request.declaration.as_ref();
        let policy = declaration.map(|it| it.policy.as_ref().map_or("static", policy_name));
        let samples = declaration.map_or(0, |it| it.samples_per_epoch);
        let position = info.position;
        let epochs_done = position.map_or(0.0, |it| {
            let part = if samples == 0 { 0.0 } else { it.sample as f64 / samples as f64 };
            f64::from(it.epoch) + part
        });
        let regime = |it: &v1::RegimeInfo| Regime {
            batch: it.batch,
            epochs: it.epochs_trained,
            epoch_s: it.epoch_s,
        };
        Self {
            id: info.id,
            state,
            reason: info.reason,
            user: info.user,
            gpus: request.gpus,
            workers: request.workers,
            weight: request.weight,
            policy,
            epochs: declaration.map(|it| it.epochs_total),
            epochs_done,
            step: position.map(|it| it.step),
            batch: position.map(|it| it.batch).filter(|&batch| batch > 0),
            regimes: info.regimes.iter().map(regime).collect(),
            leases: info.lease_epoch,
            preemptions: info.preemptions,
            submitted_unix_s: info.submitted_unix_s,
            started_unix_s: info.started_unix_s,
            ended_unix_s: info.ended_unix_s,
            jct_s: info.jct_s,
            rho: info.rho,
            rho_says_little: info.rho_says_little,
            attained_s: info.attained_s,
            eta: info.eta.map(|it| Eta {
                mean_s: it.mean_s,
                low_s: it.low_s,
                high_s: it.high_s,
                past_held: it.past_held,
                past_given: it.past_given,
            }),
            metrics: info.metrics,
            checkpoint: info.checkpoint.map(|it| Checkpoint {
                step: it.step,
                uri: it.uri,
                sha256: it.sha256,
            }),
            checkpoint_sha256: Some(info.checkpoint_sha256).filter(|it| !it.is_empty()),
            last_failure: Some(info.last_failure).filter(|it| !it.is_empty()),
            exit_code: info.exit_code,
            devices: info.devices.iter().map(|it| format!("{}/{}", it.node, it.index)).collect(),
            name: request.name,
            command: request.command,
        }
    }
}

/// Prints `{"version": 1, NAME: VALUE}` on one line.
///
/// # Errors
/// When standard output is closed.
pub fn print(name: &str, value: &impl Serialize) -> Result<(), CliError> {
    let value = serde_json::to_value(value);
    let value = value.map_err(|error| CliError::Failed(error.to_string()))?;
    super::table::print_raw(&serde_json::json!({ "version": VERSION, name: value }).to_string())
}
