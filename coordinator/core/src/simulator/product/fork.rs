//! A live engine, played on: what would come of it if jobs went on as they are forecast.
//!
//! The gangs that it has go on from where they are, in the same simulator and under the same engine
//! as a trace; what is to be different is told to it as events at the beginning.

use std::collections::BTreeMap;

use super::drive::{Product, What};
use super::life::Life;
use super::machines::Machine;
use super::remote::Remote;
use super::worker::{Part, Phase, Worker};
use super::{Costs, ProductError};
use crate::engine::{Action, Engine, Event, Holding, Outcome, ReleaseReason, Standing};
use crate::policies::Policy;
use crate::predictor::{Forecast, Predictor};
use crate::simulator::faults::Faults;
use crate::simulator::observer::Observer;
use crate::simulator::workload::{Adapts, Workload, WorkloadJob};
use crate::types::{JobId, JobProgress, JobSpec};

/// Shortest and longest rest of a job that is played, seconds: a forecast of a job of which nothing
/// is known may be 0 or without end.
const LEFT_S: (f64, f64) = (1e-3, 1e9);

/// A live state, and what is to be different about it.
pub struct Fork {
    /// The engine as it is.
    pub engine: Engine,
    /// The moment, seconds on its clock.
    pub now_s: f64,
    /// What happens at that moment: jobs handed in, weights changed, nodes that join or go.
    pub changes: Vec<Event>,
    /// What things cost.
    pub costs: Costs,
    /// How far it is played at most, seconds from that moment.
    pub horizon_s: f64,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// When, seconds from the fork.
    pub after_s: f64,
    /// Finish-time fairness, as the engine measures it.
    pub rho: Option<f64>,
}

/// What came of a fork.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForkOutcome {
    /// Jobs that ended. The others are kept back for ever (on hold, too large), or `complete` is
    /// not set.
    pub ends: BTreeMap<JobId, ForkEnd>,
    /// How far it was played, seconds from the fork.
    pub played_s: f64,
    /// Whether every job ended that can.
    pub complete: bool,
}

/// The jobs of an engine that have not ended, going on as they are forecast (the posterior mean).
#[must_use]
pub fn expected(engine: &Engine) -> Workload {
    let course = |id: JobId| {
        let (spec, progress) = (engine.spec(id)?, engine.progress(id)?);
        Some(course(spec, &progress, &engine.forecast(id)?))
    };
    Workload { jobs: engine.jobs().filter_map(course).collect() }
}

/// Time that a job trains from its beginning to its end, alone on its gang, seconds.
#[must_use]
pub fn whole_s(job: &WorkloadJob) -> f64 {
    Life(job).seconds(f64::from(job.spec.epochs_total))
}

/// Plays a fork until every job has ended that can, its horizon is reached, or the observer has had
/// enough. `workload` holds the true course of every job of the engine and of `changes`.
///
/// # Errors
/// [`ProductError`] when a setting cannot be, or when the course of a job is missing.
pub fn play_on(
    fork: Fork,
    workload: &Workload,
    policy: &mut dyn Policy,
    predictor: Box<dyn Predictor>,
    observer: &mut dyn Observer,
) -> Result<ForkOutcome, ProductError> {
    let Fork { mut engine, now_s, changes, costs, horizon_s } = fork;
    let known = |id: JobId| workload.jobs.iter().any(|job| job.spec.id == id);
    if let Some(job) = engine.jobs().find(|id| !known(*id)) {
        return Err(ProductError::Unknown { job });
    }
    // The policy's memory goes to and fro with the questions.
    let settings = engine.settings().clone();
    if policy.name() == engine.policy_name() {
        policy.recall(&engine.policy_memory())?;
    }
    engine.reconfigure(settings, Box::new(Remote::of(policy)), predictor)?;
    let joining = changes.iter().filter_map(|change| match change {
        Event::NodeJoined { node, .. } => Some(node.clone()),
        _ => None,
    });
    let nodes = engine.nodes().into_iter().map(|node| node.info).chain(joining);
    let machines = nodes.enumerate().map(|(i, info)| Machine::of(info, Faults::default(), 0, i));
    let machines = machines.collect();
    let mut collector = Collector { from_s: now_s, ends: BTreeMap::new(), observer };
    let mut product = Product::on(workload, engine, machines, policy, &mut collector);
    product.costs = costs;
    product.now_s = now_s;
    product.take_over(changes);
    let complete = product.play(now_s + horizon_s);
    let played_s = product.now_s - now_s;
    Ok(ForkOutcome { ends: collector.ends, played_s, complete })
}

