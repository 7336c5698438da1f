//! What if: the live state forked into the simulator, once as it is and once with changes.

use std::time::{Duration, Instant};

use shockwave_core::engine::{Demand, Engine, Event, Settings, Snapshot, Submission, Terms};
use shockwave_core::policies;
use shockwave_core::simulator::product::{
    Costs, Fork, ForkEnd, ForkOutcome, expected, play_on, whole_s,
};
use shockwave_core::simulator::workload::Adapts;
use shockwave_core::simulator::{Observer, Workload, WorkloadJob};
use shockwave_core::types::{Adaptation, DeviceInfo, JobId, JobSpec, NodeId, NodeInfo};
use shockwave_proto::v1::{WhatIfEnd, WhatIfJob, WhatIfReply, WhatIfRequest, WhatIfSide};
use tonic::Status;

use super::check;
use super::owner::Owner;
use super::settings::Configuration;

/// Time that an answer takes at most where none is given, and the most that may be given, seconds:
/// less than a call may last.
const LIMIT_S: (f64, f64) = (10.0, 25.0);
/// How far it is played at most: a year of the coordinator's time, seconds.
const HORIZON_S: f64 = 365.0 * 86_400.0;
/// Most devices and jobs more.
const MORE_MAX: u32 = 65_536;
const JOBS_MAX: usize = 1000;
/// A job of a given length trains so many epochs of so many samples: enough for its speed to be
/// known early, as with a real one.
const EPOCHS: u32 = 20;
const SAMPLES: u64 = 1000;
const BATCH: u32 = 100;
/// Share of a stop and a start that is the start, where neither was measured.
const START_SHARE: f64 = 0.75;
/// Share of a lease's time, or of its grace, that a start, or a checkpoint, takes at most.
const BEARABLE: f64 = 0.8;

/// A question, with all that it takes to answer it away from the coordinator's owner.
pub struct Question {
    request: WhatIfRequest,
    configuration: Configuration,
    snapshot: Snapshot,
    now_s: f64,
    /// Number, name, account, and whether its length was declared.
    jobs: Vec<(u64, String, String, bool)>,
    next_job: u64,
}

/// Checks what can be checked without the state.
///
/// # Errors
/// `INVALID_ARGUMENT` names the field and what would be right.
pub fn check(request: &WhatIfRequest) -> Result<(), Status> {
    let invalid = |text: String| Err(Status::invalid_argument(text));
    let it = request;
    let nothing = it.jobs.is_empty() && it.weights.is_empty() && it.users.is_empty();
    let nothing = nothing && it.more_gpus == 0 && it.policy.is_empty();
    if nothing && it.drained.is_empty() && it.cancelled.is_empty() {
        return invalid(
            "nothing is to be different: name a job, a weight, GPUs or a policy".into(),
        );
    }
    if !(0.0..=LIMIT_S.1).contains(&it.limit_s) {
        return invalid(format!("limit_s is {}, expected 0 to {}", it.limit_s, LIMIT_S.1));
    }
    if it.more_gpus > MORE_MAX {
        return invalid(format!("more_gpus is {}, expected at most {MORE_MAX}", it.more_gpus));
    }
    if it.jobs.len() > JOBS_MAX {
        return invalid(format!("{} jobs more, expected at most {JOBS_MAX}", it.jobs.len()));
    }
    for job in &it.jobs {
        if !(0.0..=1e9).contains(&job.length_s) || (job.length_s == 0.0 && job.like == 0) {
            let got = job.length_s;
            return invalid(format!(
                "length_s is {got}, expected a time above 0, or a job like it"
            ));
        }
        if job.gpus > MORE_MAX {
            return invalid(format!("gpus is {}, expected at most {MORE_MAX}", job.gpus));
        }
        if job.weight != 0.0 {
            check::weight(job.weight)?;
        }
    }
    it.weights.iter().try_for_each(|it| check::weight(it.weight))?;
    it.users.iter().try_for_each(|it| check::user(&it.user))?;
    let mut weighed = it.users.iter().filter(|user| user.weight != 0.0);
    weighed.try_for_each(|user| check::weight(user.weight))
}

