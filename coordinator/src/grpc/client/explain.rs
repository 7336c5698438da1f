//! `Client.Explain`: why a job runs or waits, and what would change that.

use shockwave_core::engine::{Explanation, Standing};
use shockwave_core::types::JobId;
use shockwave_proto::v1::ExplainReply;
use tonic::Status;

use crate::cli::json::state_name;
use crate::service::book::Job;
use crate::service::owner::Owner;
use crate::service::{Shared, view};

pub(super) async fn explain(shared: &Shared, id: u64) -> Result<ExplainReply, Status> {
    let ask = move |owner: &mut Owner| {
        let job = super::job(owner, id)?;
        let info = view::job(owner, job);
        let Some(it) = owner.state.engine.explain(JobId(id)) else {
            let state = state_name(info.state());
            let sentence = match info.reason.as_str() {
                "" => format!("it has ended: {state}"),
                reason => {
                    format!("it has ended: {state}: {reason} (its output: `shockwave logs {id}`)")
                }
            };
            return Ok(ExplainReply { job: Some(info), sentence, ..ExplainReply::default() });
        };
        let (ahead, gpus_ahead) = match &it.standing {
            Standing::Queued { ahead, gpus_ahead, .. } => (*ahead as u32, *gpus_ahead),
            _ => (0, 0),
        };
        let ahead_ids = match &it.standing {
            Standing::Queued { .. } => owner.state.engine.before(JobId(id), AHEAD_MAX),
            _ => Vec::new(),
        };
        let plan = view::plan(owner);
        let later = plan.planned.iter().skip(1).filter_map(|round| round.price);
        let planned_rounds = match &it.standing {
            Standing::Queued { planned, .. } | Standing::Running { planned, .. } => planned.clone(),
            _ => Vec::new(),
        };
        Ok(ExplainReply {
            sentence: sentence(owner, job, &it, &info.reason),
            remedy: remedy(owner, job, &it),
            price: plan.planned.first().and_then(|round| round.price),
            lowest_price: later.reduce(f64::min),
            ahead_ids: ahead_ids.into_iter().map(|job| job.0).collect(),
            budget: it.budget,
            rho: it.rho_hat,
            contention_mean: it.contention_mean,
            contention: it.contention,
            ahead,
            gpus_ahead,
            planned_rounds,
            // Of a job that has declared nothing of its length, nothing is known.
            left_s: it.progress.left_s.filter(|_| job.request.declaration.is_some()),
            job: Some(info),
        })
    };
    shared.handle.ask(ask).await
}

fn sentence(owner: &Owner, job: &Job, it: &Explanation, reason: &str) -> String {
    match &it.standing {
        Standing::Running { planned, yields_s, .. } => {
            let share = match it.rho_hat {
                Some(rho) if rho > 1.005 => "it is behind its fair share",
                Some(_) => "it is within its fair share",
                None => "nothing is known yet of its length",
            };
            let until = match (yields_s, planned.len()) {
                (Some(_), _) => "it gives its devices back at the end of this round".to_owned(),
                (None, 0) => no_later_round(owner, it).to_owned(),
                (None, rounds) => format!("the plan has it in {rounds} later rounds"),
            };
            format!("it runs: {share}, and {until}")
        }
        Standing::Queued { planned, user_cap: false, .. } => match planned.first() {
            Some(round) => format!("it {reason}; the plan has it next in round {round}"),
            None => format!("it {reason}; no round of the present plan is its own"),
        },
        _ if reason.is_empty() => format!("job {} stands as it should", job.id),
        _ => reason.to_owned(),
    }
}

/// Why a running job has no later round in the plan.
fn no_later_round(owner: &Owner, it: &Explanation) -> &'static str {
    let engine = &owner.state.engine;
    let round_left_s = engine.boundary_s() - owner.now_s();
    match it.progress.left_s {
        Some(left_s) if left_s <= round_left_s => "it ends in this round as forecast",
        _ if engine.decision().is_none() => "the first plan is made shortly before this round ends",
        _ => "the next plan, shortly before this round ends, decides on its next rounds",
    }
}

/// Most jobs before one that are named.
const AHEAD_MAX: usize = 10;

fn remedy(owner: &Owner, job: &Job, it: &Explanation) -> String {
    let round_s = owner.state.engine.settings().round_s;
    match &it.standing {
        Standing::Blocked { .. } => "the end of those jobs".into(),
        Standing::Held if job.detached => format!("`{}`", job.request.command.join(" ")),
        Standing::Held => format!("`shockwave release {}`", job.id),
        Standing::BackingOff { .. } => "nothing: it is tried again by itself".into(),
        Standing::TooLarge { .. } => too_large(owner, job),
        Standing::Queued { user_cap: true, .. } => {
            "the end of another of its user's jobs, or a larger cap".into()
        }
        Standing::Queued { gpus_ahead, .. } => {
            let ahead = match gpus_ahead {
                0 => String::new(),
                1 => ", one device less asked for ahead of it".to_owned(),
                more => format!(", up to {more} devices less asked for ahead of it"),
            };
            format!(
                "a larger weight (now {}){ahead}, or time: its fair share grows with every round \
                 of {round_s} s that it waits",
                job.request.weight
            )
        }
        Standing::Starting { .. } | Standing::Running { .. } | Standing::Yielding { .. } => {
            String::new()
        }
        Standing::OutOfReach { .. } => {
            "the return of those machines, or the end of its lease".into()
        }
    }
}

/// What would let a job run that no part of the cluster can host.
fn too_large(owner: &Owner, job: &Job) -> String {
    let engine = &owner.state.engine;
    let kinds = view::kinds(owner);
    let (wanted, gpus) = (job.request.device_kind.as_str(), job.request.gpus.max(1));
    if !wanted.is_empty() && !kinds.contains_key(wanted) {
        let known: Vec<String> =
            kinds.keys().map(|kind| format!("--device-kind {kind:?}")).collect();
        return match known.as_slice() {
            [] => format!("a machine with devices of kind {wanted}"),
            known => format!(
                "{}, none at all, or a machine with devices of kind {wanted}",
                known.join(" or ")
            ),
        };
    }
    let nodes = &owner.state.book.nodes;
    let drained: Vec<&str> =
        nodes.iter().filter(|(_, node)| node.drained).map(|(name, _)| name.as_str()).collect();
    if let Some(first) = drained.first() {
        return format!(
            "`shockwave resume {first}`: it is drained and gives no device to new jobs"
        );
    }
    let bytes = job.request.device_memory_bytes;
    let largest = engine
        .nodes()
        .iter()
        .flat_map(|node| &node.info.devices)
        .map(|device| device.memory_bytes)
        .max()
        .unwrap_or(0);
    if bytes > largest {
        return format!("--device-memory-bytes {largest} or less, or devices with more memory");
    }
    let of_kind = if wanted.is_empty() { engine.gpus() } else { kinds[wanted] };
    if of_kind == 0 {
        return "a machine: by `shockwave agent`, or from a Slurm pool (`shockwave cluster` says what \
                those wait for)"
            .into();
    }
    if gpus > of_kind {
        return format!("--gpus {of_kind} or fewer, or more machines");
    }
    "--workers, so that it can span machines, or a machine with as many such devices".into()
}
