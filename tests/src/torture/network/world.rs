//! The simulated cluster: a coordinator, machines, a network, faults; and what must hold.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave::grpc::agent::{sync_reply, take_join, take_sync};
use shockwave::grpc::worker::{take_declaration, take_renewal, take_report};
use shockwave::service::apply::{Stamp, State};
use shockwave::service::clock::Clock;
use shockwave::service::owner::Owner;
use shockwave::service::record::Record;
use shockwave::service::settings::Configuration;
use shockwave::store::{StoreInfo, WriterState};
use shockwave_core::engine::{Outcome, Planning};
use shockwave_proto::v1;
use tonic::Status;

use super::super::Tally;
use super::machine::{End, Key, Machine};
use super::memory::Memory;
use super::message::{Down, Packet, Up};
use super::process::{JobDisk, Process, Work, declaration};

/// Faults happen until then, seconds.
const FAULTS_UNTIL_S: f64 = 240.0;
/// By then everything has to be done, seconds.
const END_S: f64 = 3000.0;
/// Processes and runners act so often, seconds.
const STEP_S: f64 = 0.5;
const SECRET: &str = "torture";

/// What happens at a moment.
#[derive(Clone, Debug)]
enum Event {
    Arrives(usize, Box<Packet>),
    /// The log is durable up to here, in this incarnation.
    Written(u64, u64),
    Step,
    Second,
    Fault,
    Restart,
    /// A held exchange is answered at the latest.
    HoldOver(u64),
}

/// An exchange that the coordinator holds open.
struct Hold {
    id: u64,
    machine: usize,
    exchange: u64,
    sent_s: f64,
    seen: u64,
    is_due: bool,
}

/// Everything.
pub(super) struct World {
    random: ChaCha8Rng,
    now_s: f64,
    clock: Arc<AtomicU64>,
    queue: BTreeMap<(u64, u64), Event>,
    ordinal: u64,
    log: Memory,
    noted: u64,
    durable: u64,
    epoch: u64,
    owner: Option<Owner>,
    outbox: Arc<Mutex<Vec<(usize, Down, f64)>>>,
    holds: Vec<Hold>,
    machines: Vec<Machine>,
    /// Until when nothing passes: to the coordinator, and from it.
    cut_s: Vec<(f64, f64)>,
    works: BTreeMap<u64, Work>,
    disks: BTreeMap<u64, JobDisk>,
    /// Highest acknowledged event by job, and epochs in its newest acknowledged checkpoint.
    told: BTreeMap<u64, (u64, u32)>,
    /// Jobs whose process has said that it is complete, or exited with code 0.
    completed: BTreeMap<u64, bool>,
    loss: f64,
    last_tick_s: f64,
    double: Vec<String>,
}

fn configuration() -> Configuration {
    let mut configuration =
        Configuration { policy: "gandiva-fair".into(), ..Configuration::default() };
    let engine = &mut configuration.engine;
    engine.planning = Planning::Inline;
    engine.round_s = 20.0;
    engine.lead_s = 2.0;
    engine.plan_budget_s = 1.0;
    engine.ttl_s = 30.0;
    engine.grace_s = 6.0;
    engine.kill_wait_s = 3.0;
    engine.reconnect_s = 20.0;
    engine.min_run_s = 3.0;
    engine.restart_s = 2.0;
    engine.retries = 1000;
    engine.backoff_s = 1.0;
    engine.backoff_max_s = 5.0;
    engine.node_failures_max = u32::MAX;
    configuration
}

