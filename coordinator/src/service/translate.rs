//! Between the protocol's words and the engine's.

use shockwave_core::engine::{self, ReleaseReason, YieldReason};
use shockwave_core::types::{Adaptation, DeviceInfo, JobId, JobSpec, NodeId};
use shockwave_proto::v1;
use shockwave_proto::v1::declaration::Policy;

use super::book::Job;

/// Samples in an epoch of a job that declares nothing: such a job counts as one epoch.
const UNDECLARED_SAMPLES: u64 = 1;

/// Longer than any job runs, seconds.
const NEVER_S: f64 = 1e10;

/// A job as the engine takes it.
#[must_use]
pub fn submission(id: u64, user: &str, request: &v1::JobRequest, now_s: f64) -> engine::Submission {
    let spec = JobSpec {
        id: JobId(id),
        gpus: request.gpus.max(1),
        weight: if request.weight > 0.0 { request.weight } else { 1.0 },
        arrival_s: now_s,
        epochs_total: 1,
        samples_per_epoch: UNDECLARED_SAMPLES,
        initial_batch: 1,
        adaptation: Adaptation::Static,
        family: String::new(),
    };
    let declared = request.declaration.as_ref();
    let spec = declared.map_or(spec.clone(), |it| declaration(it).refine(&spec));
    // A program that was started by hand speaks the SDK's protocol, or it could not be attached.
    let plain = declared.is_none() && request.attached.is_none();
    let terms = engine::Terms {
        grace_s: (request.grace_s > 0.0).then_some(request.grace_s),
        retries: Some(request.retries),
        time_limit_s: (request.time_limit_s > 0.0).then_some(request.time_limit_s),
        exit_zero_finishes: plain,
        // A plain command cannot yield: what it has done would be lost. One that turns out to speak
        // the SDK's protocol is treated as such from then on.
        min_run_s: plain.then_some(NEVER_S),
        ..engine::Terms::default()
    };
    let demand = engine::Demand {
        // One process cannot reach devices of two machines.
        one_node: request.workers.max(1) == 1 && request.gpus > 1,
        kind: (!request.device_kind.is_empty()).then(|| request.device_kind.clone()),
        memory_bytes: request.device_memory_bytes,
        node: request.attached.as_ref().map(|program| NodeId(program.node.clone())),
    };
    engine::Submission {
        spec,
        user: user.to_owned(),
        demand,
        terms,
        after: request.after.iter().map(|id| JobId(*id)).collect(),
        held: request.held,
    }
}

/// A declaration as the engine takes it.
#[must_use]
pub fn declaration(it: &v1::Declaration) -> engine::Declaration {
    engine::Declaration {
        epochs_total: Some(it.epochs_total.max(1)),
        samples_per_epoch: Some(it.samples_per_epoch.max(1)),
        initial_batch: Some(it.initial_batch.max(1)),
        adaptation: Some(adaptation(it)),
        family: Some(it.family.clone()),
    }
}

fn adaptation(it: &v1::Declaration) -> Adaptation {
    match &it.policy {
        None | Some(Policy::Static(_)) => Adaptation::Static,
        Some(Policy::Accordion(it)) => Adaptation::Accordion { small: it.small, large: it.large },
        Some(Policy::Gns(it)) => Adaptation::Gns { initial: it.initial, max: it.max },
        Some(Policy::Schedule(it)) => Adaptation::Schedule(
            it.entries.iter().map(|entry| (entry.first_epoch, entry.batch)).collect(),
        ),
        // Growth up to a limit is what such rules do most.
        Some(Policy::Bounded(bounds)) => Adaptation::Gns {
            initial: it.initial_batch.clamp(bounds.min.max(1), bounds.max.max(bounds.min).max(1)),
            max: bounds.max.max(it.initial_batch).max(1),
        },
    }
}

/// A device as the engine takes it.
#[must_use]
pub fn device(it: &v1::Device) -> DeviceInfo {
    let kind = if it.model.is_empty() { &it.kind } else { &it.model };
    DeviceInfo { slot: it.index, kind: kind.clone(), memory_bytes: it.memory_bytes }
}

/// Why a job has to give its devices back, in one sentence.
#[must_use]
pub fn yield_reason(reason: &YieldReason) -> String {
    match reason {
        YieldReason::Round { round, to } => {
            let names: Vec<_> = to.iter().map(|job| job.0.to_string()).collect();
            match names.as_slice() {
                [] => format!("round {round} is planned without it"),
                [one] => format!("round {round} belongs to job {one}"),
                many => format!("round {round} belongs to jobs {}", many.join(", ")),
            }
        }
        YieldReason::Held => "it was put on hold".into(),
        YieldReason::Cancelled => "it was cancelled".into(),
        YieldReason::Drained { node } => format!("machine {node} is being drained"),
        YieldReason::TimeLimit => "its time limit is reached".into(),
        YieldReason::Moved { round } => format!("it moves to other devices in round {round}"),
        YieldReason::Ending => "it ends".into(),
    }
}

/// Writes the end of a process into its job's account.
pub fn note_release(job: &mut Job, lease_epoch: u64, reason: Option<&ReleaseReason>) {
    if lease_epoch != job.lease_epoch {
        return;
    }
    let note = match reason {
        None => "its machine came back without it".into(),
        Some(ReleaseReason::Yielded) => {
            job.exit_code = Some(shockwave_proto::exit::YIELDED);
            String::new()
        }
        Some(ReleaseReason::Exited { code }) => {
            job.exit_code = Some(*code);
            if *code == 0 { String::new() } else { format!("its process ended with code {code}") }
        }
        Some(ReleaseReason::Signalled { signal }) => {
            job.exit_code = None;
            format!("signal {signal} ended its process")
        }
        Some(ReleaseReason::Killed) => {
            job.exit_code = None;
            "it was killed at its deadline".into()
        }
        Some(ReleaseReason::StartFailed { why }) => why.clone(),
        Some(ReleaseReason::NodeLeaving) => "its machine was taken away".into(),
        Some(ReleaseReason::Lost) => "how it ended is unknown".into(),
    };
    // Why a job ended is said already; how its last process went does not change that.
    if job.end.is_none() {
        job.note = note;
    }
}
