//! Whoever follows a simulation: a progress bar, a recorder, a test.

use crate::engine::{Action, Event};
use crate::policies::Policy;
use crate::types::{ClusterView, Decision, JobId, NodeShare};

/// Whoever wants to follow a simulation. Nothing that it does changes the simulation.
pub trait Observer {
    /// A round has ended; `done` of `jobs` jobs have.
    fn round_ended(&mut self, now_s: f64, done: usize, jobs: usize);

    /// Whether a fork of a live state is to be played on; asked before each step.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// A policy is about to be asked; in the published semantics, forecasts for its view are part
    /// of the time that it takes.
    fn deciding(&mut self) {}

    /// The policy has decided on this view.
    fn decided(&mut self, _view: &ClusterView, _decision: &Decision, _policy: &dyn Policy) {}

    /// The engine is told an event (product semantics).
    fn told(&mut self, _now_s: f64, _event: &Event) {}

    /// The engine has ordered an action (product semantics).
    fn ordered(&mut self, _now_s: f64, _action: &Action) {}

    /// Processes of a lease (job, lease epoch) begin (`alive`) or end on a node's devices (product
    /// semantics).
    fn process(&mut self, _now_s: f64, _lease: (JobId, u64), _share: &NodeShare, _alive: bool) {}

    /// The gang of a lease has trained from one position to another, epochs (product semantics).
    fn trained(&mut self, _now_s: f64, _lease: (JobId, u64), _from: f64, _to: f64) {}
}

/// Nobody follows.
impl Observer for () {
    fn round_ended(&mut self, _now_s: f64, _done: usize, _jobs: usize) {}
}
