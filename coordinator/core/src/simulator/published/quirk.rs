//! The published simulator's quirks that are numbers or small rules.

/// Length of a round, seconds.
pub const ROUND_S: f64 = 120.0;

/// Steps of a job in one round: whole steps only. A round ends when the last of its jobs has done
/// them: at most 120 s, usually a little less. GPUs of jobs that end earlier idle until then.
#[must_use]
pub fn whole_steps(steps_per_s: f64, steps_left: i64) -> i64 {
    ((steps_per_s * ROUND_S) as i64).min(steps_left)
}

/// What a start costs, seconds: steps are lost, but time goes on as if they were not.
pub const RESTART_S: f64 = 20.0;

/// A start is free when the job ran for no longer than this in the round, seconds.
pub const RESTART_FREE_S: f64 = ROUND_S - 5.0;

/// The first round of a simulation (index 0) charges no starts.
pub const FREE_FIRST_ROUND: u64 = 0;

/// A job whose progress was rounded up to its end is not complete: it is scheduled, does nothing,
/// holds its GPUs, and is removed as failed after this many such rounds.
pub const ZOMBIE_ROUNDS: u32 = 5;

/// Steps after a change of the batch size: progress is rounded up to a whole epoch. A job is so
/// credited up to an epoch of work that it never did.
#[must_use]
pub fn rounded_up(steps_run: i64, steps_per_epoch_old: i64, steps_per_epoch_new: i64) -> i64 {
    ceil_div(steps_run, steps_per_epoch_old) * steps_per_epoch_new
}

/// Total steps after a change of the batch size: scaled by the batch sizes, unless that changes the
/// number of epochs.
#[must_use]
pub fn rescaled_total(
    total: i64,
    (batch_old, batch_new): (u32, u32),
    (per_epoch_old, per_epoch_new): (i64, i64),
) -> i64 {
    let epochs = ceil_div(total, per_epoch_old);
    let ratio = 1.0 / (f64::from(batch_new) / f64::from(batch_old));
    let scaled = (total as f64 * ratio).ceil() as i64;
    if ceil_div(scaled, per_epoch_new) == epochs { scaled } else { per_epoch_new * epochs }
}

/// Division of whole numbers, rounded up (also below zero).
#[must_use]
pub fn ceil_div(number: i64, divisor: i64) -> i64 {
    number.div_euclid(divisor) + i64::from(number.rem_euclid(divisor) != 0)
}
