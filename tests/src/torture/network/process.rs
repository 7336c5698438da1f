//! A training process: the SDK's rules, or a plain command.

use shockwave_proto::v1::declaration::Policy;
use shockwave_proto::v1::directive::Kind as Told;
use shockwave_proto::v1::event::Kind;
use shockwave_proto::v1::{
    CheckpointSaved, Declaration, Directive, EpochDone, Event, Finished, LeaseRef, Position,
    Started, Static, Yielded,
};

/// Samples of an epoch, and steps.
const SAMPLES: u64 = 100;
/// Time to write a checkpoint and end, seconds.
const PARKING_S: f64 = 1.5;
/// How long a process that ends waits for its events to be acknowledged, seconds.
const FLUSH_S: f64 = 2.0;

/// What a job's processes share on disk.
#[derive(Clone, Debug, Default)]
pub(super) struct JobDisk {
    /// Events from number 1 on.
    pub(super) events: Vec<Event>,
    /// Epochs in the newest checkpoint.
    pub(super) checkpoint: u32,
    /// The newest lease that has written here.
    pub(super) lease_epoch: u64,
}

/// What a job does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Whether it speaks; else it is a plain command.
    pub(super) has_sdk: bool,
    /// Epochs, or (a command) the whole.
    pub(super) epochs: u32,
    /// Time of an epoch, seconds.
    pub(super) epoch_s: f64,
    /// Whether it does nothing about requests to end.
    pub(super) is_deaf: bool,
}

/// What training is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Training,
    /// It ends with this code at this moment at the latest, or once it is acknowledged.
    Ending {
        code: i32,
        at_s: f64,
        least_s: f64,
    },
}

/// A process that runs.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) lease: LeaseRef,
    pub(super) work: Work,
    pub(super) is_chief: bool,
    /// Nothing happens in it until then (SIGSTOP).
    pub(super) frozen_until_s: f64,
    ttl_s: f64,
    grace_s: f64,
    renewed_s: f64,
    ask_renewal_s: f64,
    yield_by_s: Option<f64>,
    revoked: bool,
    sigterm: bool,
    declared: bool,
    acknowledged: u64,
    done_epochs: f64,
    worked_s: f64,
    doing: Doing,
}

/// What a process wants after a step.
#[derive(Debug, Default)]
pub(super) struct Wants {
    pub(super) declare: bool,
    pub(super) renew: Option<Position>,
    pub(super) report: Vec<Event>,
    /// It ends with this code.
    pub(super) exit: Option<i32>,
}

pub(super) fn declaration(work: &Work) -> Declaration {
    Declaration {
        epochs_total: work.epochs,
        samples_per_epoch: SAMPLES,
        initial_batch: 10,
        family: "torture".into(),
        policy: Some(Policy::Static(Static {})),
    }
}

impl Process {
    pub(super) fn start(
        lease: LeaseRef,
        work: Work,
        is_chief: bool,
        (ttl_s, grace_s): (f64, f64),
        now_s: f64,
        disk: &mut JobDisk,
    ) -> Self {
        let done = if work.has_sdk { disk.checkpoint } else { 0 };
        let mut process = Self {
            lease,
            work,
            is_chief,
            frozen_until_s: 0.0,
            ttl_s,
            grace_s,
            renewed_s: now_s,
            ask_renewal_s: now_s + ttl_s / 3.0,
            yield_by_s: None,
            revoked: false,
            sigterm: false,
            declared: false,
            acknowledged: 0,
            done_epochs: f64::from(done),
            worked_s: 0.0,
            doing: Doing::Training,
        };
        if work.has_sdk && is_chief {
            let kind = Kind::Started(Started { epoch: done, batch: 10, ..Started::default() });
            process.say(disk, kind, now_s);
        }
        process
    }

    /// Whether it computes at this moment: what P2 forbids twice.
    pub(super) fn is_in_use(&self, now_s: f64) -> bool {
        let parked = self.work.has_sdk && now_s >= self.renewed_s + self.ttl_s + self.grace_s;
        self.doing == Doing::Training && !parked && self.frozen_until_s <= now_s
    }

    /// Writes an event to the spool, unless a newer process has taken it over.
    fn say(&mut self, disk: &mut JobDisk, kind: Kind, now_s: f64) {
        if disk.lease_epoch > self.lease.lease_epoch {
            return;
        }
        disk.lease_epoch = self.lease.lease_epoch;
        disk.events.push(Event {
            number: disk.events.len() as u64 + 1,
            lease_epoch: self.lease.lease_epoch,
            at_unix_s: now_s,
            kind: Some(kind),
        });
    }

    pub(super) fn terminate(&mut self) {
        self.sigterm = true;
    }

    pub(super) fn hear_declared(&mut self, acknowledged: u64) {
        self.declared = true;
        self.acknowledged = self.acknowledged.max(acknowledged);
    }

    pub(super) fn hear_reported(&mut self, acknowledged: u64) {
        self.acknowledged = self.acknowledged.max(acknowledged);
    }

