//! Which configurations a job goes through: the deterministic part of a trajectory.
//!
//! Section 5: a policy's scaling pattern is known, only the regimes' durations are random.

use crate::types::{Adaptation, JobProgress, JobSpec};

/// The batch size of this moment, samples: observed, or declared before the first start.
#[must_use]
pub fn current_batch(spec: &JobSpec, progress: &JobProgress) -> u32 {
    progress.regimes.last().map_or(spec.initial_batch, |regime| regime.batch)
}

/// Epochs that are still to be trained, never negative.
#[must_use]
pub fn epochs_left(spec: &JobSpec, progress: &JobProgress) -> f64 {
    (f64::from(spec.epochs_total) - progress.epochs_done()).max(0.0)
}

/// Epochs of the ongoing regime so far.
#[must_use]
pub fn epochs_in_regime(progress: &JobProgress) -> f64 {
    progress.regimes.last().map_or(0.0, |regime| regime.epochs)
}

/// Batch sizes of the ongoing and all later regimes, in order, as far as the declared policy
/// implies them. Never empty; the first entry is the current batch size.
///
/// * Accordion alternates between two sizes: a job in its small size is expected to go to the
///   large one (critical regimes end); one in its large size stays there, unless it started large
///   and has not shown the small one yet.
/// * GNS doubles up to its limit and never shrinks.
/// * A schedule's table is taken from the present epoch on.
#[must_use]
pub fn ahead(spec: &JobSpec, progress: &JobProgress) -> Vec<u32> {
    let current = current_batch(spec, progress);
    match &spec.adaptation {
        Adaptation::Static => vec![current],
        Adaptation::Accordion { small, large } => {
            let seen_small = progress.regimes.iter().any(|regime| regime.batch == *small);
            if small == large {
                vec![current]
            } else if current != *large {
                vec![current, *large]
            } else if seen_small || spec.initial_batch != *large {
                vec![current]
            } else {
                vec![current, *small]
            }
        }
        Adaptation::Gns { max, .. } => {
            let mut batches = vec![current];
            let mut batch = current;
            while batch < *max {
                batch = batch.saturating_mul(2).min(*max);
                batches.push(batch);
            }
            batches
        }
        Adaptation::Schedule(table) => {
            let done = progress.epochs_done();
            let later = table.iter().filter(|(first, _)| f64::from(*first) > done);
            let mut batches = vec![current];
            batches.extend(later.map(|(_, batch)| *batch));
            batches
        }
    }
}

/// Epochs left in the ongoing and each later regime of a declared schedule: no uncertainty.
#[must_use]
pub fn scheduled_epochs(table: &[(u32, u32)], total: u32, done: f64) -> Vec<f64> {
    let end = f64::from(total).max(done);
    let later: Vec<f64> = table.iter().map(|entry| f64::from(entry.0)).collect();
    let mut bounds = vec![done];
    bounds.extend(later.into_iter().filter(|first| *first > done).map(|first| first.min(end)));
    bounds.push(end);
    bounds.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::predictor::rules::tests::{job, regimes};

    #[test]
    fn accordion_goes_to_the_large_size_and_stays() {
        let spec = job(100, 32, Adaptation::Accordion { small: 32, large: 256 });
        assert_eq!(ahead(&spec, &regimes(&[])), [32, 256]);
        assert_eq!(ahead(&spec, &regimes(&[(32, 30.0), (256, 4.0)])), [256]);
        let back = regimes(&[(32, 30.0), (256, 4.0), (32, 1.0)]);
        assert_eq!(ahead(&spec, &back), [32, 256]);
    }

    #[test]
    fn accordion_that_starts_large_visits_both_sizes() {
        let spec = job(100, 256, Adaptation::Accordion { small: 32, large: 256 });
        assert_eq!(ahead(&spec, &regimes(&[])), [256, 32]);
        assert_eq!(ahead(&spec, &regimes(&[(256, 9.0), (32, 1.0)])), [32, 256]);
        assert_eq!(ahead(&spec, &regimes(&[(256, 9.0), (32, 1.0), (256, 1.0)])), [256]);
    }

    #[test]
    fn gns_doubles_to_its_limit() {
        let spec = job(100, 5, Adaptation::Gns { initial: 5, max: 80 });
        assert_eq!(ahead(&spec, &regimes(&[])), [5, 10, 20, 40, 80]);
        let odd = job(100, 24, Adaptation::Gns { initial: 24, max: 100 });
        assert_eq!(ahead(&odd, &regimes(&[])), [24, 48, 96, 100]);
        assert_eq!(ahead(&odd, &regimes(&[(100, 3.0)])), [100]);
    }

    #[test]
    fn schedule_is_cut_at_the_present_epoch() {
        let table = vec![(0, 8), (10, 16), (30, 32)];
        let spec = job(50, 8, Adaptation::Schedule(table.clone()));
        let now = regimes(&[(8, 10.0), (16, 2.5)]);
        assert_eq!(ahead(&spec, &now), [16, 32]);
        assert_eq!(scheduled_epochs(&table, 50, 12.5), [17.5, 20.0]);
        assert_eq!(scheduled_epochs(&table, 20, 12.5), [7.5, 0.0]);
    }
}
