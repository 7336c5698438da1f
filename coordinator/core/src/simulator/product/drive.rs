//! The loop: what happens next, told to the engine, and what the engine orders, carried out.

use std::collections::{BTreeMap, HashMap};

use super::account::Accounts;
use super::machines::Machine;
use super::queue::Queue;
use super::remote::Remote;
use super::worker::Worker;
use super::{Costs, ProductError, Setting};
use crate::engine::{Engine, Event, Outcome as JobEnd, ReleaseReason, Submission, Terms};
use crate::policies::Policy;
use crate::predictor::Predictor;
use crate::simulator::faults::{Delays, Faults};
use crate::simulator::observer::Observer;
use crate::simulator::report::Outcome;
use crate::simulator::workload::Workload;
use crate::types::{JobId, NodeId};

/// A gang: the job's place in the trace, and the lease.
pub(super) type Key = (usize, u64);

/// Something that will happen.
#[derive(Debug)]
pub(super) enum What {
    /// A job arrives.
    Arrives(usize),
    /// A message reaches the engine.
    Tell(Event),
    /// A gang's state is restored.
    Ready(Key),
    /// An epoch ends, unless the gang's pace has changed since.
    EpochEnds(Key, u64),
    /// A gang renews its lease.
    Renews(Key),
    /// A checkpoint written in order to yield is complete.
    Saved(Key),
    /// A gang's processes end.
    Exits(Key, ReleaseReason),
    /// A gang's lease may have run out.
    Lapses(Key),
    /// A gang has waited long enough for a part that is gone.
    GivesUp(Key),
    /// Killed processes are gone from a machine.
    Reaped(Key, usize),
    /// A machine is lost.
    Fails(usize),
    /// A machine's silence is noticed, unless it is back since (the number of its outage).
    Missed(usize, u64),
    /// A machine is back.
    Returns(usize),
    /// A machine becomes slow, for so long.
    Slows(usize, f64),
    /// A machine is as fast as before.
    Recovers(usize),
    /// An operator has looked at a machine that was set aside.
    Repaired(NodeId),
}

/// Failures in a row that a job may have: nothing in a simulation is the job's own fault.
const RETRIES: u32 = 1_000_000;
/// Jobs are taken for stuck after so many times the time that they need.
const PATIENCE: f64 = 200.0;

/// A simulation.
pub(super) struct Product<'a> {
    pub(super) engine: Engine,
    pub(super) policy: &'a mut dyn Policy,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) costs: Costs,
    pub(super) gpus: u32,
    pub(super) gpus_per_node: u32,
    pub(super) queue: Queue<What>,
    pub(super) now_s: f64,
    pub(super) accounts: Accounts<'a>,
    pub(super) index: HashMap<JobId, usize>,
    pub(super) workers: BTreeMap<Key, Worker>,
    pub(super) machines: Vec<Machine>,
    pub(super) names: HashMap<NodeId, usize>,
    pub(super) delays: Delays,
    /// Why it cannot go on.
    pub(super) failed: Option<ProductError>,
    /// Jobs that are left then are stuck, seconds.
    limit_s: f64,
}

