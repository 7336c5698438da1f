//! Gandiva-Fair (EuroSys '20) as the paper compares with it: every job gets the same share of time,
//! so that GPU time is proportional to its gang size.

use super::Policy;
use crate::types::{ClusterView, Decision};

/// Equal shares of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct GandivaFair;

impl Policy for GandivaFair {
    fn name(&self) -> &'static str {
        "gandiva-fair"
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let share = (f64::from(view.gpus) / view.jobs.len().max(1) as f64).min(1.0);
        Decision::Shares(view.jobs.iter().map(|job| (job.id, share)).collect())
    }
}
