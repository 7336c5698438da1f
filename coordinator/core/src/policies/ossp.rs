//! OSSP: open shop scheduling, the least makespan that shares can reach (Gavel's "min total
//! duration").

use super::conic::{self, Program};
use super::{Information, Policy};
use crate::types::{ClusterView, Decision, JobView};

/// The smallest T for which shares exist that finish every job by T, found by bisection between
/// 100 s and 1,000,000 s down to a ratio of 1.05, as published; then the central shares for that T.
#[derive(Clone, Copy, Debug)]
pub struct OpenShop {
    /// What is known of remaining times.
    pub information: Information,
}

impl Default for OpenShop {
    fn default() -> Self {
        Self { information: Information::Reactive }
    }
}

/// Bisection ends when the bounds are within this ratio.
const RATIO: f64 = 1.05;
/// First bounds on T, seconds.
const BOUNDS_S: (f64, f64) = (100.0, 1e6);

impl OpenShop {
    fn left_s(&self, job: &JobView) -> f64 {
        match self.information {
            Information::Reactive => job.steps_left / job.steps_per_s,
            _ => job.forecast.left_s,
        }
    }
}

/// Whether shares `left / T` fit the jobs and the cluster.
fn feasible(left_s: &[f64], gangs: &[f64], gpus: f64, total_s: f64) -> bool {
    left_s.iter().all(|left| *left <= total_s)
        && left_s.iter().zip(gangs).map(|(left, gang)| gang * left.max(0.0) / total_s).sum::<f64>()
            <= gpus
}

/// The T that the published bisection ends with.
fn bisect(left_s: &[f64], gangs: &[f64], gpus: f64) -> f64 {
    let (mut low, mut high) = BOUNDS_S;
    let mut ceiling = high;
    loop {
        let mut found = None;
        while RATIO * low < high {
            let middle = f64::midpoint(low, high);
            if feasible(left_s, gangs, gpus, middle) {
                found = Some(middle);
                high = middle;
            } else {
                low = middle;
            }
        }
        match found {
            Some(total_s) => return total_s,
            // Longer than the bounds: search the decade above.
            None if ceiling.is_finite() => {
                (low, high) = (ceiling, ceiling * 10.0);
                ceiling *= 10.0;
            }
            None => return f64::INFINITY,
        }
    }
}

impl Policy for OpenShop {
    fn name(&self) -> &'static str {
        "ossp"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let left_s: Vec<f64> = view.jobs.iter().map(|job| self.left_s(job)).collect();
        let gangs: Vec<f64> = view.jobs.iter().map(|job| f64::from(job.gpus)).collect();
        let total_s = bisect(&left_s, &gangs, f64::from(view.gpus));
        let mut program = Program::default();
        let shares = conic::shares(&mut program, &gangs, f64::from(view.gpus));
        for ((job, &share), left) in view.jobs.iter().zip(&shares).zip(&left_s) {
            // In steps per second, as published: the scale decides which point is central.
            let speed = job.steps_per_s;
            program.at_most(&[(share, -speed)], -(left * speed / total_s));
        }
        conic::decide(view, program.solve(), &shares)
    }
}