impl Question {
    /// Takes a copy of the state.
    ///
    /// # Errors
    /// `NOT_FOUND` and `INVALID_ARGUMENT` name what is not there.
    pub fn of(owner: &mut Owner, request: WhatIfRequest) -> Result<Self, Status> {
        let book = &owner.state.book;
        let named = request.weights.iter().map(|it| it.job_id);
        let named = named.chain(request.cancelled.iter().copied());
        let named = named.chain(request.jobs.iter().map(|it| it.like).filter(|like| *like > 0));
        for id in named {
            let job = book.jobs.get(&id).ok_or_else(|| {
                Status::not_found(format!("there is no job {id}; `shockwave jobs` lists them"))
            })?;
            if job.end.is_some() {
                return Err(Status::failed_precondition(format!(
                    "job {id} has ended; only a job that is queued or runs can be taken as a model \
                     or changed"
                )));
            }
        }
        if let Some(node) = request.drained.iter().find(|node| !book.nodes.contains_key(*node)) {
            return Err(Status::not_found(format!(
                "there is no machine {node:?}; `shockwave cluster` lists them"
            )));
        }
        if !request.policy.is_empty() && policies::by_name(&request.policy).is_none() {
            return Err(Status::invalid_argument(format!(
                "policy is {:?}, expected one of {}",
                request.policy,
                policies::names()
            )));
        }
        let jobs = book.active().map(|job| {
            let declared = job.request.declaration.is_some();
            (job.id, job.request.name.clone(), job.user.clone(), declared)
        });
        Ok(Self {
            jobs: jobs.collect(),
            next_job: book.next_job(),
            configuration: owner.state.configuration.clone(),
            snapshot: owner.state.engine.snapshot(),
            now_s: owner.now_s(),
            request,
        })
    }

    /// Plays both sides, on two threads, at most as long as was asked for.
    ///
    /// # Errors
    /// `INTERNAL` when a side cannot be played.
    pub fn answer(&self) -> Result<WhatIfReply, Status> {
        let limit_s = if self.request.limit_s > 0.0 { self.request.limit_s } else { LIMIT_S.0 };
        let until = Instant::now() + Duration::from_secs_f64(limit_s);
        let (now, changed) = std::thread::scope(|scope| {
            let changed = scope.spawn(|| self.side(true, until));
            let now = self.side(false, until);
            let broke = || Err("its thread broke off".to_owned());
            (now, changed.join().unwrap_or_else(|_| broke()))
        });
        let told = |error: String| Status::internal(format!("the state cannot be forked: {error}"));
        let (now, changed) = (now.map_err(told)?, changed.map_err(told)?);
        Ok(self.reply(&now, &changed))
    }

    fn side(&self, with_changes: bool, until: Instant) -> Result<ForkOutcome, String> {
        let mut engine = self.configuration.restore(self.snapshot.clone())?;
        engine.handle(Event::Tick, self.now_s);
        let mut workload = expected(&engine);
        let mut changes = Vec::new();
        let mut configuration = self.configuration.clone();
        if with_changes {
            changes = self.changes(&engine, &mut workload);
            if !self.request.policy.is_empty() && self.request.policy != configuration.policy {
                configuration.policy.clone_from(&self.request.policy);
                configuration.tuning = policies::Tuning::default();
            }
        }
        let mut policy = configuration.policy().map_err(|error| error.to_string())?;
        let predictor = configuration.predictor().map_err(|error| error.to_string())?;
        let costs = costs(engine.settings(), engine.measured_costs_s());
        let fork = Fork { engine, now_s: self.now_s, changes, costs, horizon_s: HORIZON_S };
        let outcome = play_on(fork, &workload, &mut *policy, predictor, &mut Until(until));
        outcome.map_err(|error| error.to_string())
    }

