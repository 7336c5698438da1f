//! Gavel (OSDI '20): heterogeneity-aware max-min fairness; on one type of GPU, max-min over
//! weighted GPU shares.
//!
//! As published, it is blind to batch sizes: every throughput counts as 1.

use super::Policy;
use super::conic::{self, Program};
use crate::types::{ClusterView, Decision};

/// `max min_j g_j x_j / w_j` over shares x.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gavel;

impl Policy for Gavel {
    fn name(&self) -> &'static str {
        "gavel"
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let mut program = Program::default();
        let least = program.variable(-1.0);
        let gangs: Vec<f64> = view.jobs.iter().map(|job| f64::from(job.gpus)).collect();
        let shares = conic::shares(&mut program, &gangs, f64::from(view.gpus));
        for (job, &share) in view.jobs.iter().zip(&shares) {
            let worth = f64::from(job.gpus) / job.weight;
            program.at_most(&[(least, 1.0), (share, -worth)], 0.0);
        }
        conic::decide(view, program.solve(), &shares)
    }
}
