//! Finish-time fairness: rho of eq. 9, and as the window's utility.

use super::buyer::{Buyer, Window, run_time_s};

/// Largest budget of a job: beyond this a late job outbids everybody anyway.
const BUDGET_MAX: f64 = 1e6;
/// What each unit of rho over 1 costs: the promise of section 2.1, softened.
const PROMISE: f64 = 5.0;
/// What going on is worth to a running job, in units of log rho: a start costs time.
const STAY: f64 = 0.05;

/// rho of eq. 9: predicted completion time over what an equal share of the cluster would give.
#[must_use]
pub fn rho_hat(elapsed_s: f64, left_s: f64, total_s: f64, contention: f64) -> f64 {
    let fair_s = total_s * contention;
    if fair_s > 0.0 { (elapsed_s + left_s * contention) / fair_s } else { 1.0 }
}

/// Contention of this moment: jobs over GPUs, at least 1.
fn contention_now(window: &Window) -> f64 {
    (window.buyers.len() as f64 / f64::from(window.gpus.max(1))).max(1.0)
}

/// What the job's run alone would have taken, times the contention of its fair deadline, seconds.
fn fair_s(buyer: &Buyer, left_s: f64) -> f64 {
    ((buyer.attained_s + left_s) * buyer.contention).max(f64::MIN_POSITIVE)
}

/// rho_j^k with eq. 9's rho at the contention of this moment, when `left_s` seconds remain.
#[must_use]
pub fn finish_time_budget(buyer: &Buyer, left_s: f64, window: &Window) -> f64 {
    let finish_s = buyer.elapsed_s + left_s * contention_now(window);
    (finish_s / fair_s(buyer, left_s)).max(1e-3).powf(window.k).min(BUDGET_MAX)
}

/// `-b_j log rho_j(n)` for n of 0..=T rounds, less the soft promise: what Corollary 4.0.1 says
/// that the welfare stands for.
///
/// With n rounds that finish it a job ends `elapsed + left`; with fewer it ends after the window,
/// the rest at the contention of this moment.
#[must_use]
pub fn finish_time_utility(buyer: &Buyer, window: &Window) -> Vec<f64> {
    let mut mean = vec![0.0; window.rounds + 1];
    let window_s = window.rounds as f64 * window.round_s;
    let share = buyer.weight / buyer.trajectories.len().max(1) as f64;
    for ahead in &buyer.trajectories {
        let left_s = run_time_s(ahead);
        let fair_s = fair_s(buyer, left_s);
        let budget = finish_time_budget(buyer, left_s, window);
        for (n, sum) in mean.iter_mut().enumerate() {
            let rest_s = left_s - n as f64 * window.round_s;
            let finish_s = if rest_s <= 1e-9 * window.round_s {
                left_s
            } else {
                window_s + rest_s * contention_now(window)
            };
            let rho = ((buyer.elapsed_s + finish_s) / fair_s).max(1e-9);
            let stay = if buyer.running && n > 0 { STAY * budget } else { 0.0 };
            *sum += share * (stay - budget * rho.ln() - PROMISE * (rho - 1.0).max(0.0));
        }
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 1 of the paper: 4 GPUs, three jobs of 12, 8 and 6 GPU hours that ask for 3, 2 and 2
    /// GPUs. A static filter of 2/3 ends them after 7, 5 and 5 hours.
    #[test]
    fn figure_1_static_filter() {
        let rho =
            |end: f64, serial: f64, gpus: f64| rho_hat(end, 0.0, serial / gpus, gpus * 3.0 / 4.0);
        let round = |value: f64, digits: f64| (value * digits).round() / digits;
        assert_eq!(round(rho(7.0, 12.0, 3.0), 100.0), 0.78);
        assert_eq!(round(rho(5.0, 8.0, 2.0), 100.0), 0.83);
        assert_eq!(round(rho(5.0, 6.0, 2.0), 10.0), 1.1);
    }
}