impl<'a> Product<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        setting: &Setting,
        policy: &'a mut dyn Policy,
        predictor: Box<dyn Predictor>,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, ProductError> {
        let remote = Box::new(Remote::of(policy));
        let engine = Engine::new(setting.engine.clone(), remote, predictor)?;
        let machines = Machine::all(setting);
        let mut product = Self::on(workload, engine, machines, policy, observer);
        product.costs = setting.costs;
        product.gpus_per_node = setting.gpus_per_node.max(1);
        product.delays = Delays::new(&setting.faults, setting.seed);
        for (job, plan) in workload.jobs.iter().enumerate() {
            product.queue.push(plan.spec.arrival_s, What::Arrives(job));
        }
        Ok(product)
    }

    /// An engine with its machines at time 0, without faults, in which nothing happens yet.
    pub(super) fn on(
        workload: &'a Workload,
        engine: Engine,
        machines: Vec<Machine>,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let names = machines.iter().enumerate().map(|(i, m)| (m.info.node.clone(), i)).collect();
        let sizes = machines.iter().map(|machine| machine.info.devices.len() as u32);
        let (gpus, largest) = (sizes.clone().sum(), sizes.max().unwrap_or(1).max(1));
        Self {
            engine,
            policy,
            observer,
            costs: Costs::default(),
            gpus,
            gpus_per_node: largest,
            queue: Queue::new(),
            now_s: 0.0,
            accounts: Accounts::new(workload.jobs.iter()),
            index: workload.jobs.iter().enumerate().map(|(i, j)| (j.spec.id, i)).collect(),
            workers: BTreeMap::new(),
            machines,
            names,
            delays: Delays::new(&Faults::default(), 0),
            failed: None,
            limit_s: patience_s(workload, gpus),
        }
    }

    /// Plays until every job has ended.
    pub(super) fn run(mut self) -> Result<Outcome, ProductError> {
        self.tell(Event::Started);
        self.join_all();
        while self.accounts.done < self.accounts.jobs.len() {
            self.step();
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.now_s > self.limit_s
                && let Some((job, others)) = self.accounts.unfinished()
            {
                return Err(ProductError::Stalled { job, others, at_s: self.now_s });
            }
        }
        self.vacate_everything();
        Ok(self.accounts.into_outcome(self.gpus))
    }

    /// Does what is next: something that happens, or what the engine wants to be woken for.
    pub(super) fn step(&mut self) {
        let wake_s = self.engine.wake_s().unwrap_or(f64::INFINITY);
        match self.queue.next_s() {
            Some(at_s) if at_s <= wake_s => {
                if let Some((at_s, what)) = self.queue.pop() {
                    self.now_s = self.now_s.max(at_s);
                    self.happens(what);
                }
            }
            None if wake_s.is_infinite() => self.now_s = f64::INFINITY,
            _ => {
                self.now_s = self.now_s.max(wake_s);
                self.tell(Event::Tick);
            }
        }
    }

    fn happens(&mut self, what: What) {
        match what {
            What::Arrives(job) => self.arrive(job),
            What::Tell(event) => self.tell(event),
            What::Ready(key) => self.ready(key),
            What::EpochEnds(key, turn) => self.epoch_ends(key, turn),
            What::Renews(key) => self.renews(key),
            What::Saved(key) => self.saved(key),
            What::Exits(key, reason) => self.exits(key, &reason),
            What::Lapses(key) => self.lapses(key),
            What::GivesUp(key) => self.gives_up(key),
            What::Reaped(key, machine) => self.reaped(key, machine),
            What::Fails(machine) => self.fails(machine),
            What::Missed(machine, outage) => self.missed(machine, outage),
            What::Returns(machine) => self.returns(machine),
            What::Slows(machine, lasts_s) => self.slows(machine, lasts_s),
            What::Recovers(machine) => self.recovers(machine),
            What::Repaired(node) => self.repaired(node),
        }
    }

    /// Tells the engine an event now, and carries out what it orders.
    pub(super) fn tell(&mut self, event: Event) {
        self.observer.told(self.now_s, &event);
        for action in self.engine.handle(event, self.now_s) {
            self.observer.ordered(self.now_s, &action);
            self.obey(action);
        }
    }

    /// Lets something happen after some time, seconds.
    pub(super) fn later(&mut self, after_s: f64, what: What) {
        self.queue.push(self.now_s + after_s, what);
    }

    fn arrive(&mut self, job: usize) {
        let account = &mut self.accounts.jobs[job];
        account.arrived = true;
        let submission = Submission {
            spec: account.plan.spec.clone(),
            user: String::new(),
            demand: crate::engine::Demand::default(),
            terms: Terms { retries: Some(RETRIES), ..Terms::default() },
            after: Vec::new(),
            held: false,
        };
        self.tell(Event::JobSubmitted(Box::new(submission)));
    }

    pub(super) fn job_ended(&mut self, id: JobId, outcome: &JobEnd) {
        if !matches!(outcome, JobEnd::Finished { .. }) {
            let outcome = format!("{outcome:?}");
            self.failed = Some(ProductError::Unfinished { job: id, outcome });
        }
        if let Some(&job) = self.index.get(&id) {
            self.accounts.ended(job, self.now_s);
        }
    }
}

/// When jobs that have not ended are stuck, seconds.
fn patience_s(workload: &Workload, gpus: u32) -> f64 {
    let last_s = workload.jobs.iter().map(|job| job.spec.arrival_s).fold(0.0, f64::max);
    let longest_s = workload.jobs.iter().map(|job| job.exclusive_s).fold(0.0, f64::max);
    let work: f64 =
        workload.jobs.iter().map(|job| job.exclusive_s * f64::from(job.spec.gpus)).sum();
    last_s + PATIENCE * (longest_s + work / f64::from(gpus.max(1))) + 100_000.0
}
