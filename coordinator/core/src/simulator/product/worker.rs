//! The processes of one lease.

use super::life::Life;
use crate::types::NodeShare;

/// What a gang is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its processes come up and restore the job's state.
    Starting,
    /// It trains.
    Training,
    /// It writes its checkpoint in order to yield.
    Saving,
    /// It has trained its last epoch.
    Done,
    /// It waits for a part of the gang that is gone, or ends.
    Stuck,
}

/// The part of a gang on one machine.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The machine's place in the cluster.
    pub(super) machine: usize,
    pub(super) share: NodeShare,
    /// Whether its processes are there.
    pub(super) alive: bool,
    /// Since when, seconds.
    pub(super) since_s: f64,
}

/// One lease's gang.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    /// The first part is the chief's: it speaks for the gang.
    pub(super) parts: Vec<Part>,
    pub(super) phase: Phase,
    /// Epochs in its state.
    pub(super) position: f64,
    /// The epoch that goes on; its end is an event of its own, so that reaching it is not ending it.
    pub(super) epoch: u32,
    /// The position is as of then, seconds.
    pub(super) since_s: f64,
    /// How many times longer than alone an epoch takes now.
    pub(super) slowness: f64,
    /// Training time of the epoch that goes on, seconds.
    pub(super) epoch_spent_s: f64,
    /// When it last wrote a checkpoint or started, seconds.
    pub(super) saved_s: f64,
    /// It must not use its devices after this, seconds.
    pub(super) expires_s: f64,
    /// When its last message arrives, seconds: messages keep their order.
    pub(super) heard_s: f64,
    /// Grows with every change of pace: the end of an epoch that was expected before is void.
    pub(super) turn: u64,
}

impl Worker {
    /// A gang that comes up from a state with `position` epochs.
    pub(super) fn starting(parts: Vec<Part>, position: f64, now_s: f64, ttl_s: f64) -> Self {
        Self {
            parts,
            phase: Phase::Starting,
            position,
            epoch: Life::epoch_at(position),
            since_s: now_s,
            slowness: 1.0,
            epoch_spent_s: 0.0,
            saved_s: now_s,
            expires_s: now_s + ttl_s,
            heard_s: now_s,
            turn: 0,
        }
    }

    /// The chief's machine.
    pub(super) fn chief(&self) -> usize {
        self.parts.first().map_or(0, |part| part.machine)
    }

    /// Whether it has processes on a machine.
    pub(super) fn lives_on(&self, machine: usize) -> bool {
        self.parts.iter().any(|part| part.alive && part.machine == machine)
    }

    /// Whether any process is left.
    pub(super) fn is_alive(&self) -> bool {
        self.parts.iter().any(|part| part.alive)
    }

    /// Trains up to `now_s`, at most to the end of the epoch. Gives the position before.
    pub(super) fn advance(&mut self, life: Life<'_>, now_s: f64) -> f64 {
        let before = self.position;
        if self.phase == Phase::Training {
            let passed_s = (now_s - self.since_s).max(0.0);
            let epochs = passed_s / (life.epoch_s(self.epoch) * self.slowness);
            self.position = Life::settled(self.position + epochs, self.epoch);
            self.epoch_spent_s += passed_s;
            self.since_s = now_s;
        }
        before
    }

    /// Time to the end of the epoch that goes on, seconds.
    pub(super) fn epoch_left_s(&self, life: Life<'_>) -> f64 {
        let left = (f64::from(self.epoch + 1) - self.position).max(0.0);
        left * life.epoch_s(self.epoch) * self.slowness
    }
}
