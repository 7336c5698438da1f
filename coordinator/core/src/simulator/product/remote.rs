//! The engine's end of a policy that decides beside it.

use crate::policies::{Information, Policy, Replan};
use crate::types::{ClusterView, Decision, MemoryError};

/// Stands for a policy in the engine: what the engine must know of it, and the memory that is
/// handed to and fro.
pub(super) struct Remote {
    name: &'static str,
    information: Information,
    replan: Replan,
    memory: String,
}

impl Remote {
    pub(super) fn of(policy: &dyn Policy) -> Self {
        Self {
            name: policy.name(),
            information: policy.information(),
            replan: policy.replan(),
            memory: policy.memory(),
        }
    }
}

impl Policy for Remote {
    fn name(&self) -> &'static str {
        self.name
    }

    fn information(&self) -> Information {
        self.information
    }

    fn replan(&self) -> Replan {
        self.replan
    }

    /// Nobody asks here: the question goes to the policy itself. In order of admission.
    fn decide(&mut self, view: &ClusterView) -> Decision {
        Decision::Order(view.jobs.iter().map(|job| job.id).collect())
    }

    fn memory(&self) -> String {
        self.memory.clone()
    }

    fn recall(&mut self, memory: &str) -> Result<(), MemoryError> {
        memory.clone_into(&mut self.memory);
        Ok(())
    }
}
