//! The window of a policy's view.

use super::buyer::{Buyer, MicroJob, Trajectory, Window, run_time_s};
use super::fairness::rho_hat;
use crate::predictor::RegimeForecast;
use crate::types::{ClusterView, JobView};

/// Probability with which a job's remaining run time stays below its lower estimate.
const LOWER: f64 = 0.1;

/// What an active job has left at least, seconds: as long as it is active it needs a round.
const LEFT_LEAST_S: f64 = 1.0;
/// What a job whose run time is not known has left, seconds (about 30 years).
const LEFT_MOST_S: f64 = 1e9;

/// How a view becomes a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Horizon {
    /// Rounds to plan, T.
    pub rounds: usize,
    /// k: the power of rho in a job's budget.
    pub k: f64,
    /// lambda: the weight of the makespan estimate.
    pub lambda: f64,
}

impl Horizon {
    /// The window that begins with the view's next round; `contention` is what a job's fair
    /// deadline is scaled by.
    #[must_use]
    pub fn window(&self, view: &ClusterView, contention: &dyn Fn(&JobView) -> f64) -> Window {
        Window {
            gpus: view.gpus,
            rounds: self.rounds,
            round_s: view.round_s,
            k: self.k,
            lambda: self.lambda,
            buyers: view.jobs.iter().map(|job| buyer(job, view, contention(job))).collect(),
        }
    }
}

fn buyer(job: &JobView, view: &ClusterView, contention: f64) -> Buyer {
    let mut trajectories = vec![trajectory(&job.forecast.regimes)];
    if !job.samples.is_empty() {
        trajectories = job.samples.iter().map(|sample| trajectory(sample)).collect();
    }
    let elapsed_s = job.elapsed_s(view.now_s);
    let mut buyer = Buyer {
        gpus: job.gpus,
        weight: job.weight,
        running: job.running,
        epochs_total: job.epochs_total.max(f64::MIN_POSITIVE),
        epochs_done: job.epochs_done,
        trajectories,
        rho: 1.0,
        elapsed_s,
        attained_s: job.attained_s,
        contention: contention.max(1.0),
        left_lower_s: job.forecast.left.quantile_s(LOWER),
        left_upper_s: job.forecast.left_upper_s,
    };
    let left_s = buyer.left_s();
    let total_s = job.attained_s + left_s;
    buyer.rho = rho_hat(elapsed_s, left_s, total_s, job.contention_mean.max(1.0));
    buyer.left_lower_s = finite_or(buyer.left_lower_s, left_s).clamp(0.0, left_s);
    buyer.left_upper_s = finite_or(buyer.left_upper_s, left_s).clamp(left_s, LEFT_MOST_S);
    buyer
}

fn finite_or(value: f64, other: f64) -> f64 {
    if value.is_finite() { value } else { other }
}

/// The forecast regimes as micro-jobs, with sane run times.
fn trajectory(regimes: &[RegimeForecast]) -> Trajectory {
    let known = |regime: &&RegimeForecast| {
        let time_s = regime.epochs * regime.epoch_s;
        regime.epochs > 0.0 && regime.epoch_s > 0.0 && time_s > 0.0
    };
    let mut ahead: Trajectory = regimes
        .iter()
        .filter(known)
        .map(|regime| MicroJob { epochs: regime.epochs, epoch_s: regime.epoch_s })
        .collect();
    let left_s = run_time_s(&ahead);
    if left_s < LEFT_LEAST_S {
        ahead.push(MicroJob { epochs: 1e-9, epoch_s: (LEFT_LEAST_S - left_s) / 1e-9 });
    } else if left_s > LEFT_MOST_S {
        let epochs = ahead.iter().map(|part| part.epochs).sum::<f64>().clamp(1e-9, LEFT_MOST_S);
        ahead = vec![MicroJob { epochs, epoch_s: LEFT_MOST_S / epochs }];
    }
    ahead
}