/// Notes how jobs end.
struct Collector<'a> {
    from_s: f64,
    ends: BTreeMap<JobId, ForkEnd>,
    observer: &'a mut dyn Observer,
}

impl Observer for Collector<'_> {
    fn round_ended(&mut self, now_s: f64, done: usize, jobs: usize) {
        self.observer.round_ended(now_s, done, jobs);
    }

    fn goes_on(&mut self) -> bool {
        self.observer.goes_on()
    }

    fn ordered(&mut self, now_s: f64, action: &Action) {
        if let Action::JobEnded { job, outcome, summary } = action {
            let after_s = now_s - self.from_s;
            let end = ForkEnd { outcome: outcome.clone(), after_s, rho: summary.rho };
            self.ends.insert(*job, end);
        }
        self.observer.ordered(now_s, action);
    }
}

impl Product<'_> {
    /// Goes on with the engine's gangs, then lets the changes happen.
    fn take_over(&mut self, changes: Vec<Event>) {
        for job in &mut self.accounts.jobs {
            job.arrived = true;
        }
        for holding in self.engine.holdings().collect::<Vec<_>>() {
            self.take_gang(holding);
        }
        for change in changes {
            self.tell(change);
        }
    }

    fn take_gang(&mut self, holding: Holding) {
        let Holding { job, lease_epoch, parts, .. } = holding;
        let away = parts.iter().any(|part| !self.names.contains_key(&part.node));
        let Some(&place) = self.index.get(&job) else {
            // The job has ended, its processes are about to.
            for part in parts {
                let reason = ReleaseReason::Exited { code: 0 };
                let gone = Event::Released { job, lease_epoch, node: part.node, reason };
                self.later(self.costs.kill_s, What::Tell(gone));
            }
            return;
        };
        if away || parts.is_empty() {
            // Nobody can be heard: the engine waits for the lease's end.
            return;
        }
        let (key, now_s) = ((place, lease_epoch), self.now_s);
        let part = |share: crate::types::NodeShare| {
            let machine = self.names.get(&share.node).copied().unwrap_or(0);
            Part { machine, share, alive: true, since_s: now_s }
        };
        let parts: Vec<Part> = parts.into_iter().map(part).collect();
        let machines: Vec<usize> = parts.iter().map(|part| part.machine).collect();
        let progress = self.engine.progress(job).unwrap_or_default();
        let position = progress.epochs_done();
        self.accounts.jobs[place].resumed(position);
        let ttl_s = holding.expires_s - now_s;
        self.workers.insert(key, Worker::starting(parts, position, now_s, ttl_s));
        self.later(ttl_s.max(0.0), What::Lapses(key));
        if holding.training {
            self.go_on(key);
        } else {
            self.later(self.costs.start_s, What::Ready(key));
        }
        if holding.killing {
            for machine in machines {
                self.later(self.costs.kill_s, What::Reaped(key, machine));
            }
        } else if holding.yielding {
            self.yields(key);
        }
    }

    /// A gang trains already.
    fn go_on(&mut self, key: super::drive::Key) {
        let life = self.accounts.jobs[key.0].life();
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let epoch = worker.epoch;
        worker.phase = Phase::Training;
        worker.epoch_spent_s = (worker.position - f64::from(epoch)).max(0.0) * life.epoch_s(epoch);
        if epoch >= life.epochs() {
            self.set_phase(key, Phase::Done);
            return self.say_finished(key);
        }
        self.pace(key);
        self.renews(key);
    }

    /// Plays until every job has ended that can (then it gives true), or `until_s`.
    fn play(&mut self, until_s: f64) -> bool {
        let mut seen = usize::MAX;
        loop {
            if seen != self.accounts.done {
                seen = self.accounts.done;
                if !self.may_end() {
                    return true;
                }
            }
            if self.now_s >= until_s || !self.observer.goes_on() {
                return false;
            }
            self.step();
            // Jobs may end otherwise than by completion here: a time limit, a cancellation.
            self.failed = None;
        }
    }

    /// Whether a job is left that can end by itself.
    fn may_end(&self) -> bool {
        let prospects = self.engine.prospects();
        self.engine.jobs().any(|id| {
            let standing = self.engine.explain_by(id, &prospects).map(|it| it.standing);
            !matches!(
                standing,
                None | Some(Standing::Held | Standing::Blocked { .. } | Standing::TooLarge { .. })
            )
        })
    }
}

