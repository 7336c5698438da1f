//! Machines: they are lost, come back, and become slow.

use super::Setting;
use super::drive::{Key, Product, What};
use super::worker::{Phase, Worker};
use crate::engine::{Event, KeptWorker};
use crate::simulator::faults::{Faults, Loss, NodeFaults};
use crate::types::{DeviceInfo, NodeId, NodeInfo};

/// One machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) info: NodeInfo,
    /// Whether it can be reached.
    pub(super) up: bool,
    /// Number of its outages so far.
    outage: u64,
    /// How it was lost, and for how long, seconds.
    loss: (Loss, f64),
    /// How many times longer an epoch takes on it, at least 1.
    pub(super) slowness: f64,
    factor: f64,
    faults: NodeFaults,
}

impl Machine {
    /// The machines of a cluster: all of equal size but the last.
    pub(super) fn all(setting: &Setting) -> Vec<Self> {
        let size = setting.gpus_per_node.max(1);
        let count = setting.gpus.div_ceil(size);
        let digits = count.saturating_sub(1).to_string().len();
        (0..count)
            .map(|place| {
                let gpus = size.min(setting.gpus - place * size);
                let device = |slot| DeviceInfo { slot, kind: "gpu".into(), memory_bytes: 0 };
                let info = NodeInfo {
                    node: NodeId(format!("node-{place:0digits$}")),
                    devices: (0..gpus).map(device).collect(),
                    until_s: None,
                };
                Self::of(info, setting.faults, setting.seed, place as usize)
            })
            .collect()
    }

    /// A machine as it is.
    pub(super) fn of(info: NodeInfo, faults: Faults, seed: u64, place: usize) -> Self {
        Self {
            info,
            up: true,
            outage: 0,
            loss: (Loss::Off, 0.0),
            slowness: 1.0,
            factor: faults.factor,
            faults: NodeFaults::new(faults, seed, place),
        }
    }
}

impl Product<'_> {
    /// Every machine joins, and its faults begin.
    pub(super) fn join_all(&mut self) {
        for machine in 0..self.machines.len() {
            let node = self.machines[machine].info.clone();
            self.tell(Event::NodeJoined { node, keeps: Vec::new() });
            self.expect_loss(machine);
            self.expect_spell(machine);
        }
    }

    fn expect_loss(&mut self, machine: usize) {
        if let Some((after_s, kind, away_s)) = self.machines[machine].faults.next_loss() {
            self.machines[machine].loss = (kind, away_s);
            self.later(after_s, What::Fails(machine));
        }
    }

    fn expect_spell(&mut self, machine: usize) {
        if let Some((after_s, lasts_s)) = self.machines[machine].faults.next_spell() {
            self.later(after_s, What::Slows(machine, lasts_s));
        }
    }

    /// Gangs with processes on a machine.
    fn living_on(&self, machine: usize) -> Vec<Key> {
        let there = self.workers.iter().filter(|(_, worker)| worker.lives_on(machine));
        there.map(|(key, _)| *key).collect()
    }

    pub(super) fn fails(&mut self, machine: usize) {
        let (kind, away_s) = self.machines[machine].loss;
        if kind != Loss::Cut {
            for key in self.living_on(machine) {
                self.train(key);
                self.vacate(key, machine);
                self.stick(key);
            }
        }
        let entry = &mut self.machines[machine];
        entry.up = false;
        entry.outage += 1;
        let outage = entry.outage;
        self.later(self.costs.heartbeat_s, What::Missed(machine, outage));
        self.later(away_s, What::Returns(machine));
    }

    pub(super) fn missed(&mut self, machine: usize, outage: u64) {
        let entry = &self.machines[machine];
        if !entry.up && entry.outage == outage {
            let (node, kind) = (entry.info.node.clone(), entry.loss.0);
            let processes_gone = kind == Loss::Off;
            let why = "its heartbeats ended".to_owned();
            self.tell(Event::NodeLost { node, processes_gone, why });
        }
    }

    pub(super) fn returns(&mut self, machine: usize) {
        self.machines[machine].up = true;
        let living = self.living_on(machine);
        let kept = |key: &Key| {
            let worker = &self.workers[key];
            let parts = worker.parts.iter().filter(|part| part.machine == machine);
            let slots = parts.flat_map(|part| part.share.slots.iter().copied()).collect();
            let job = self.accounts.jobs[key.0].plan.spec.id;
            KeptWorker { job, lease_epoch: key.1, slots }
        };
        let keeps = living.iter().map(kept).collect();
        let node = self.machines[machine].info.clone();
        self.tell(Event::NodeJoined { node, keeps });
        for key in living {
            self.reconnect(key, machine);
        }
        self.expect_loss(machine);
    }

    /// A gang whose chief could not be heard says where it stands.
    fn reconnect(&mut self, key: Key, machine: usize) {
        let speaks = |worker: &&Worker| worker.chief() == machine;
        match self.workers.get(&key).filter(speaks).map(|worker| worker.phase) {
            Some(Phase::Training) => {
                self.train(key);
                self.say_regime(key);
                self.renew(key);
            }
            Some(Phase::Done) => self.say_finished(key),
            _ => {}
        }
    }

    pub(super) fn slows(&mut self, machine: usize, lasts_s: f64) {
        self.machines[machine].slowness = self.machines[machine].factor;
        self.repace(machine);
        self.later(lasts_s, What::Recovers(machine));
    }

    pub(super) fn recovers(&mut self, machine: usize) {
        self.machines[machine].slowness = 1.0;
        self.repace(machine);
        self.expect_spell(machine);
    }

    fn repace(&mut self, machine: usize) {
        for key in self.living_on(machine) {
            self.pace(key);
        }
    }

    /// The operator puts a machine that was set aside back into service, once it is there.
    pub(super) fn repaired(&mut self, node: NodeId) {
        let there = self.names.get(&node).is_some_and(|machine| self.machines[*machine].up);
        if there {
            self.tell(Event::NodeResumed { node });
        } else {
            self.later(self.costs.repair_s, What::Repaired(node));
        }
    }
}
