//! MST: maximum sum of throughputs, in steps per second, as published (jobs with many small steps
//! win; nothing is normalised).

use super::Policy;
use super::conic::{self, Program};
use crate::types::{ClusterView, Decision};

/// `max sum_j throughput_j x_j` over shares x.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxSumThroughput;

impl Policy for MaxSumThroughput {
    fn name(&self) -> &'static str {
        "mst"
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let mut program = Program::default();
        let gangs: Vec<f64> = view.jobs.iter().map(|job| f64::from(job.gpus)).collect();
        let shares = conic::shares(&mut program, &gangs, f64::from(view.gpus));
        for (job, &share) in view.jobs.iter().zip(&shares) {
            program.set_cost(share, -job.steps_per_s);
        }
        conic::decide(view, program.solve(), &shares)
    }
}
