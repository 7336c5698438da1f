//! One record after the other: what each fact means for the engine and the book.
//!
//! Architecture invariant: the same records give the same state, whether they come live or from the
//! log. Nothing here reads a clock, draws a number or does I/O.

use std::collections::BTreeSet;

use shockwave_core::engine::{Engine, Event, KeptWorker, Refusal, ReleaseReason};
use shockwave_core::types::{JobId, NodeId, NodeInfo};
use shockwave_proto::v1;

use super::book::{Book, Job, Node};
use super::notices::Notice;
use super::record::Record;
use super::settings::Configuration;
use super::{actions, translate};

/// The whole state of a coordinator.
pub struct State {
    /// The scheduler.
    pub engine: Engine,
    /// Everything beside it.
    pub book: Book,
    /// What the newest start was configured to.
    pub configuration: Configuration,
    /// From which job tokens and nonces are made; never shown.
    pub secret: String,
}

/// The place of a record in the log.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Number of the record.
    pub number: u64,
    /// Coordinator's clock, seconds.
    pub now_s: f64,
    /// Seconds since 1970.
    pub unix_s: f64,
}

/// What a record has changed.
#[derive(Debug, Default)]
pub struct Effects {
    /// Jobs that look different now.
    pub jobs: BTreeSet<u64>,
    /// Machines that are to run something else now.
    pub nodes: BTreeSet<String>,
    /// The engine's answer to a renewal.
    pub directive: Option<v1::Directive>,
    /// Why the engine did nothing.
    pub refusal: Option<Refusal>,
    /// Jobs that have ended with it.
    pub ended: Vec<u64>,
}

impl State {
    /// Takes one record.
    pub fn apply(&mut self, stamp: Stamp, record: &Record) -> Effects {
        let mut effects = Effects::default();
        self.book.number = stamp.number;
        self.book.now_s = stamp.now_s;
        match record {
            Record::Started { configuration, .. } => {
                self.configure(configuration);
                // Agents join again before anything is started on their machines.
                self.book.nodes.values_mut().for_each(|node| node.lost = true);
                self.feed(stamp, Event::Started, &mut effects);
            }
            Record::Submitted { job, user, key, request } => {
                self.submitted(stamp, (*job, user, key), request, &mut effects);
            }
            Record::Declared { job, declaration, .. } => {
                self.declared(stamp, *job, declaration, &mut effects);
            }
            Record::Reported { job, lease_epoch, events } => {
                self.reported(stamp, (*job, *lease_epoch), events, &mut effects);
            }
            Record::Renewed { job, lease_epoch, position } => {
                self.renewed(stamp, (*job, *lease_epoch), *position, &mut effects);
            }
            Record::Cancelled { job, why } => {
                let event = Event::JobCancelled { job: JobId(*job), why: why.clone() };
                self.feed(stamp, event, &mut effects);
            }
            Record::Held { .. }
            | Record::Attached { .. }
            | Record::Weighed { .. }
            | Record::UserSet { .. }
            | Record::TokenAdded { .. }
            | Record::TokenRevoked { .. }
            | Record::TokenBound { .. }
            | Record::Drained { .. } => self.governed(stamp, record, &mut effects),
            Record::Joined { .. } => self.joined(stamp, record, &mut effects),
            Record::Lost { node, why } => self.lost(stamp, node, why, &mut effects),
            Record::Left { node, .. } => self.left(stamp, node, &mut effects),
            Record::Running { job, lease_epoch, node } => {
                self.running(stamp, (*job, *lease_epoch), node, &mut effects);
            }
            Record::Released { job, lease_epoch, node, reason } => {
                self.let_go(stamp, (*job, *lease_epoch), node, Some(reason), &mut effects);
                let event = Event::Released {
                    job: JobId(*job),
                    lease_epoch: *lease_epoch,
                    node: NodeId(node.clone()),
                    reason: reason.clone(),
                };
                self.feed(stamp, event, &mut effects);
            }
            Record::Planned { answer, solve_s } => {
                self.book.open_plan = None;
                self.book.rounds.solve_s = *solve_s;
                self.feed(stamp, Event::Planned(answer.clone()), &mut effects);
            }
            Record::Notified { up_to } => self.book.outbox.delivered(*up_to),
            Record::Tick => self.feed(stamp, Event::Tick, &mut effects),
        }
        for job in &effects.jobs {
            if let Some(job) = self.book.jobs.get_mut(job) {
                job.changed = stamp.number;
            }
        }
        effects
    }