    /// What happens on the changed side; courses of new jobs go into the workload.
    fn changes(&self, engine: &Engine, workload: &mut Workload) -> Vec<Event> {
        let it = &self.request;
        let mut events = Vec::new();
        for weight in &it.weights {
            events.push(Event::WeightChanged { job: JobId(weight.job_id), weight: weight.weight });
        }
        for user in &it.users {
            let (weight, gpus_max) = engine.user_terms(&user.user);
            events.push(Event::UserChanged {
                user: user.user.clone(),
                weight: if user.weight > 0.0 { user.weight } else { weight },
                gpus_max: user.gpus_max.or(gpus_max),
            });
        }
        let why = || "what if".to_owned();
        events.extend(
            it.drained
                .iter()
                .map(|node| Event::NodeDrained { node: NodeId(node.clone()), why: why() }),
        );
        events.extend(
            it.cancelled.iter().map(|id| Event::JobCancelled { job: JobId(*id), why: why() }),
        );
        if it.more_gpus > 0 {
            let node = more(engine, it.more_gpus);
            events.push(Event::NodeJoined { node, keeps: Vec::new() });
        }
        for (id, job) in (self.next_job..).zip(&it.jobs) {
            let job = new_job(workload, JobId(id), job, self.now_s);
            events.push(Event::JobSubmitted(Box::new(Submission {
                spec: job.spec.clone(),
                user: String::new(),
                demand: Demand::default(),
                terms: Terms::default(),
                after: Vec::new(),
                held: false,
            })));
            workload.jobs.push(job);
        }
        events
    }

    fn reply(&self, now: &ForkOutcome, changed: &ForkOutcome) -> WhatIfReply {
        let end = |outcome: &ForkOutcome, id: u64| outcome.ends.get(&JobId(id)).cloned();
        let cancelled = |id: u64| self.request.cancelled.contains(&id);
        let row = |id: u64, name: &str, user: &str, declared: bool, new: bool| {
            let before = end(now, id);
            let after = end(changed, id).filter(|_| !cancelled(id));
            let rho = |end: &Option<ForkEnd>| end.as_ref().and_then(|end| end.rho);
            WhatIfEnd {
                job_id: if new { 0 } else { id },
                name: name.to_owned(),
                user: user.to_owned(),
                now_s: before.as_ref().map(|end| end.after_s),
                changed_s: after.as_ref().map(|end| end.after_s),
                now_rho: rho(&before),
                changed_rho: rho(&after),
                declared,
            }
        };
        let there = self
            .jobs
            .iter()
            .map(|(id, name, user, declared)| row(*id, name, user, *declared, false));
        let new = (self.next_job..).zip(&self.request.jobs);
        let new = new.map(|(id, job)| row(id, &new_name(job), "", true, true));
        let policy = match self.request.policy.as_str() {
            "" => &self.configuration.policy,
            other => other,
        };
        WhatIfReply {
            jobs: there.chain(new).collect(),
            now: Some(side(now, &self.configuration.policy, |_| true)),
            changed: Some(side(changed, policy, |id| !cancelled(id))),
        }
    }
}

/// What things cost. Where a start would outlast its lease, or a checkpoint its grace, every lease
/// would end without progress, over and over: what jobs bear is taken for less than these.
fn costs(settings: &Settings, (start_s, save_s): (Option<f64>, Option<f64>)) -> Costs {
    let start_s = start_s.unwrap_or(settings.restart_s * START_SHARE);
    let save_s = save_s.unwrap_or(settings.restart_s * (1.0 - START_SHARE));
    Costs {
        start_s: start_s.min(settings.ttl_s * BEARABLE),
        save_s: save_s.min(settings.grace_s * BEARABLE),
        plan_s: Costs::default().plan_s.min(settings.plan_budget_s),
        ..Costs::default()
    }
}

