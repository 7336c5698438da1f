//! What users see: a job, the plan.

use std::collections::BTreeMap;

use shockwave_core::engine::{Outcome, Prospects, Standing};
use shockwave_core::types::{Decision, JobId, RoundPlan};
use shockwave_proto::v1::{
    DeviceRef, EtaInfo, JobInfo, JobState, PlanReply, PlannedJob, PlannedRound,
};

use super::book::{Job, Lease};
use super::owner::Owner;

/// A job as users see it.
#[must_use]
pub fn job(owner: &Owner, job: &Job) -> JobInfo {
    job_by(owner, &owner.state.engine.prospects(), job)
}

/// The same for one of many jobs.
#[must_use]
pub fn job_by(owner: &Owner, prospects: &Prospects, job: &Job) -> JobInfo {
    let lease = owner.state.book.current_lease(job);
    let explanation = owner.state.engine.explain_by(JobId(job.id), prospects);
    let attained_s = match (&job.end, &explanation) {
        (Some(end), _) => end.summary.attained_s,
        (None, Some(explanation)) => explanation.progress.attained_s,
        (None, None) => 0.0,
    };
    let rho = match &job.end {
        Some(end) => end.summary.rho,
        None => explanation.as_ref().and_then(|it| it.rho_hat),
    };
    let last_failure = explanation.as_ref().and_then(|it| it.last_failure.clone());
    let mut info = JobInfo {
        id: job.id,
        request: Some(job.request.clone()),
        reason: reason(owner, job, explanation.map(|it| it.standing)),
        submitted_unix_s: job.submitted_unix_s,
        started_unix_s: job.started_unix_s,
        ended_unix_s: job.end.as_ref().map(|end| end.unix_s),
        lease_epoch: job.lease_epoch,
        preemptions: job.preemptions,
        regimes: job.regimes.infos(),
        position: job.position,
        checkpoint: job.checkpoint.clone(),
        metrics: job.metrics.clone(),
        jct_s: job.end.as_ref().map(|end| end.summary.jct_s),
        rho,
        eta: eta(owner, prospects, job),
        exit_code: job.exit_code,
        attained_s,
        devices: lease.map(devices).unwrap_or_default(),
        user: job.user.clone(),
        checkpoint_sha256: checkpoint_sha256(job),
        rho_says_little: rho_says_little(owner, attained_s),
        last_failure: last_failure.unwrap_or_default(),
        ..JobInfo::default()
    };
    // Variables hold secrets; whoever handed them in knows them.
    if let Some(request) = &mut info.request {
        request.env.clear();
    }
    info.set_state(state(job, lease));
    info
}

/// Whether a job has had so little service that its rho tells of a round's begin rather than of its
/// share.
#[must_use]
pub fn rho_says_little(owner: &Owner, attained_s: f64) -> bool {
    attained_s < 2.0 * owner.state.configuration.engine.round_s
}

fn checkpoint_sha256(job: &Job) -> String {
    let last = job.finished.as_ref().map(|finished| finished.checkpoint_sha256.clone());
    last.unwrap_or_default()
}

/// A job's state.
#[must_use]
pub fn job_state(owner: &Owner, job: &Job) -> JobState {
    state(job, owner.state.book.current_lease(job))
}

fn state(job: &Job, lease: Option<&Lease>) -> JobState {
    match (&job.end, lease) {
        (Some(end), _) => match end.outcome {
            Outcome::Finished { .. } => JobState::Finished,
            Outcome::Cancelled { .. } => JobState::Cancelled,
            Outcome::Failed { .. } | Outcome::DependencyFailed { .. } | Outcome::TimeLimit => {
                JobState::Failed
            }
        },
        (None, Some(lease)) if lease.stop.is_some() || !lease.kill.is_empty() => JobState::Yielding,
        (None, Some(lease)) if lease.trains => JobState::Running,
        // A plain command says nothing: it runs when its processes do.
        (None, Some(lease)) if !job.has_sdk && lease.is_whole() => JobState::Running,
        (None, Some(_)) => JobState::Starting,
        (None, None) if job.held || job.detached => JobState::Held,
        (None, None) => JobState::Queued,
    }
}

fn devices(lease: &Lease) -> Vec<DeviceRef> {
    let holders: Vec<&str> = lease.holders().collect();
    let parts = lease.placement.parts.iter();
    parts
        .filter(|part| holders.contains(&part.node.0.as_str()))
        .flat_map(|part| {
            let device = |index: &u32| DeviceRef { node: part.node.0.clone(), index: *index };
            part.slots.iter().map(device)
        })
        .collect()
}

fn eta(owner: &Owner, prospects: &Prospects, job: &Job) -> Option<EtaInfo> {
    // Without a declaration nothing is known of the length, without an epoch nothing of the speed.
    job.request.declaration.as_ref()?;
    let progress = owner.state.engine.progress(JobId(job.id))?;
    progress.regimes.iter().find(|regime| regime.epoch_s.is_some())?;
    let eta = owner.state.engine.eta_by(JobId(job.id), prospects)?;
    let now_s = owner.state.engine.now_s();
    let (past_held, past_given) = owner.state.book.forecasts_held;
    Some(EtaInfo {
        past_held,
        past_given,
        mean_s: (eta.expected_s - now_s).max(0.0),
        low_s: (eta.earliest_s - now_s).max(0.0),
        high_s: (eta.latest_s - now_s).max(0.0),
    })
}

