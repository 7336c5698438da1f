//! Shockwave: the finish-time market, planned anew before every round.
//!
//! Corollary 4.0.1 says what the market's welfare stands for: its equilibrium minimises the product
//! of finish-time fairness over all jobs. This policy takes that product as the window's objective
//! ([`Objective::FinishTime`]), with the makespan estimate of eq. 10 on upper estimates of the
//! remaining times. Who of the jobs with rounds runs first is settled by [`Precedence`]: fair
//! deadlines on lower estimates, lanes of the makespan, then the least GPU time left. The same
//! constants serve every workload.

use super::company::Company;
use super::{Information, Policy, Replan, recalled, remembered};
use crate::market::{Horizon, Objective};
use crate::solver::{Effort, Placement, Plan, Precedence, solve};
use crate::types::{Appraisal, ClusterView, Decision, JobId, JobView, MemoryError, RoundPlan};

/// Part of the contention that a fair deadline counts: the rest is for forecasts that fall short
/// and for restarts.
const PROMISED: f64 = 0.95;

/// The policy's constants, and what it remembers of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct Shockwave {
    /// How a view becomes a window.
    pub horizon: Horizon,
    /// What goes first.
    pub first: Precedence,
    /// How hard the solver tries.
    pub effort: Effort,
    /// Trajectories of each job that a plan is made for (Appendix F); 1: the posterior mean.
    pub samples: usize,
    company: Company,
}

impl Default for Shockwave {
    fn default() -> Self {
        let (k, lambda) = Objective::FinishTime.parameters();
        Self {
            horizon: Horizon { rounds: 30, k, lambda },
            first: Precedence::default(),
            effort: Effort { gap: 1e-5, branches: 60, core_work: 2_000_000 },
            samples: 1,
            company: Company::default(),
        }
    }
}

impl Shockwave {
    /// With plans for so many trajectories of each job, at least 1.
    #[must_use]
    pub fn with_samples(samples: usize) -> Self {
        Self { samples: samples.max(1), ..Self::default() }
    }

    /// The plan with its certificate.
    #[must_use]
    pub fn plan(&mut self, view: &ClusterView) -> Plan {
        self.company.note(view);
        let promised = |job: &JobView| PROMISED * self.company.contention(job, view.gpus);
        let program = Objective::FinishTime.program(&self.horizon.window(view, &promised));
        solve(&program, &self.effort, Placement::ByPrecedence(self.first), &|| false)
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
        let plan = self.plan(view);
        Decision::Plan(round_plan(view, &plan))
    }

    fn samples(&self) -> usize {
        self.samples
    }

    fn memory(&self) -> String {
        remembered(&self.company)
    }

    fn recall(&mut self, memory: &str) -> Result<(), MemoryError> {
        self.company = recalled(self.name(), memory)?;
        Ok(())
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
    RoundPlan { first_round: view.round, rounds, backfill: ids, appraisal: appraisal(plan) }
}

/// The certificate's figures; none when a bound was not found.
fn appraisal(plan: &Plan) -> Option<Appraisal> {
    let certificate = &plan.certificate;
    certificate.upper_bound.is_finite().then(|| Appraisal {
        objective: certificate.objective,
        upper_bound: certificate.upper_bound,
        gap: certificate.gap,
        // A round's place in the window changes nothing in the objective: one price for all.
        prices: vec![plan.price; plan.schedule.rounds()],
    })
}
