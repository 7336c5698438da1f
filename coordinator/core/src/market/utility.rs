//! Progress as utility: UTIL_j of eq. 7 as a table over the rounds that a job gets.

use super::buyer::{Buyer, MicroJob};

/// Progress below this counts as this much: the logarithm of a job that has not begun.
pub const PROGRESS_FLOOR: f64 = 1e-6;

/// UTIL_j after 0..=`rounds` rounds of `round_s` seconds: the share of its epochs that the job has
/// trained, its micro-jobs in order.
#[must_use]
pub fn progress_table(
    epochs_done: f64,
    epochs_total: f64,
    ahead: &[MicroJob],
    round_s: f64,
    rounds: usize,
) -> Vec<f64> {
    let mut table = Vec::with_capacity(rounds + 1);
    let mut epochs = epochs_done;
    let mut parts = ahead.iter().copied();
    let mut part = parts.next();
    table.push(epochs / epochs_total);
    for _ in 0..rounds {
        let mut time_s = round_s;
        while let Some(current) = &mut part {
            let whole_s = current.epochs * current.epoch_s;
            if whole_s <= time_s {
                epochs += current.epochs;
                time_s -= whole_s;
                part = parts.next();
            } else {
                let trained = time_s / current.epoch_s;
                epochs += trained;
                current.epochs -= trained;
                break;
            }
        }
        table.push(epochs / epochs_total);
    }
    table
}

/// Mean over the trajectories of log UTIL_j after 0..=`rounds` rounds.
#[must_use]
pub fn log_utility(buyer: &Buyer, round_s: f64, rounds: usize) -> Vec<f64> {
    let mut mean = vec![0.0; rounds + 1];
    let share = 1.0 / buyer.trajectories.len().max(1) as f64;
    for ahead in &buyer.trajectories {
        let table = progress_table(buyer.epochs_done, buyer.epochs_total, ahead, round_s, rounds);
        for (sum, progress) in mean.iter_mut().zip(table) {
            *sum += share * progress.max(PROGRESS_FLOOR).ln();
        }
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paper, section 1: over 20 rounds a job's utility from a GPU doubles after 10.
    #[test]
    fn a_dynamic_market_sees_thirty_u0_where_a_static_one_sees_twenty() {
        let u0 = MicroJob { epochs: 10.0, epoch_s: 120.0 };
        let u1 = MicroJob { epochs: 100.0, epoch_s: 60.0 };
        let dynamic = progress_table(0.0, 1.0, &[u0, u1], 120.0, 20);
        assert_eq!(dynamic[10], 10.0);
        assert_eq!(dynamic[20], 30.0);
        let forever = MicroJob { epochs: 110.0, epoch_s: 120.0 };
        assert_eq!(progress_table(0.0, 1.0, &[forever], 120.0, 20)[20], 20.0);
    }

    /// Paper, appendix G: at epoch 5 of 2 minutes each, regime 2 of 1 minute from epoch 15 on: the
    /// batch size changes in the 20th minute of the window.
    #[test]
    fn regimes_stay_in_order() {
        let ahead =
            [MicroJob { epochs: 10.0, epoch_s: 120.0 }, MicroJob { epochs: 50.0, epoch_s: 60.0 }];
        let table = progress_table(5.0, 65.0, &ahead, 120.0, 15);
        assert_eq!(table[10], 15.0 / 65.0);
        assert_eq!(table[15], 25.0 / 65.0);
    }

    #[test]
    fn a_finished_job_gains_nothing() {
        let ahead = [MicroJob { epochs: 1.0, epoch_s: 50.0 }];
        assert_eq!(progress_table(3.0, 4.0, &ahead, 100.0, 3), [0.75, 1.0, 1.0, 1.0]);
    }
}