fn side(outcome: &ForkOutcome, policy: &str, counts: impl Fn(u64) -> bool) -> WhatIfSide {
    let ends = || outcome.ends.iter().filter(|(id, _)| counts(id.0)).map(|(_, end)| end);
    let count = ends().count();
    let mean_s = ends().map(|end| end.after_s).sum::<f64>() / count.max(1) as f64;
    WhatIfSide {
        makespan_s: ends().map(|end| end.after_s).reduce(f64::max).filter(|_| outcome.complete),
        mean_left_s: (count > 0).then_some(mean_s),
        worst_rho: ends().filter_map(|end| end.rho).reduce(f64::max),
        played_s: outcome.played_s,
        complete: outcome.complete,
        policy: policy.to_owned(),
    }
}

/// A machine more, of the kind of device that the cluster has most of.
fn more(engine: &Engine, gpus: u32) -> NodeInfo {
    let mut kinds: std::collections::BTreeMap<String, (u32, u64)> = Default::default();
    let nodes = engine.nodes();
    for device in nodes.iter().flat_map(|node| &node.info.devices) {
        let entry = kinds.entry(device.kind.clone()).or_default();
        *entry = (entry.0 + 1, entry.1.max(device.memory_bytes));
    }
    let most = kinds.into_iter().max_by_key(|(_, (count, _))| *count);
    let (kind, (_, memory_bytes)) = most.unwrap_or_else(|| ("gpu".into(), (0, 0)));
    let device = |slot| DeviceInfo { slot, kind: kind.clone(), memory_bytes };
    NodeInfo {
        // No agent can join under a name with a space.
        node: NodeId("what if".into()),
        devices: (0..gpus).map(device).collect(),
        until_s: None,
    }
}

fn new_name(job: &WhatIfJob) -> String {
    if job.like > 0 { format!("like job {}", job.like) } else { "the new job".into() }
}

/// A job that is not there: like another from its beginning, or of a given length.
fn new_job(workload: &Workload, id: JobId, wanted: &WhatIfJob, now_s: f64) -> WorkloadJob {
    let weight = if wanted.weight > 0.0 { wanted.weight } else { 1.0 };
    let like = workload.jobs.iter().find(|job| job.spec.id.0 == wanted.like);
    let mut job = match like {
        Some(like) => like.clone(),
        None => plain(wanted.length_s),
    };
    job.spec.id = id;
    job.spec.weight = weight;
    job.spec.arrival_s = now_s;
    if wanted.gpus > 0 {
        job.spec.gpus = wanted.gpus;
    }
    // One that is like another but of a given length only differs in speed.
    let whole_s = whole_s(&job);
    if wanted.length_s > 0.0 && whole_s > 0.0 {
        let faster = whole_s / wanted.length_s;
        job.speeds.values_mut().for_each(|speed| *speed *= faster);
        job.exclusive_s = wanted.length_s;
    }
    job
}

fn plain(length_s: f64) -> WorkloadJob {
    let epoch_s = length_s / f64::from(EPOCHS);
    let steps = SAMPLES as f64 / f64::from(BATCH);
    let spec = JobSpec {
        id: JobId(0),
        gpus: 1,
        weight: 1.0,
        arrival_s: 0.0,
        epochs_total: EPOCHS,
        samples_per_epoch: SAMPLES,
        initial_batch: BATCH,
        adaptation: Adaptation::Static,
        family: String::new(),
    };
    WorkloadJob {
        spec,
        model: String::new(),
        steps_total: 0,
        speeds: [(BATCH, steps / epoch_s)].into(),
        adapts: Adapts::Never,
        schedule: vec![(0, BATCH)],
        exclusive_s: length_s,
        slo_s: None,
    }
}

/// Plays until a moment of real time.
struct Until(Instant);

impl Observer for Until {
    fn round_ended(&mut self, _now_s: f64, _done: usize, _jobs: usize) {}

    fn goes_on(&mut self) -> bool {
        Instant::now() < self.0
    }
}