    /// Goes on with another configuration. One that cannot be was refused before it was logged.
    fn configure(&mut self, configuration: &Configuration) {
        if self.configuration == *configuration {
            return;
        }
        if let Err(error) = configuration.apply_to(&mut self.engine) {
            tracing::error!(%error, "the configuration stays as it was");
            return;
        }
        self.configuration = configuration.clone();
    }

    /// Gives the engine an event and carries its actions into the book.
    pub(super) fn feed(&mut self, stamp: Stamp, event: Event, effects: &mut Effects) {
        for action in self.engine.handle(event, stamp.now_s) {
            actions::carry_out(self, stamp, action, effects);
        }
    }

    fn submitted(
        &mut self,
        stamp: Stamp,
        (id, user, key): (u64, &str, &str),
        request: &v1::JobRequest,
        effects: &mut Effects,
    ) {
        let job = Job::new(id, user.to_owned(), request.clone(), stamp.now_s, stamp.unix_s);
        self.book.jobs.insert(id, job);
        if !key.is_empty() {
            self.book.keys.insert((user.to_owned(), key.to_owned()), id);
        }
        effects.jobs.insert(id);
        let submission = translate::submission(id, user, request, stamp.now_s);
        self.feed(stamp, Event::JobSubmitted(Box::new(submission)), effects);
    }

    fn declared(
        &mut self,
        stamp: Stamp,
        id: u64,
        declaration: &v1::Declaration,
        effects: &mut Effects,
    ) {
        let Some(job) = self.book.jobs.get_mut(&id) else { return };
        if !std::mem::replace(&mut job.has_sdk, true) {
            // Its machines' agents keep its lease no longer.
            let leases = self.book.leases.range((id, 0)..=(id, u64::MAX));
            let nodes = leases.flat_map(|(_, lease)| lease.holders().map(str::to_owned));
            effects.nodes.extend(nodes);
        }
        if job.request.declaration.as_ref() == Some(declaration) {
            return;
        }
        job.request.declaration = Some(declaration.clone());
        effects.jobs.insert(id);
        let declaration = Box::new(translate::declaration(declaration));
        self.feed(stamp, Event::JobDeclared { job: JobId(id), declaration }, effects);
    }

    fn renewed(
        &mut self,
        stamp: Stamp,
        (id, lease_epoch): (u64, u64),
        position: Option<v1::Position>,
        effects: &mut Effects,
    ) {
        let mut epochs_done = None;
        if let (Some(job), Some(position)) = (self.book.jobs.get_mut(&id), position) {
            job.position = Some(position);
            epochs_done = Some(job.epochs_at(position.epoch, position.sample));
        }
        self.feed(stamp, Event::LeaseRenewed { job: JobId(id), lease_epoch, epochs_done }, effects);
    }

    fn running(
        &mut self,
        stamp: Stamp,
        (id, lease_epoch): (u64, u64),
        node: &str,
        effects: &mut Effects,
    ) {
        let Some(lease) = self.book.leases.get_mut(&(id, lease_epoch)) else { return };
        lease.running.insert(node.to_owned());
        let whole = lease.is_whole();
        let Some(job) = self.book.jobs.get_mut(&id) else { return };
        job.started_unix_s.get_or_insert(stamp.unix_s);
        effects.jobs.insert(id);
        // A job of the SDK says itself where it goes on; a plain command just runs.
        if whole && !job.has_sdk {
            let event = Event::WorkerStarted { job: JobId(id), lease_epoch, epochs_done: 0.0 };
            self.feed(stamp, event, effects);
        }
    }

