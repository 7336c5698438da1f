//! The policies that a coordinator can be configured to.

use shockwave_core::policies::{Policy, Replan};
use shockwave_core::types::{ClusterView, Decision};

/// A policy's name on the command line, and how to make it with its defaults.
type Entry = (&'static str, fn() -> Box<dyn Policy>);

/// Every policy.
const REGISTRY: &[Entry] = &[("fifo", || Box::new(Fifo))];

/// Names of all policies.
#[must_use]
pub fn names() -> String {
    REGISTRY.iter().map(|entry| entry.0).collect::<Vec<_>>().join(", ")
}

/// Makes a policy by its name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    REGISTRY.iter().find(|entry| entry.0 == name).map(|entry| (entry.1)())
}

/// First come, first served: whole gangs in order of admission.
struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        Decision::Order(view.jobs.iter().map(|job| job.id).collect())
    }
}