    pub(super) fn hear_refusal(&mut self) {
        self.revoked = true;
    }

    pub(super) fn hear_directive(&mut self, directive: Directive, sent_s: f64) {
        match directive.kind {
            Some(Told::Extended(it)) if sent_s >= self.renewed_s && self.yield_by_s.is_none() => {
                self.ttl_s = it.ttl_ms as f64 / 1000.0;
                self.renewed_s = sent_s;
            }
            Some(Told::YieldBy(it)) => {
                let by_s = sent_s + it.deadline_ms as f64 / 1000.0;
                self.yield_by_s = Some(self.yield_by_s.map_or(by_s, |first| first.min(by_s)));
            }
            Some(Told::Revoked(_)) => self.revoked = true,
            _ => {}
        }
    }

    /// `passed_s` of time have gone by until `now_s`.
    pub(super) fn step(&mut self, now_s: f64, passed_s: f64, disk: &mut JobDisk) -> Wants {
        let mut wants = Wants::default();
        if !self.work.has_sdk {
            self.worked_s += passed_s;
            let whole_s = f64::from(self.work.epochs) * self.work.epoch_s;
            wants.exit = (self.worked_s >= whole_s).then_some(0);
            return wants;
        }
        match self.doing {
            Doing::Training => self.train(now_s, passed_s, disk),
            Doing::Ending { code, at_s, least_s } => {
                let all = self.acknowledged >= disk.events.len() as u64 || !self.is_chief;
                if self.revoked || now_s >= at_s || (all && now_s >= least_s) {
                    wants.exit = Some(code);
                    return wants;
                }
            }
        }
        if self.is_chief {
            self.speak(now_s, disk, &mut wants);
        }
        wants
    }

    fn speak(&mut self, now_s: f64, disk: &JobDisk, wants: &mut Wants) {
        wants.declare = !self.declared;
        if now_s >= self.ask_renewal_s {
            self.ask_renewal_s = now_s + self.ttl_s / 3.0;
            let epoch = self.done_epochs as u32;
            let sample = ((self.done_epochs - f64::from(epoch)) * SAMPLES as f64) as u64;
            wants.renew = Some(Position { epoch, sample, batch: 10, ..Position::default() });
        }
        if self.declared {
            let unacknowledged = disk.events.iter().skip(self.acknowledged as usize);
            wants.report = unacknowledged.take(256).cloned().collect();
        }
    }

    fn train(&mut self, now_s: f64, passed_s: f64, disk: &mut JobDisk) {
        if self.revoked {
            self.doing = Doing::Ending { code: 75, at_s: now_s, least_s: now_s };
            return;
        }
        let parks = now_s >= self.renewed_s + self.ttl_s + self.grace_s;
        if parks || ((self.yield_by_s.is_some() || self.sigterm) && !self.work.is_deaf) {
            let epoch = self.done_epochs as u32;
            self.checkpoint(epoch, now_s, disk);
            let cause = if parks { "ttl" } else { "yield" };
            let kind = Kind::Yielded(Yielded { epoch, step: 0, cause: cause.into() });
            if self.is_chief {
                self.say(disk, kind, now_s);
            }
            self.end(75, now_s);
            return;
        }
        let before = self.done_epochs as u32;
        self.done_epochs += passed_s / self.work.epoch_s;
        for epoch in before..(self.done_epochs as u32).min(self.work.epochs) {
            let done = EpochDone {
                epoch,
                step: u64::from(epoch + 1) * 10,
                batch: 10,
                samples: SAMPLES,
                duration_s: self.work.epoch_s,
                ..EpochDone::default()
            };
            if self.is_chief {
                self.say(disk, Kind::EpochDone(done), now_s);
            }
            self.checkpoint(epoch + 1, now_s, disk);
        }
        if self.done_epochs >= f64::from(self.work.epochs) {
            if self.is_chief {
                let step = u64::from(self.work.epochs) * 10;
                let finished = Finished { step, ..Finished::default() };
                self.say(disk, Kind::Finished(finished), now_s);
            }
            self.end(0, now_s);
        }
    }

    fn end(&mut self, code: i32, now_s: f64) {
        let least_s = now_s + PARKING_S;
        self.doing = Doing::Ending { code, at_s: least_s + FLUSH_S, least_s };
    }

    fn checkpoint(&mut self, epochs: u32, now_s: f64, disk: &mut JobDisk) {
        if !self.is_chief || disk.lease_epoch > self.lease.lease_epoch {
            return;
        }
        disk.checkpoint = disk.checkpoint.max(epochs);
        let saved = CheckpointSaved {
            epoch: epochs,
            step: u64::from(epochs) * 10,
            uri: format!("/checkpoints/{epochs}"),
            sha256: format!("{epochs:064x}"),
            ..CheckpointSaved::default()
        };
        self.say(disk, Kind::CheckpointSaved(saved), now_s);
    }
}
