//! What a policy decides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::JobId;

/// A policy's answer. How it becomes the set of jobs of the next round is the round mechanism's
/// business (`policies::mechanism`), the same in the simulator and in the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The fraction of time (0 to 1) that each job should run. Jobs that are absent get none.
    Shares(BTreeMap<JobId, f64>),
    /// Jobs in order of precedence: each next round is filled greedily, whole gangs only.
    Order(Vec<JobId>),
    /// Who runs in which of the next rounds; idle GPUs are filled in the plan's `backfill` order.
    Plan(RoundPlan),
}

/// A plan for the next rounds: X\[j,t\] of eq. 2, by round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundPlan {
    /// Index of the first planned round.
    pub first_round: u64,
    /// `rounds[t]` lists the jobs of round `first_round + t`.
    pub rounds: Vec<Vec<JobId>>,
    /// Every active job, in the order in which idle GPUs are offered (work conservation).
    pub backfill: Vec<JobId>,
    /// What the plan is worth, when the policy certifies it.
    #[serde(default)]
    pub appraisal: Option<Appraisal>,
}

/// What a plan is worth and how far it can be from the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Appraisal {
    /// The policy's objective, as the plan reaches it.
    pub objective: f64,
    /// No plan of the window has a higher objective.
    pub upper_bound: f64,
    /// `(upper_bound - objective) / |upper_bound|`.
    pub gap: f64,
    /// Price of a GPU in each planned round, in units of the objective.
    pub prices: Vec<f64>,
}
