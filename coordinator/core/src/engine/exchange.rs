//! Deciding beside the round: what goes to the planner's thread and what comes back.

use serde::{Deserialize, Serialize};

use crate::{
    policies::Policy,
    types::{ClusterView, Decision, MemoryError},
};

/// A question to the policy: all that it needs, so that it can be answered anywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRequest {
    /// Number of the request.
    pub id: u64,
    /// When the answer is of use, seconds on the driver's clock; later ones serve the next round.
    pub due_s: f64,
    /// What the policy sees.
    pub view: ClusterView,
    /// What the policy remembers ([`Policy::memory`]).
    pub memory: String,
}

/// The policy's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanAnswer {
    /// The request that it answers.
    pub id: u64,
    /// What it decided.
    pub decision: Decision,
    /// What it remembers from now on.
    pub memory: String,
}

impl PlanRequest {
    /// Lets `policy` (of the engine's kind and parameters) decide.
    ///
    /// # Errors
    /// [`MemoryError`] when the memory is not one of this policy.
    pub fn answer(&self, policy: &mut dyn Policy) -> Result<PlanAnswer, MemoryError> {
        policy.recall(&self.memory)?;
        let decision = policy.decide(&self.view);
        Ok(PlanAnswer { id: self.id, decision, memory: policy.memory() })
    }
}