/// A job as it is forecast: its past regimes, then the mean trajectory. Regimes begin with whole
/// epochs here, so speeds are scaled for the rest to take as long as was forecast.
fn course(spec: &JobSpec, progress: &JobProgress, forecast: &Forecast) -> WorkloadJob {
    let mut schedule: Vec<(u32, u32)> = Vec::new();
    let mut begin = |at: f64, batch: u32| {
        let first = if schedule.is_empty() { 0 } else { at.round() as u32 };
        schedule.retain(|segment| segment.0 < first);
        if first < spec.epochs_total && schedule.last().is_none_or(|last| last.1 != batch) {
            schedule.push((first, batch));
        }
    };
    let mut at = 0.0;
    for regime in &progress.regimes {
        begin(at, regime.batch);
        at += regime.epochs;
    }
    for regime in &forecast.regimes {
        begin(at, regime.batch);
        at += regime.epochs;
    }
    if schedule.is_empty() {
        schedule.push((0, spec.initial_batch));
    }
    let steps = |batch: u32| spec.samples_per_epoch as f64 / f64::from(batch.max(1));
    let ahead = forecast.regimes.iter().map(|regime| (regime.batch, regime.epoch_s));
    let past = progress.regimes.iter().filter_map(|it| Some((it.batch, it.epoch_s?)));
    let timed = past.chain(ahead).filter(|(_, epoch_s)| epoch_s.is_finite() && *epoch_s > 0.0);
    let mut speeds: BTreeMap<u32, f64> =
        timed.map(|(batch, epoch_s)| (batch, steps(batch) / epoch_s)).collect();
    let usual = speeds.values().copied().next().unwrap_or(1.0);
    for (_, batch) in &schedule {
        speeds.entry(*batch).or_insert(usual);
    }
    let mut job = WorkloadJob {
        spec: spec.clone(),
        model: String::new(),
        steps_total: 0,
        speeds,
        adapts: Adapts::Never,
        schedule,
        exclusive_s: forecast.total_s,
        slo_s: None,
    };
    let left_s = Life(&job).seconds(f64::from(spec.epochs_total))
        - Life(&job).seconds(progress.epochs_done());
    let wanted_s = forecast.left_s.clamp(LEFT_S.0, LEFT_S.1);
    if left_s > 0.0 {
        job.speeds.values_mut().for_each(|speed| *speed *= left_s / wanted_s);
    }
    job
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::predictor::RegimeForecast;
    use crate::types::{Adaptation, RegimeRecord};

    #[test]
    fn the_rest_takes_as_long_as_was_forecast() {
        let spec = JobSpec {
            id: JobId(1),
            gpus: 1,
            weight: 1.0,
            arrival_s: 0.0,
            epochs_total: 10,
            samples_per_epoch: 640,
            initial_batch: 32,
            adaptation: Adaptation::Gns { initial: 32, max: 64 },
            family: String::new(),
        };
        let progress = JobProgress {
            regimes: vec![RegimeRecord { batch: 32, epochs: 3.25, epoch_s: Some(8.0) }],
            ..JobProgress::default()
        };
        let regime = |batch, epochs, epoch_s| RegimeForecast { batch, epochs, epoch_s };
        let forecast = Forecast {
            regimes: vec![regime(32, 2.6, 8.0), regime(64, 4.15, 5.0)],
            left_s: 41.55,
            total_s: 67.55,
            ..Forecast::default()
        };
        let job = course(&spec, &progress, &forecast);
        assert_eq!(job.schedule, [(0, 32), (6, 64)]);
        let life = Life(&job);
        let left_s = life.seconds(10.0) - life.seconds(3.25);
        assert!((left_s - 41.55).abs() < 1e-9, "{left_s}");
        assert!(life.epoch_s(0) > life.epoch_s(9));
    }
}
