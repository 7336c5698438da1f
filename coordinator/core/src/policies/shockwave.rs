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
    /// The plan with its certificate.
    #[must_use]
    pub fn plan(&mut self, view: &ClusterView) -> Plan {
        self.company.note(view);
        let promised = |job: &JobView| PROMISED * self.company.contention(job, view);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::policies::testing;
    use crate::predictor::{Forecast, RegimeForecast, RunTime};

    /// A job of one GPU that may end after one round or need ten, and is expected to need five.
    fn job(id: u64, samples: Vec<f64>) -> JobView {
        let regime = |epoch_s: f64| vec![RegimeForecast { batch: 8, epochs: 1.0, epoch_s }];
        let forecast = Forecast {
            regimes: regime(600.0),
            left_s: 600.0,
            left_sd_s: 500.0,
            left_upper_s: 1200.0,
            total_s: 600.0,
            left: RunTime::Exact(600.0),
        };
        JobView {
            forecast,
            samples: samples.into_iter().map(regime).collect(),
            contention_max: 2.0,
            contention_mean: 2.0,
            ..testing::job(id)
        }
    }

    fn view(jobs: Vec<JobView>) -> ClusterView {
        ClusterView { now_s: 60.0, round_s: 120.0, round: 3, gpus: 1, jobs }
    }

    fn appraisal_of(jobs: Vec<JobView>) -> Appraisal {
        let Decision::Plan(plan) = Shockwave::default().decide(&view(jobs)) else { panic!() };
        plan.appraisal.unwrap()
    }

    #[test]
    fn plans_carry_their_certificate() {
        let appraisal = appraisal_of(vec![job(1, vec![]), job(2, vec![])]);
        assert!(appraisal.upper_bound >= appraisal.objective && appraisal.gap >= 0.0);
        assert_eq!(appraisal.prices.len(), 30);
    }

    #[test]
    fn samples_change_the_utility_and_one_sample_of_the_mean_does_not() {
        let plain = appraisal_of(vec![job(1, vec![]), job(2, vec![])]);
        assert_eq!(appraisal_of(vec![job(1, vec![600.0]), job(2, vec![600.0])]), plain);
        let spread = vec![120.0, 1080.0];
        let sampled = appraisal_of(vec![job(1, spread.clone()), job(2, spread)]);
        assert_ne!(sampled.objective, plain.objective);
    }

    #[test]
    fn what_it_remembers_of_arrivals_survives_a_restart() {
        let mut old = Shockwave::default();
        let _ = old.decide(&view(vec![job(1, vec![]), job(2, vec![])]));
        let mut new = Shockwave::default();
        new.recall(&old.memory()).unwrap();
        assert_eq!(new, old);
        assert!(new.recall("no memory").is_err());
    }
}
