//! DRF (NSDI '11), which on one resource is processor sharing: equal shares of GPUs, none more than
//! a job can use.

use std::collections::BTreeMap;

use super::Policy;
use crate::types::{ClusterView, Decision};

/// Progressive filling: every job's weighted GPUs grow together until its gang runs all the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drf;

impl Policy for Drf {
    fn name(&self) -> &'static str {
        "drf"
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let mut jobs: Vec<_> = view.jobs.iter().collect();
        // Jobs that are full first are filled first.
        let full_at = |gpus: u32, weight: f64| f64::from(gpus) / weight;
        jobs.sort_by(|a, b| full_at(a.gpus, a.weight).total_cmp(&full_at(b.gpus, b.weight)));
        let mut left = f64::from(view.gpus);
        let mut weight: f64 = jobs.iter().map(|job| job.weight).sum();
        let mut shares = BTreeMap::new();
        for job in jobs {
            let gang = f64::from(job.gpus);
            let given = gang.min(left * job.weight / weight);
            shares.insert(job.id, given / gang);
            left -= given;
            weight -= job.weight;
        }
        Decision::Shares(shares)
    }
}
