//! A lease as the coordinator keeps it: until when it may be in use, and how it is taken back.

use serde::{Deserialize, Serialize};

use super::{KillReason, ReleaseReason, YieldReason};
use crate::types::{JobId, NodeId, Placement};

/// Kills that are sent before the nodes are set aside.
pub(super) const KILLS_MAX: u32 = 6;

/// The right of a job to its devices, as granted. It outlives its job until its processes are gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) job: JobId,
    pub(super) epoch: u64,
    pub(super) placement: Placement,
    pub(super) granted_s: f64,
    /// The worker may use the devices until then.
    pub(super) expires_s: f64,
    /// The worker was last heard of.
    pub(super) heard_s: f64,
    /// From the request to yield, or from the expiry, to the kill.
    pub(super) grace_s: f64,
    /// The policy may take it back from then on, once it trains.
    pub(super) pinned_until_s: f64,
    /// Nodes whose processes are not known to be gone.
    pub(super) parts: Vec<NodeId>,
    /// The gang trains since then.
    pub(super) training_s: Option<f64>,
    /// Its last lasting progress: start of training or a checkpoint.
    pub(super) lasting_s: f64,
    /// Whether a checkpoint has brought its job further.
    #[serde(default)]
    pub(super) advanced: bool,
    /// Service is written to the mechanism's account up to here.
    pub(super) accounted_s: f64,
    /// It will be asked to yield then.
    pub(super) yield_at: Option<(f64, YieldReason)>,
    pub(super) yielding: Option<Yielding>,
    pub(super) killing: Option<Killing>,
    /// It was not renewed in time.
    pub(super) expired: bool,
    /// Nobody reaches it and its time is over: it stops by itself now.
    #[serde(default)]
    pub(super) parting: bool,
    /// How it ended on the first node that did not end in good order, else on the last.
    pub(super) ending: Option<ReleaseReason>,
}

/// It was asked to yield.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Yielding {
    pub(super) asked_s: f64,
    pub(super) deadline_s: f64,
    pub(super) reason: YieldReason,
}

/// Its processes are being killed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Killing {
    pub(super) reason: KillReason,
    pub(super) sent_s: f64,
    pub(super) sent: u32,
}

impl Lease {
    /// Whether it goes on unless something is done: not asked to yield, not expired, not killed.
    pub(super) fn is_live(&self) -> bool {
        self.yielding.is_none() && self.killing.is_none() && !self.expired
    }

    /// When something is to be done about it.
    pub(super) fn next_s(&self, kill_wait_s: f64) -> f64 {
        if let Some(killing) = &self.killing {
            return if killing.sent >= KILLS_MAX {
                self.over_s().max(killing.sent_s + kill_wait_s)
            } else {
                killing.sent_s + kill_wait_s
            };
        }
        if let Some(yielding) = &self.yielding {
            return yielding.deadline_s;
        }
        if self.expired {
            return self.over_s() + if self.parting { kill_wait_s } else { 0.0 };
        }
        let yield_at = self.yield_at.as_ref().map_or(f64::INFINITY, |planned| planned.0);
        self.expires_s.min(yield_at)
    }

    /// A worker that keeps to the protocol and hears nothing stops by itself at this moment; it has
    /// a checkpoint to write before it is gone.
    pub(super) fn over_s(&self) -> f64 {
        self.expires_s + self.grace_s
    }

    /// Takes note of how it ended on one node.
    pub(super) fn note_ending(&mut self, reason: ReleaseReason) {
        if self.ending.as_ref().is_none_or(|before| weight(before) < weight(&reason)) {
            self.ending = Some(reason);
        }
    }

    /// Takes note that nobody saw how it ended on a node.
    pub(super) fn note_unseen(&mut self) {
        // It may have ended there first, so that what failed elsewhere did so for want of it.
        let in_order = |ending: &ReleaseReason| weight(ending) <= weight(&ReleaseReason::Yielded);
        let has_failed = self.ending.as_ref().is_some_and(|ending| !in_order(ending));
        let reason = if has_failed { ReleaseReason::Lost } else { ReleaseReason::NodeLeaving };
        self.note_ending(reason);
    }

    /// Device-seconds.
    pub(super) fn gpu_s(&self, seconds: f64) -> f64 {
        seconds.max(0.0) * f64::from(self.placement.gpus())
    }
}

/// The worst that happened to a part is what happened to its gang: one that has stopped before its
/// end is not made up for by another's completion. A part that was lost, or whose machine went away,
/// explains why the rest of its gang failed.
fn weight(ending: &ReleaseReason) -> u32 {
    match ending {
        ReleaseReason::Exited { code: 0 } => 0,
        ReleaseReason::Yielded => 1,
        ReleaseReason::Lost | ReleaseReason::NodeLeaving => 3,
        _ => 2,
    }
}