impl World {
    pub(super) fn new(seed: u64) -> Result<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let count = random.random_range(1..=3);
        let machines = (0..count).map(|index| Machine::new(index, random.random_range(1..=2)));
        let machines: Vec<Machine> = machines.collect();
        let loss = if random.random_bool(0.5) { 0.0 } else { random.random_range(0.0..0.2) };
        let mut world = Self {
            now_s: 0.0,
            clock: Arc::new(AtomicU64::new(0)),
            queue: BTreeMap::new(),
            ordinal: 0,
            log: Memory::default(),
            noted: 0,
            durable: 0,
            epoch: 0,
            owner: None,
            outbox: Arc::default(),
            holds: Vec::new(),
            cut_s: vec![(0.0, 0.0); machines.len()],
            machines,
            works: BTreeMap::new(),
            disks: BTreeMap::new(),
            told: BTreeMap::new(),
            completed: BTreeMap::new(),
            loss,
            last_tick_s: 0.0,
            double: Vec::new(),
            random,
        };
        world.start_coordinator()?;
        world.submit()?;
        for (after_s, event) in [(0.1, Event::Step), (1.0, Event::Second), (5.0, Event::Fault)] {
            world.at(after_s, event);
        }
        Ok(world)
    }

    fn at(&mut self, after_s: f64, event: Event) {
        self.ordinal += 1;
        let micros = ((self.now_s + after_s) * 1e6) as u64;
        self.queue.insert((micros, self.ordinal), event);
    }

    /// Jobs of all kinds that fit on the machines.
    fn submit(&mut self) -> Result<()> {
        let gpus_max = self.machines.iter().map(|machine| machine.devices).sum::<u32>().min(3);
        for job in 1..=self.random.random_range(2..=5_u64) {
            let work = Work {
                has_sdk: self.random.random_bool(0.7),
                epochs: self.random.random_range(2..=8),
                epoch_s: self.random.random_range(1.0..6.0),
                is_deaf: self.random.random_bool(0.15),
            };
            let gpus = self.random.random_range(1..=gpus_max);
            let request = v1::JobRequest {
                name: format!("job {job}"),
                command: vec!["train".into()],
                working_dir: "/".into(),
                gpus,
                workers: gpus,
                weight: 1.0,
                // What a plain command does not survive is its own fault; training's is not.
                retries: if work.has_sdk { 0 } else { 1000 },
                declaration: work.has_sdk.then(|| declaration(&work)),
                ..v1::JobRequest::default()
            };
            let (user, key) = ("ada".to_owned(), format!("key {job}"));
            let record = Record::Submitted { job, user, key, request: Box::new(request) };
            self.works.insert(job, work);
            self.disks.insert(job, JobDisk::default());
            let owner = self.owner.as_mut().context("it runs")?;
            owner.append(&record).map_err(refused)?;
        }
        self.after_call();
        // Acknowledged: from now on it may not be lost.
        self.written(self.log.last());
        Ok(())
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            path: "/nowhere".into(),
            epoch: self.epoch,
            made_unix_s: 0.0,
            secret: SECRET.into(),
            last_number: self.log.last(),
            last_now_s: self.log.records().last().map_or(0.0, |record| record.now_s),
        }
    }

    /// What the durable log adds up to.
    fn replay(&self) -> Result<State> {
        let mut state = State::empty(&configuration(), SECRET)?;
        for new in self.log.records().iter() {
            let stamp = Stamp { number: new.number, now_s: new.now_s, unix_s: new.unix_s };
            state.apply(stamp, &Record::decode(new.number, &new.body)?);
        }
        Ok(state)
    }

    fn start_coordinator(&mut self) -> Result<()> {
        self.epoch += 1;
        let state = self.replay()?;
        self.check_kept(&state)?;
        let (log, clock) = (Box::new(self.log.clone()), Clock::driven(Arc::clone(&self.clock)));
        let mut owner = Owner::new(state, self.info(), log, clock);
        (self.noted, self.durable) = (self.log.last(), self.log.last());
        let configuration = Box::new(configuration());
        let started = Record::Started { configuration, program: "torture".into() };
        owner.append(&started).map_err(refused)?;
        self.owner = Some(owner);
        self.after_call();
        Ok(())
    }

    /// kill -9: what was not durable may be there or not, from its end backwards.
    fn crash(&mut self) {
        self.owner = None;
        self.holds.clear();
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let kept = self.random.random_range(self.durable..=self.log.last());
        self.log.records().truncate(kept as usize);
        let down_s = [0.5, 3.0, 15.0, 45.0][self.random.random_range(0..4)];
        self.at(down_s, Event::Restart);
    }

    /// P1: everything that anybody was told is there.
    fn check_kept(&self, state: &State) -> Result<()> {
        for (job, (acknowledged, epochs)) in &self.told {
            let known = state.book.jobs.get(job).with_context(|| format!("job {job} is lost"))?;
            let got = known.acknowledged;
            ensure!(got >= *acknowledged, "job {job}: event {acknowledged} is lost, {got} is left");
            let saved = known.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.epoch);
            ensure!(saved >= *epochs, "job {job}: checkpoint {epochs} is lost, {saved} is left");
        }
        Ok(())
    }

    /// Plays it to its end.
    pub(super) fn play(mut self, tally: &mut Tally) -> Result<()> {
        let result = self.run(tally);
        tally.double += self.double.len() as u64;
        let at = format!("at {:.1} s", self.now_s);
        result.context(at)?;
        if let Some(double) = self.double.first() {
            bail!("{double}");
        }
        Ok(())
    }

    fn run(&mut self, tally: &mut Tally) -> Result<()> {
        while !self.is_over() {
            let next_s = self.queue.first_key_value().map_or(END_S, |(at, _)| at.0 as f64 / 1e6);
            let wake_s = self.owner.as_ref().and_then(|owner| owner.state.engine.wake_s());
            let wake_s = wake_s.map_or(f64::INFINITY, |at| at.max(self.last_tick_s + 0.001));
            self.set_now(next_s.min(wake_s).max(self.now_s));
            if wake_s < next_s {
                self.last_tick_s = self.now_s;
                self.call(|owner| owner.tick());
            } else if let Some((_, event)) = self.queue.pop_first() {
                self.happens(event, tally)?;
            }
            ensure!(self.now_s < END_S, "not over after {END_S} s: {}", self.open());
        }
        self.check_end(tally)
    }

    fn set_now(&mut self, now_s: f64) {
        self.now_s = now_s;
        self.clock.store(now_s.to_bits(), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let ended = |owner: &Owner| owner.state.book.active().next().is_none();
        self.owner.as_ref().is_some_and(ended) && self.now_s > FAULTS_UNTIL_S
    }

    fn open(&self) -> String {
        let Some(owner) = &self.owner else { return "no coordinator".into() };
        let open = owner.state.book.active();
        let open = open.map(|job| format!("job {}: {:?} {}", job.id, job.lease_epoch, job.note));
        let machines = self.machines.iter().map(|machine| (&machine.name, &machine.leases));
        let leases: Vec<_> = owner.state.engine.leases().collect();
        let machines: Vec<_> = machines.collect();
        format!("{:?}; leases {leases:?}; machines {machines:?}", open.collect::<Vec<_>>())
    }

    fn happens(&mut self, event: Event, tally: &mut Tally) -> Result<()> {
        match event {
            Event::Arrives(machine, packet) => match *packet {
                Packet::Up(up, sent_s) => self.handle(machine, up, sent_s),
                Packet::Down(down, sent_s) => self.hear(machine, down, sent_s, tally)?,
            },
            Event::Written(epoch, number) if epoch == self.epoch && self.owner.is_some() => {
                self.written(number);
            }
            Event::Written(..) => {}
            Event::Step => {
                self.step()?;
                self.at(STEP_S, Event::Step);
            }
            Event::Second => {
                self.call(|owner| owner.each_second());
                self.at(1.0, Event::Second);
            }
            Event::Fault => self.fault(),
            Event::Restart => self.start_coordinator()?,
            Event::HoldOver(id) => {
                if let Some(hold) = self.holds.iter_mut().find(|hold| hold.id == id) {
                    hold.is_due = true;
                }
                self.after_call();
            }
        }
        Ok(())
    }

    /// Something breaks.
    fn fault(&mut self) {
        let machine = self.random.random_range(0..self.machines.len());
        let for_s: f64 = self.random.random_range(1.0..90.0);
        let until_s = self.now_s + for_s;
        match self.random.random_range(0..9) {
            0 | 1 => self.cut_s[machine] = (until_s, until_s),
            2 => self.cut_s[machine].0 = until_s,
            3 => self.cut_s[machine].1 = until_s,
            4 => self.machines[machine].restart_agent(self.now_s + for_s / 3.0),
            5 => self.machines[machine].reboot(),
            6 => self.freeze(machine, until_s),
            _ if self.owner.is_some() => self.crash(),
            _ => {}
        }
        let pause_s = self.random.random_range(2.0..40.0);
        if self.now_s + pause_s < FAULTS_UNTIL_S {
            self.at(pause_s, Event::Fault);
        }
    }

    /// SIGSTOP of one process.
    fn freeze(&mut self, machine: usize, until_s: f64) {
        let processes = self.machines[machine].leases.values_mut();
        if let Some(process) = processes.filter_map(|local| local.process.as_mut()).next() {
            process.frozen_until_s = until_s;
        }
    }

    // ------------------------------------------------------------------------- the coordinator

    /// Lets the coordinator do something, if it lives.
    fn call(&mut self, work: impl FnOnce(&mut Owner)) {
        if let Some(owner) = &mut self.owner {
            work(owner);
        }
        self.after_call();
    }

    /// What follows from a call: writes get durable, held exchanges are answered, answers go out.
    fn after_call(&mut self) {
        let last = self.log.last();
        if last > self.noted && self.owner.is_some() {
            self.noted = last;
            let after_s = self.random.random_range(0.001..0.03);
            self.at(after_s, Event::Written(self.epoch, last));
        }
        self.answer_holds();
        let out = std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        for (machine, down, sent_s) in out {
            self.send(machine, Packet::Down(down, sent_s));
        }
    }

    fn written(&mut self, number: u64) {
        self.durable = self.durable.max(number);
        let state = WriterState { durable: self.durable, ..WriterState::default() };
        self.call(|owner| owner.on_written(&state));
    }
}

fn refused(status: Status) -> anyhow::Error {
    anyhow::anyhow!("refused: {}", status.message())
}

mod calls;
mod machines;
