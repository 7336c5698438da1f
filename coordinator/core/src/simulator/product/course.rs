//! A gang's course: it comes up, trains, reports, renews, yields and goes.

use super::drive::{Key, Product, What};
use super::life::Life;
use super::worker::{Phase, Worker};
use crate::engine::{Event, ReleaseReason};
use crate::simulator::report::{BatchChange, Held};
use crate::types::JobId;

/// Renewals in a term.
const RENEWALS: f64 = 3.0;

impl<'a> Product<'a> {
    fn id(&self, key: Key) -> JobId {
        self.accounts.jobs[key.0].plan.spec.id
    }

    fn life(&self, key: Key) -> Life<'a> {
        self.accounts.jobs[key.0].life()
    }

    pub(super) fn set_phase(&mut self, key: Key, phase: Phase) {
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.phase = phase;
        }
    }

    /// A gang that is in a phase.
    fn in_phase(&mut self, key: Key, phase: Phase) -> Option<&mut Worker> {
        self.workers.get_mut(&key).filter(|worker| worker.phase == phase)
    }

    /// The chief sends a message. Gives when it arrives; `None`: it does not.
    fn say(&mut self, key: Key, event: Event) -> Option<f64> {
        let delay_s = self.delays.next_s();
        let now_s = self.now_s;
        let worker = self.reach(key)?;
        worker.heard_s = worker.heard_s.max(now_s + delay_s);
        let at_s = worker.heard_s;
        self.queue.push(at_s, What::Tell(event));
        Some(at_s)
    }

    /// Brings a gang's position up to this moment.
    pub(super) fn train(&mut self, key: Key) {
        let (life, now_s) = (self.life(key), self.now_s);
        let Some(worker) = self.in_phase(key, Phase::Training) else { return };
        let passed_s = now_s - worker.since_s;
        let before = worker.advance(life, now_s);
        let position = worker.position;
        self.note_trained(key, before, position, passed_s);
    }

    fn note_trained(&mut self, key: Key, before: f64, position: f64, seconds: f64) {
        if position > before {
            let lease = (self.id(key), key.1);
            self.observer.trained(self.now_s, lease, before, position);
        }
        self.accounts.jobs[key.0].trained(position, seconds);
    }

    /// The gang's state is restored: it trains.
    pub(super) fn ready(&mut self, key: Key) {
        let (life, now_s) = (self.life(key), self.now_s);
        let Some(worker) = self.in_phase(key, Phase::Starting) else { return };
        worker.phase = Phase::Training;
        worker.since_s = now_s;
        worker.saved_s = now_s;
        let position = worker.position;
        // The state also holds how long the epoch that it resumes in has trained.
        let epoch = worker.epoch;
        worker.epoch_spent_s = (position - f64::from(epoch)).max(0.0) * life.epoch_s(epoch);
        let (job, lease_epoch) = (self.id(key), key.1);
        self.say(key, Event::WorkerStarted { job, lease_epoch, epochs_done: position });
        self.say_regime(key);
        if epoch >= life.epochs() {
            // It was stopped in the moment in which its last epoch ended.
            self.set_phase(key, Phase::Done);
            return self.say_finished(key);
        }
        self.pace(key);
        self.renews(key);
    }

    /// Says which batch size the gang has, unless it is the declared first one at the start.
    pub(super) fn say_regime(&mut self, key: Key) {
        let Some(worker) = self.workers.get(&key) else { return };
        let epochs_done = worker.position;
        let epoch = worker.epoch.min(self.life(key).epochs().saturating_sub(1));
        let batch = self.life(key).batch(epoch);
        let first = self.accounts.jobs[key.0].plan.spec.initial_batch;
        if epochs_done > 0.0 || batch != first {
            let (job, lease_epoch) = (self.id(key), key.1);
            self.say(key, Event::RegimeChanged { job, lease_epoch, epochs_done, batch });
        }
    }

    /// The gang's pace is that of its slowest machine; expects the end of its epoch.
    pub(super) fn pace(&mut self, key: Key) {
        self.train(key);
        let life = self.life(key);
        let machines = &self.machines;
        let Some(worker) =
            self.workers.get_mut(&key).filter(|worker| worker.phase == Phase::Training)
        else {
            return;
        };
        let slowness = worker.parts.iter().map(|part| machines[part.machine].slowness);
        worker.slowness = slowness.fold(1.0, f64::max);
        worker.turn += 1;
        let (left_s, turn) = (worker.epoch_left_s(life), worker.turn);
        self.later(left_s, What::EpochEnds(key, turn));
    }

    pub(super) fn epoch_ends(&mut self, key: Key, turn: u64) {
        let (life, now_s) = (self.life(key), self.now_s);
        let Some(worker) = self.in_phase(key, Phase::Training).filter(|w| w.turn == turn) else {
            return;
        };
        let epoch = worker.epoch;
        let passed_s = now_s - worker.since_s;
        let before = worker.advance(life, now_s);
        // To the last bit: the time was computed from the position.
        worker.position = f64::from(epoch + 1);
        worker.epoch = epoch + 1;
        let duration_s = std::mem::take(&mut worker.epoch_spent_s).max(1e-9);
        self.note_trained(key, before, f64::from(epoch + 1), passed_s);
        let (job, lease_epoch, batch) = (self.id(key), key.1, life.batch(epoch));
        let epochs = epoch + 1;
        self.say(key, Event::EpochDone { job, lease_epoch, epochs, batch, duration_s });
        if epochs == life.epochs() {
            self.set_phase(key, Phase::Done);
            return self.say_finished(key);
        }
        let next = life.batch(epochs);
        if next != batch {
            let change = BatchChange { at_s: now_s, id: job, from: batch, to: next };
            self.accounts.batch_changed(change);
            self.say_regime(key);
        }
        let checkpoint_s = self.costs.checkpoint_s;
        if self.workers.get(&key).is_some_and(|worker| now_s - worker.saved_s >= checkpoint_s) {
            self.say_checkpoint(key);
        }
        self.pace(key);
    }

    /// Says that the job is complete, until somebody hears it.
    pub(super) fn say_finished(&mut self, key: Key) {
        let (job, lease_epoch) = (self.id(key), key.1);
        let step = self.life(key).steps(f64::from(self.life(key).epochs()));
        if let Some(at_s) = self.say(key, Event::Finished { job, lease_epoch, step }) {
            self.queue.push(at_s, What::Exits(key, ReleaseReason::Exited { code: 0 }));
        }
    }

    fn say_checkpoint(&mut self, key: Key) -> Option<f64> {
        let now_s = self.now_s;
        let worker = self.workers.get_mut(&key)?;
        worker.saved_s = now_s;
        let epochs_done = worker.position;
        let (job, lease_epoch, step) = (self.id(key), key.1, self.life(key).steps(epochs_done));
        let uri = format!("simulated/{job}/{lease_epoch}/{step}");
        let sha256 = "0".repeat(64);
        let saved = Event::CheckpointSaved { job, lease_epoch, step, epochs_done, uri, sha256 };
        self.say(key, saved)
    }

    /// It is time to renew the lease.
    pub(super) fn renews(&mut self, key: Key) {
        self.train(key);
        let every_s = self.engine.settings().ttl_s / RENEWALS;
        if self.renew(key) {
            self.later(every_s, What::Renews(key));
        }
    }

    /// Renews the lease of a gang that trains; whether it does.
    pub(super) fn renew(&mut self, key: Key) -> bool {
        let Some(worker) = self.in_phase(key, Phase::Training) else { return false };
        let epochs_done = Some(worker.position);
        let (job, lease_epoch) = (self.id(key), key.1);
        self.say(key, Event::LeaseRenewed { job, lease_epoch, epochs_done });
        true
    }

    /// The checkpoint is written: the gang goes once it is committed.
    pub(super) fn saved(&mut self, key: Key) {
        if self.in_phase(key, Phase::Saving).is_some() {
            let at_s = self.say_checkpoint(key).unwrap_or(self.now_s);
            self.queue.push(at_s, What::Exits(key, ReleaseReason::Yielded));
        }
    }

    /// The gang's processes end everywhere.
    pub(super) fn exits(&mut self, key: Key, reason: &ReleaseReason) {
        self.train(key);
        let Some(worker) = self.workers.get(&key) else { return };
        let alive = worker.parts.iter().filter(|part| part.alive);
        for machine in alive.map(|part| part.machine).collect::<Vec<_>>() {
            self.vacate(key, machine);
            self.report_gone(key, machine, reason.clone());
        }
    }

    /// No process of a gang is left on a machine.
    pub(super) fn vacate(&mut self, key: Key, machine: usize) {
        let lease = (self.id(key), key.1);
        let (now_s, per_node) = (self.now_s, self.gpus_per_node);
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let parts = worker.parts.iter_mut();
        for part in parts.filter(|part| part.alive && part.machine == machine) {
            part.alive = false;
            self.observer.process(now_s, lease, &part.share, false);
            for slot in &part.share.slots {
                self.accounts.held(Held {
                    id: lease.0,
                    gpu: machine as u32 * per_node + slot,
                    from_s: part.since_s,
                    to_s: now_s,
                });
            }
        }
        if !worker.is_alive() {
            self.workers.remove(&key);
        }
    }

    /// The simulation is over: whoever still holds a device gives it back.
    pub(super) fn vacate_everything(&mut self) {
        for key in self.workers.keys().copied().collect::<Vec<_>>() {
            for machine in 0..self.machines.len() {
                self.vacate(key, machine);
            }
        }
    }

    /// The machine's agent reports that nothing of a gang is left there.
    pub(super) fn report_gone(&mut self, key: Key, machine: usize, reason: ReleaseReason) {
        if self.machines[machine].up {
            let node = self.machines[machine].info.node.clone();
            let (job, lease_epoch) = (self.id(key), key.1);
            self.later(0.0, What::Tell(Event::Released { job, lease_epoch, node, reason }));
        }
    }

    pub(super) fn reaped(&mut self, key: Key, machine: usize) {
        self.train(key);
        self.vacate(key, machine);
        self.report_gone(key, machine, ReleaseReason::Killed);
        self.stick(key);
    }

    /// A part of a gang is gone: the others wait for it in vain.
    pub(super) fn stick(&mut self, key: Key) {
        self.train(key);
        let collective_s = self.costs.collective_s;
        if self.workers.contains_key(&key) {
            self.set_phase(key, Phase::Stuck);
            self.later(collective_s, What::GivesUp(key));
        }
    }

    pub(super) fn gives_up(&mut self, key: Key) {
        if self.in_phase(key, Phase::Stuck).is_some() {
            self.exits(key, &ReleaseReason::Exited { code: 1 });
        }
    }

    /// A lease that has run out ends its processes, whoever can be reached.
    pub(super) fn lapses(&mut self, key: Key) {
        let now_s = self.now_s;
        let Some(worker) = self.workers.get(&key) else { return };
        if worker.expires_s > now_s {
            let at_s = worker.expires_s;
            self.queue.push(at_s, What::Lapses(key));
        } else {
            self.exits(key, &ReleaseReason::Yielded);
        }
    }
}
