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
        let planned_rounds = match &it.standing {
            Standing::Queued { planned, .. } | Standing::Running { planned, .. } => planned.clone(),
            _ => Vec::new(),
        };
        Ok(ExplainReply {
            sentence: sentence(owner, job, &it, &info.reason),
            remedy: remedy(job, &it, owner.state.engine.settings().round_s),
            budget: it.budget,
            rho: it.rho_hat,
            contention_mean: it.contention_mean,
            contention: it.contention,
            ahead,
            gpus_ahead,
            planned_rounds,
            left_s: it.progress.left_s,
            job: Some(info),
        })
    };
    shared.handle.ask(ask).await
}

fn sentence(owner: &Owner, job: &Job, it: &Explanation, reason: &str) -> String {
    match &it.standing {
        Standing::Running { planned, yields_s, .. } => {
            let share = match it.rho_hat {
                Some(rho) if rho > 1.0 => "it is behind its fair share",
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

fn remedy(job: &Job, it: &Explanation, round_s: f64) -> String {
    match &it.standing {
        Standing::Blocked { .. } => "the end of those jobs".into(),
        Standing::Held => format!("`shockwave release {}`", job.id),
        Standing::BackingOff { .. } => "nothing: it is tried again by itself".into(),
        Standing::TooLarge { gpus } => format!("--gpus {gpus} or fewer, or more machines"),
        Standing::Queued { user_cap: true, .. } => {
            "the end of another of its user's jobs, or a larger cap".into()
        }
        Standing::Queued { gpus_ahead, .. } => format!(
            "a larger weight (now {}), {} fewer devices asked for ahead of it, or time: its fair \
             share grows with every round of {round_s} s that it waits",
            job.request.weight, gpus_ahead
        ),
        Standing::Starting { .. } | Standing::Running { .. } | Standing::Yielding { .. } => {
            String::new()
        }
        Standing::OutOfReach { .. } => {
            "the return of those machines, or the end of its lease".into()
        }
    }
}
