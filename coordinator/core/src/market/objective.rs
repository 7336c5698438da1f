//! The two objectives, each as a [`Program`].

use serde::{Deserialize, Serialize};

use super::buyer::{Buyer, Window};
use super::fairness::{finish_time_budget, finish_time_utility};
use super::utility::log_utility;
use crate::solver::{Item, Program};

/// What a plan maximises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Eq. 2 and 11: rho-weighted log progress within the window, less the makespan estimate.
    #[default]
    Progress,
    /// The rho-weighted product of finish-time fairness (Corollary 4.0.1), less the makespan
    /// estimate.
    FinishTime,
}

impl Objective {
    /// k and lambda unless others are asked for: the paper's for progress. In the finish-time market
    /// fair deadlines and the makespan are also kept by
    /// [`Precedence`](crate::solver::Precedence), so that little weight is enough.
    #[must_use]
    pub fn parameters(self) -> (f64, f64) {
        match self {
            Self::Progress => (5.0, 1e-3),
            Self::FinishTime => (1.0, 1.0),
        }
    }

    /// B_j: a job's budget under this objective, `weight_j rho_j^k`.
    #[must_use]
    pub fn budget(self, buyer: &Buyer, window: &Window) -> f64 {
        let rho = match self {
            Self::Progress => buyer.rho.powf(window.k),
            Self::FinishTime => finish_time_budget(buyer, buyer.left_s(), window),
        };
        buyer.weight * rho
    }

    /// The window's program under this objective.
    ///
    /// Progress: `(1 / N M) sum_j weight_j rho_j^k log UTIL_j - (lambda / Z_0) H` with Z_0 the sum
    /// of remaining times. Finish time: `(1 / N) sum_j u_j - (lambda N / Z_0) H`.
    #[must_use]
    pub fn program(self, window: &Window) -> Program {
        let jobs = window.buyers.len() as f64;
        let z0_s: f64 = window.buyers.iter().map(Buyer::left_s).sum();
        let (scale, lambda) = match self {
            Self::Progress => (1.0 / (jobs * f64::from(window.gpus.max(1))), window.lambda),
            Self::FinishTime => (1.0 / jobs, window.lambda * jobs),
        };
        let mut values = Vec::with_capacity(window.buyers.len() * (window.rounds + 1));
        for buyer in &window.buyers {
            match self {
                Self::Progress => {
                    let budget = scale * self.budget(buyer, window);
                    let table = log_utility(buyer, window.round_s, window.rounds);
                    values.extend(table.iter().map(|u| budget * u));
                }
                Self::FinishTime => {
                    values.extend(finish_time_utility(buyer, window).iter().map(|u| scale * u));
                }
            }
        }
        Program {
            gpus: window.gpus,
            rounds: window.rounds,
            round_s: window.round_s,
            makespan_price: if z0_s > 0.0 { lambda / z0_s } else { 0.0 },
            items: window.buyers.iter().map(|buyer| item(buyer, window)).collect(),
            values,
        }
    }
}

fn item(buyer: &Buyer, window: &Window) -> Item {
    // The slack keeps a job of exactly n rounds from asking for n + 1.
    let rounds = (buyer.left_longest_s() / window.round_s - 1e-9).ceil().max(0.0);
    let fits = buyer.gpus > 0 && buyer.gpus <= window.gpus;
    Item {
        gpus: buyer.gpus,
        work_s: buyer.left_s(),
        left_s: buyer.left_upper_s,
        rounds_max: if fits { rounds.min(window.rounds as f64) as usize } else { 0 },
        slack_s: buyer.slack_s(),
        weight: buyer.weight,
        running: buyer.running,
    }
}