/// How many devices of each kind the cluster has.
#[must_use]
pub fn kinds(owner: &Owner) -> BTreeMap<String, u32> {
    let mut kinds = BTreeMap::new();
    for device in owner.state.engine.nodes().into_iter().flat_map(|node| node.info.devices) {
        *kinds.entry(device.kind).or_default() += 1;
    }
    kinds
}

/// Why a job is in its state, in one sentence.
fn reason(owner: &Owner, job: &Job, standing: Option<Standing>) -> String {
    let Some(standing) = standing else { return job.note.clone() };
    match standing {
        Standing::Blocked { on } => {
            let names: Vec<_> = on.iter().map(|job| job.0.to_string()).collect();
            format!("waits for the end of {}", names.join(", "))
        }
        Standing::Held if job.detached => {
            let folder = &job.request.working_dir;
            let node = job.request.attached.as_ref().map_or("", |program| &program.node);
            format!("its program is gone: start it again on {node} in {folder}")
        }
        Standing::Held => "on hold".into(),
        Standing::BackingOff { why, .. } => format!("{why}; is tried again soon"),
        Standing::TooLarge { gpus: 0 } => "waits for a machine: none is in service".into(),
        Standing::TooLarge { gpus } => {
            let wanted = job.request.gpus;
            let kind = match job.request.device_kind.as_str() {
                "" => String::new(),
                kind => format!(" of kind {kind}"),
            };
            let asked = job.request.device_kind.as_str();
            if !asked.is_empty() && !kinds(owner).contains_key(asked) {
                return format!("asks for devices of kind {asked}, of which the cluster has none");
            }
            let devices = if wanted == 1 { "device" } else { "devices" };
            format!(
                "asks for {wanted} {devices}{kind} together, the cluster can give {gpus} at most"
            )
        }
        Standing::Queued { user_cap: true, .. } => "its user's cap on devices is reached".into(),
        Standing::Queued { ahead: 0, .. } => "waits for devices; first in line".into(),
        Standing::Queued { ahead, gpus_ahead, .. } => {
            let jobs = if ahead == 1 { "job that asks" } else { "jobs that ask" };
            format!("waits for devices behind {ahead} {jobs} for {gpus_ahead}")
        }
        Standing::Starting { .. } => "waits for its devices to be given back".into(),
        Standing::Running { .. } => job.note.clone(),
        Standing::Yielding { reason, .. } => super::translate::yield_reason(&reason),
        Standing::OutOfReach { nodes, .. } => {
            let names: Vec<_> = nodes.iter().map(ToString::to_string).collect();
            if names.is_empty() {
                return "not heard of: resumes from its checkpoint once its lease is over".into();
            }
            format!("out of reach ({}): resumes elsewhere once its lease is over", names.join(", "))
        }
    }
}

/// Price of a device in round `index`, when the plan has one for it.
fn price(plan: &RoundPlan, index: u64) -> Option<f64> {
    let offset = usize::try_from(index.checked_sub(plan.first_round)?).ok()?;
    plan.appraisal.as_ref()?.prices.get(offset).copied()
}

/// The plan now in force.
#[must_use]
pub fn plan(owner: &Owner) -> PlanReply {
    let engine = &owner.state.engine;
    let settings = engine.settings();
    let round = engine.round();
    // Leases come and go within a round: who holds devices at this moment runs in it.
    let mut running: Vec<u64> = owner.state.book.leases.keys().map(|lease| lease.0).collect();
    running.dedup();
    let now = PlannedRound { round, job_ids: running, price: None };
    let mut rounds = vec![now];
    let decision = engine.decision();
    let mut appraisal = None;
    if let Some(Decision::Plan(plan)) = decision {
        appraisal = plan.appraisal.as_ref();
        let later = (plan.first_round..).zip(&plan.rounds).filter(|(index, _)| *index > round);
        rounds.extend(later.map(|(index, jobs)| PlannedRound {
            round: index,
            job_ids: jobs.iter().map(|job| job.0).collect(),
            price: price(plan, index),
        }));
        rounds[0].price = price(plan, round);
    }
    let mut given: BTreeMap<u64, u32> = BTreeMap::new();
    for id in rounds.iter().flat_map(|round| &round.job_ids) {
        *given.entry(*id).or_default() += 1;
    }
    let prospects = engine.prospects();
    let jobs = engine.jobs().filter_map(|id| {
        let explanation = engine.explain_by(id, &prospects)?;
        Some(PlannedJob {
            job_id: id.0,
            rounds: given.get(&id.0).copied().unwrap_or_default(),
            rho: explanation.rho_hat,
            budget: explanation.budget,
        })
    });
    PlanReply {
        round,
        round_s: settings.round_s,
        round_left_s: (engine.boundary_s() - owner.now_s()).max(0.0),
        gpus: engine.gpus(),
        jobs: jobs.collect(),
        planned: rounds,
        gap: appraisal.map(|it| it.gap),
        objective: appraisal.map(|it| it.objective),
        bound: appraisal.map(|it| it.upper_bound),
        solve_s: owner.state.book.rounds.solve_s,
        policy: engine.policy_name().to_owned(),
    }
}
