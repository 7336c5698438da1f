//! Tiresias (NSDI '19): discretised two-dimensional least attained service. It needs no run times.

use super::{Policy, Replan, ascending};
use crate::types::{ClusterView, Decision};

/// Jobs that have attained less GPU time than the first limit come first, then those below the
/// second limit, and so on; within a queue, first in, first out.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiresias {
    /// Upper limits of the queues but the last, GPU-seconds, ascending.
    pub limits_gpu_s: Vec<f64>,
}

impl Default for Tiresias {
    /// Two queues, parted at one GPU-hour.
    fn default() -> Self {
        Self { limits_gpu_s: vec![3600.0] }
    }
}

impl Policy for Tiresias {
    fn name(&self) -> &'static str {
        "tiresias"
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        ascending(view, |job| {
            let attained_gpu_s = job.attained_s * f64::from(job.gpus);
            let queue = self.limits_gpu_s.partition_point(|limit| *limit <= attained_gpu_s);
            (queue as f64, job.arrival_s)
        })
    }
}
