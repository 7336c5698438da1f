//! Themis (NSDI '20) as the paper compares with it: Gavel's program for finish time fairness,
//! without filter and auction.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::conic::{self, Program};
use super::{Information, Policy, recalled, remembered};
use crate::types::{ClusterView, Decision, JobId, JobView, MemoryError};

/// `min max_j rho_j`, where `rho_j = (elapsed + left_j / (throughput_j x_j)) / isolated_j` and
/// `isolated_j` is what the job would have taken with its 1/N of the cluster: the steps done so far
/// at the isolated throughputs of their time, plus the steps left at the isolated throughput of now.
#[derive(Clone, Debug)]
pub struct Themis {
    /// What is known of throughputs to come.
    pub information: Information,
    isolated: BTreeMap<JobId, Isolated>,
}

impl Default for Themis {
    fn default() -> Self {
        Self::with(Information::Reactive)
    }
}

/// What a job would have done alone on its share of the cluster.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Isolated {
    so_far_s: f64,
    /// Steps left and isolated throughput when shares were last computed.
    last: Option<(f64, f64)>,
}

/// One job's part of the program.
struct Term {
    elapsed_s: f64,
    steps_left: f64,
    steps_per_s: f64,
    isolated_s: f64,
    isolated_share: f64,
}

impl Themis {
    /// At an information level.
    #[must_use]
    pub fn with(information: Information) -> Self {
        Self { information, isolated: BTreeMap::new() }
    }

    fn term(&mut self, job: &JobView, view: &ClusterView) -> Term {
        let fair_gpus = f64::from(view.gpus) / view.jobs.len() as f64;
        let isolated_share = (fair_gpus / f64::from(job.gpus)).min(1.0);
        let (steps_left, steps_per_s) = match self.information {
            Information::Reactive => (job.steps_left, job.steps_per_s),
            _ => (job.forecast.left_s, 1.0),
        };
        let isolated_per_s = steps_per_s * isolated_share;
        let account = self.isolated.entry(job.id).or_default();
        if let Some((left_before, per_s_before)) = account.last {
            // Steps at an old batch size count at an old throughput; a job whose steps were
            // rescaled in between gains or loses time here, as published.
            account.so_far_s += (left_before - steps_left) / per_s_before;
        }
        Term {
            elapsed_s: view.now_s - job.arrival_s,
            steps_left,
            steps_per_s,
            isolated_s: account.so_far_s + steps_left / isolated_per_s,
            isolated_share,
        }
    }

    fn remember(&mut self, view: &ClusterView, terms: &[Term]) {
        for (job, term) in view.jobs.iter().zip(terms) {
            if let Some(account) = self.isolated.get_mut(&job.id) {
                account.last = Some((term.steps_left, term.steps_per_s * term.isolated_share));
            }
        }
        let active: BTreeSet<JobId> = view.jobs.iter().map(|job| job.id).collect();
        self.isolated.retain(|id, _| active.contains(id));
    }
}

impl Policy for Themis {
    fn name(&self) -> &'static str {
        "themis"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let terms: Vec<Term> = view.jobs.iter().map(|job| self.term(job, view)).collect();
        let isolated = || {
            let shares = view.jobs.iter().zip(&terms).map(|(job, t)| (job.id, t.isolated_share));
            Decision::Shares(shares.collect())
        };
        // A negative factor makes the program non-convex; the published code then falls back to
        // isolated shares, and keeps the older account of steps.
        if terms.iter().any(|term| term.steps_left < 0.0 || term.isolated_s <= 0.0) {
            return isolated();
        }
        let mut program = Program::default();
        let worst = program.variable(1.0);
        let gangs: Vec<f64> = view.jobs.iter().map(|job| f64::from(job.gpus)).collect();
        let shares = conic::shares(&mut program, &gangs, f64::from(view.gpus));
        let inverses: Vec<usize> = shares.iter().map(|_| program.variable(0.0)).collect();
        for (term, &inverse) in terms.iter().zip(&inverses) {
            let row = [(inverse, term.steps_left / term.isolated_s), (worst, -1.0)];
            program.at_most(&row, -term.elapsed_s / term.isolated_s);
        }
        for ((term, &share), &inverse) in terms.iter().zip(&shares).zip(&inverses) {
            program.product_at_least_one(&[(inverse, 1.0)], &[(share, term.steps_per_s)]);
        }
        let solution = program.solve();
        self.remember(view, &terms);
        match solution {
            Some(_) => conic::decide(view, solution, &shares),
            None => isolated(),
        }
    }

    fn memory(&self) -> String {
        remembered(&self.isolated)
    }

    fn recall(&mut self, memory: &str) -> Result<(), MemoryError> {
        self.isolated = recalled(self.name(), memory)?;
        Ok(())
    }
}