    fn joined(&mut self, stamp: Stamp, record: &Record, effects: &mut Effects) {
        let Record::Joined { node: name, instance, address, devices, keeps, until_s, machine } =
            record
        else {
            return;
        };
        // The agent may not have heard of its newest leases: they are still to be started.
        let unheard = self.book.leases.values().filter(|lease| {
            lease.holders().any(|holder| holder == name) && !lease.running.contains(name)
        });
        let unheard: Vec<_> = unheard.map(|lease| (lease.job, lease.epoch)).collect();
        let kept: BTreeSet<_> = keeps.iter().copied().chain(unheard).collect();
        let gone: Vec<_> = self
            .book
            .leases
            .iter()
            .filter(|(key, lease)| {
                lease.holders().any(|holder| holder == name) && !kept.contains(key)
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            self.let_go(stamp, key, name, None, effects);
        }
        let node = Node {
            instance: instance.clone(),
            address: address.clone(),
            devices: devices.clone(),
            machine: machine.clone(),
            lost: false,
            drained: self.book.nodes.get(name).is_some_and(|node| node.drained),
        };
        self.book.nodes.insert(name.clone(), node);
        effects.nodes.insert(name.clone());
        let slots = |key: &(u64, u64)| {
            let lease = self.book.leases.get(key);
            let parts = lease.map(|lease| lease.placement.parts.as_slice()).unwrap_or_default();
            parts.iter().find(|part| part.node.0 == *name).map(|part| part.slots.clone())
        };
        let keeps = kept
            .iter()
            .map(|key| KeptWorker {
                job: JobId(key.0),
                lease_epoch: key.1,
                slots: slots(key).unwrap_or_default(),
            })
            .collect();
        let info = NodeInfo {
            node: NodeId(name.clone()),
            devices: devices.iter().map(translate::device).collect(),
            until_s: *until_s,
        };
        self.feed(stamp, Event::NodeJoined { node: info, keeps }, effects);
    }

    fn lost(&mut self, stamp: Stamp, node: &str, why: &str, effects: &mut Effects) {
        if let Some(known) = self.book.nodes.get_mut(node) {
            known.lost = true;
        }
        let node = NodeId(node.to_owned());
        let event = Event::NodeLost { node, why: why.to_owned(), processes_gone: false };
        self.feed(stamp, event, effects);
    }

    fn left(&mut self, stamp: Stamp, node: &str, effects: &mut Effects) {
        let held = self.book.leases.values().filter(|lease| lease.holders().any(|it| it == node));
        let held: Vec<_> = held.map(|lease| (lease.job, lease.epoch)).collect();
        for key in held {
            self.let_go(stamp, key, node, Some(&ReleaseReason::NodeLeaving), effects);
        }
        self.book.nodes.remove(node);
        self.feed(stamp, Event::NodeLeft { node: NodeId(node.to_owned()) }, effects);
    }

    /// A machine has let go of a lease.
    fn let_go(
        &mut self,
        stamp: Stamp,
        key: (u64, u64),
        node: &str,
        reason: Option<&ReleaseReason>,
        effects: &mut Effects,
    ) {
        effects.nodes.insert(node.to_owned());
        effects.jobs.insert(key.0);
        self.book.end_stint(key, node, stamp.unix_s);
        if let Some(job) = self.book.jobs.get_mut(&key.0) {
            translate::note_release(job, key.1, reason);
        }
        let Some(lease) = self.book.leases.get_mut(&key) else { return };
        lease.released.insert(node.to_owned());
        lease.running.remove(node);
        if lease.holders().next().is_some() {
            return;
        }
        let was_asked = lease.stop.is_some();
        self.book.leases.remove(&key);
        if let Some(job) = self.book.jobs.get_mut(&key.0)
            && was_asked
            && job.end.is_none()
        {
            job.preemptions += 1;
            self.notify(stamp, key.0, "yielded");
        }
    }

    /// Notes that others are to be told of a job.
    pub(super) fn notify(&mut self, stamp: Stamp, id: u64, event: &str) {
        let Some(job) = self.book.jobs.get(&id).filter(|_| self.configuration.notices) else {
            return;
        };
        let summary = job.end.as_ref().map(|end| &end.summary);
        let notice = Notice {
            number: 0,
            event: event.to_owned(),
            job: id,
            name: job.request.name.clone(),
            user: job.user.clone(),
            at_unix_s: stamp.unix_s,
            reason: job.note.clone(),
            jct_s: summary.map(|summary| summary.jct_s),
            rho: summary.and_then(|summary| summary.rho),
        };
        self.book.outbox.push(notice);
    }
}
