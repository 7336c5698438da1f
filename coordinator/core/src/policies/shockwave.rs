//! Shockwave: the finish-time market, planned anew before every round.
//!
//! Corollary 4.0.1 says what the market's welfare stands for: its equilibrium minimises the product
//! of finish-time fairness over all jobs. This policy takes that product as the window's objective
//! ([`Objective::FinishTime`]), with the makespan estimate of eq. 10 on upper estimates of the
//! remaining times. The same constants serve every workload.

use super::{Information, Policy, Replan};
use crate::market::{Horizon, Objective};
use crate::solver::{Effort, Placement, Plan, solve};
use crate::types::{ClusterView, Decision, JobId, RoundPlan};

/// The policy's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shockwave {
    /// How a view becomes a window.
    pub horizon: Horizon,
    /// Factor on the precedence of running jobs.
    pub stay: f64,
    /// How hard the solver tries.
    pub effort: Effort,
}

impl Default for Shockwave {
    fn default() -> Self {
        Self {
            horizon: Horizon { rounds: 30, k: 8.0, lambda: 10.0, upper_margin: 1.15 },
            stay: 1.3,
            effort: Effort { gap: 1e-5, branches: 60, core_work: 2_000_000 },
        }
    }
}

impl Shockwave {
    /// The plan with its certificate.
    #[must_use]
    pub fn plan(&self, view: &ClusterView) -> Plan {
        let program = Objective::FinishTime.program(&self.horizon.window(view));
        solve(&program, &self.effort, Placement::ByPrecedence { stay: self.stay }, &|| false)
    }
}

impl Policy for Shockwave {
    fn name(&self) -> &'static str {
        "shockwave"
    }

    fn information(&self) -> Information {
        Information::Proactive
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        Decision::Plan(round_plan(view, &self.plan(view)))
    }
}

/// A plan in terms of jobs and rounds.
pub(super) fn round_plan(view: &ClusterView, plan: &Plan) -> RoundPlan {
    let ids: Vec<JobId> = plan.order.iter().map(|&job| view.jobs[job].id).collect();
    let rounds = (0..plan.schedule.rounds())
        .map(|round| {
            plan.order
                .iter()
                .filter(|&&job| plan.schedule.runs(job, round))
                .map(|&job| view.jobs[job].id)
                .collect()
        })
        .collect();
    RoundPlan { first_round: view.round, rounds, backfill: ids }
}
