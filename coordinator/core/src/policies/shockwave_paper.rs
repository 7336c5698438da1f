//! Shockwave as printed: eq. 2 with the paper's defaults.
//!
//! Log progress within the window, weighted by rho^k, less the makespan estimate. As in section 6.1
//! the plan holds until its rounds have elapsed, a job arrives or ends, or (reactive mode, section
//! 7) a job changes its batch size.

use super::shockwave::round_plan;
use super::{Information, Policy, Replan};
use crate::market::{Horizon, Objective};
use crate::solver::{Effort, Placement, Precedence, solve};
use crate::types::{ClusterView, Decision, JobId, RoundPlan};

/// Eq. 2 does not say who of those with rounds runs first. When plans are renewed at every arrival
/// and end, few starts for ever would let those who wait wait for ever, so the least GPU time left
/// goes first.
const WITHIN: Precedence = Precedence {
    promise_rounds: f64::NEG_INFINITY,
    lane_rounds: f64::NEG_INFINITY,
    ..Precedence::DEFAULT
};

/// The policy's constants and the plan in force.
#[derive(Clone, Debug, PartialEq)]
pub struct ShockwavePaper {
    /// How a view becomes a window.
    pub horizon: Horizon,
    /// How hard the solver tries.
    pub effort: Effort,
    standing: Option<(Vec<Signature>, RoundPlan)>,
}

/// What makes a plan out of date when it changes: the job and its regime.
type Signature = (JobId, Option<u32>);

impl Default for ShockwavePaper {
    fn default() -> Self {
        Self {
            horizon: Horizon { rounds: 20, k: 5.0, lambda: 1e-3 },
            effort: Effort { gap: 1e-5, branches: 60, core_work: 2_000_000 },
            standing: None,
        }
    }
}

impl Policy for ShockwavePaper {
    fn name(&self) -> &'static str {
        "shockwave-paper"
    }

    fn information(&self) -> Information {
        Information::Proactive
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let signature: Vec<Signature> = view
            .jobs
            .iter()
            .map(|job| (job.id, job.forecast.regimes.first().map(|regime| regime.batch)))
            .collect();
        if let Some((planned_for, plan)) = &self.standing
            && *planned_for == signature
            && (plan.first_round..plan.first_round + plan.rounds.len() as u64).contains(&view.round)
        {
            return Decision::Plan(plan.clone());
        }
        let program =
            Objective::Progress.program(&self.horizon.window(view, &|job| job.contention_max));
        let plan = solve(&program, &self.effort, Placement::ByPrecedence(WITHIN), &|| false);
        let plan = round_plan(view, &plan);
        self.standing = Some((signature, plan.clone()));
        Decision::Plan(plan)
    }
}
