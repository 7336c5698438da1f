//! The engine's actions, written into the book: machines and workers are told from there.

use shockwave_core::engine::{Action, EndSummary, Outcome};
use shockwave_core::types::{LeaseGrant, Placement};
use shockwave_proto::v1;
use shockwave_proto::v1::directive::Kind;

use super::apply::{Effects, Stamp, State};
use super::book::{End, Lease, Stint, StopAsked};
use super::translate;

/// Carries one action into the book.
pub(super) fn carry_out(state: &mut State, stamp: Stamp, action: Action, effects: &mut Effects) {
    match action {
        Action::StartLease { lease, .. } => start(state, stamp, lease, effects),
        Action::ExtendLease { ttl_s, .. } => {
            let ttl_ms = to_ms(ttl_s);
            effects.directive = Some(directive(Kind::Extended(v1::Extended { ttl_ms })));
        }
        Action::YieldBy { job, lease_epoch, deadline_s, grace_s, reason } => {
            let reason = translate::yield_reason(&reason);
            let key = (job.0, lease_epoch);
            let deadline_ms = to_ms(grace_s);
            let order = v1::YieldBy { deadline_ms, reason: reason.clone() };
            effects.directive = Some(directive(Kind::YieldBy(order)));
            with_lease(state, key, effects, |lease| {
                let asked_s = lease.stop.as_ref().map_or(stamp.now_s, |stop| stop.asked_s);
                lease.stop = Some(StopAsked { asked_s, deadline_s, reason });
            });
        }
        Action::Kill { job, lease_epoch, nodes, .. } => {
            with_lease(state, (job.0, lease_epoch), effects, |lease| {
                lease.kill.extend(nodes.iter().map(|node| node.0.clone()));
            });
        }
        Action::RevokeLease { job, lease_epoch } => {
            let reason = format!("lease {lease_epoch} is not valid any more");
            effects.directive = Some(directive(Kind::Revoked(v1::Revoked { reason })));
            with_lease(state, (job.0, lease_epoch), effects, |lease| lease.revoked = true);
        }
        Action::CheckpointCommitted { job, checkpoint } => {
            effects.jobs.insert(job.0);
            if let Some(job) = state.book.jobs.get_mut(&job.0)
                && let Some(saved) = &job.saved
                && (saved.step, &saved.sha256) == (checkpoint.step, &checkpoint.sha256)
            {
                job.checkpoint = Some(saved.clone());
            }
        }
        Action::JobEnded { job, outcome, summary } => {
            effects.jobs.insert(job.0);
            job_ended(state, stamp, job.0, (outcome, *summary), effects);
        }
        Action::JobRetried { job, why, failures, failures_max, .. } => {
            effects.jobs.insert(job.0);
            if let Some(job) = state.book.jobs.get_mut(&job.0) {
                job.note = format!("{why}; tried again ({failures} of {failures_max})");
            }
        }
        Action::Plan(request) => state.book.open_plan = Some(request),
        Action::Replanned { round, decision } => {
            state.book.rounds.decided_for = round;
            state.book.rounds.decision = Some(*decision);
        }
        Action::RoundStarted { round, at_s, .. } => {
            state.book.rounds.round = round;
            state.book.rounds.began_s = at_s;
        }
        Action::NodeSetAside { node, why } => {
            tracing::warn!(%node, why, "a machine is not used any more");
        }
        Action::Refused { reason, .. } => effects.refusal = Some(reason),
    }
}

fn job_ended(
    state: &mut State,
    stamp: Stamp,
    id: u64,
    (outcome, summary): (Outcome, EndSummary),
    effects: &mut Effects,
) {
    let Some(job) = state.book.jobs.get_mut(&id) else { return };
    if matches!(outcome, Outcome::Finished { .. }) {
        let (held, all) = job.curve.held(stamp.unix_s);
        state.book.forecasts_held.0 += held;
        state.book.forecasts_held.1 += all;
    }
    job.preemptions = summary.preemptions;
    job.note = end_note(&outcome);
    let event = match &outcome {
        Outcome::Finished { .. } => "finished",
        Outcome::Cancelled { .. } => "cancelled",
        _ => "failed",
    };
    job.end = Some(End { outcome, unix_s: stamp.unix_s, summary });
    effects.ended.push(id);
    state.notify(stamp, id, event);
}

fn start(state: &mut State, stamp: Stamp, grant: LeaseGrant, effects: &mut Effects) {
    let key = (grant.job.0, grant.epoch);
    let Some(job) = state.book.jobs.get_mut(&key.0) else { return };
    job.lease_epoch = grant.epoch;
    job.note.clear();
    effects.jobs.insert(key.0);
    effects.nodes.extend(nodes_of(&grant.placement));
    let named = format!("{}/{}/{}/{}", state.secret, key.0, key.1, stamp.number);
    let lease = Lease {
        job: key.0,
        epoch: key.1,
        nonce: crate::secrets::digest(&named)[..32].to_owned(),
        placement: grant.placement,
        running: Default::default(),
        released: Default::default(),
        trains: false,
        stop: None,
        kill: Default::default(),
        revoked: false,
    };
    for part in &lease.placement.parts {
        state.book.begin_stint(Stint {
            job: key.0,
            lease_epoch: key.1,
            node: part.node.0.clone(),
            slots: part.slots.clone(),
            from_unix_s: stamp.unix_s,
            to_unix_s: None,
        });
    }
    state.book.leases.insert(key, lease);
}

fn with_lease(
    state: &mut State,
    key: (u64, u64),
    effects: &mut Effects,
    change: impl FnOnce(&mut Lease),
) {
    effects.jobs.insert(key.0);
    if let Some(lease) = state.book.leases.get_mut(&key) {
        change(lease);
        effects.nodes.extend(nodes_of(&lease.placement));
    }
}

fn nodes_of(placement: &Placement) -> impl Iterator<Item = String> {
    placement.parts.iter().map(|part| part.node.0.clone())
}

fn directive(kind: Kind) -> v1::Directive {
    v1::Directive { kind: Some(kind) }
}

/// Milliseconds of a duration in seconds.
#[must_use]
pub fn to_ms(duration_s: f64) -> u64 {
    // A cast from float saturates; NaN is 0.
    (duration_s * 1000.0).ceil() as u64
}

fn end_note(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Finished { .. } => String::new(),
        Outcome::Failed { why } | Outcome::Cancelled { why } => why.clone(),
        Outcome::DependencyFailed { on } => format!("job {on}, which it waits for, did not finish"),
        Outcome::TimeLimit => "its time limit is reached".into(),
    }
}
