//! Where jobs stand in the queue and in the plan, found once for many questions.

use std::collections::BTreeMap;

use super::Engine;
use crate::types::{Decision, JobId};

/// The queue and the plan at one moment, by job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prospects {
    /// Jobs that are offered devices before it, and the devices that they ask for together; by job.
    ahead: Vec<(JobId, (usize, u32))>,
    /// Rounds to come for which the plan has it, in order; by job.
    planned: Vec<(JobId, u64)>,
    /// Jobs that the plan knows, in order.
    known: Vec<JobId>,
    /// Devices that each user's jobs hold.
    held: BTreeMap<String, u32>,
}

impl Engine {
    /// Looks at the queue and the plan once, for [`Engine::explain_by`] and [`Engine::eta_by`] of
    /// many jobs.
    #[must_use]
    pub fn prospects(&self) -> Prospects {
        let state = &self.state;
        let mut found = Prospects::default();
        let mut before = (0, 0);
        for id in self.precedence() {
            let gpus = state.jobs.get(&id).map_or(0, |job| job.spec.gpus);
            found.ahead.push((id, before));
            before = (before.0 + 1, before.1 + gpus);
        }
        found.ahead.sort_unstable();
        for lease in state.leases.values() {
            if let Some(job) = state.jobs.get(&lease.job) {
                *found.held.entry(job.user.clone()).or_default() += lease.placement.gpus();
            }
        }
        if let Some(Decision::Plan(plan)) = state.mechanism.decision() {
            found.known.extend(&plan.backfill);
            let rounds = (plan.first_round..).zip(&plan.rounds);
            for (round, jobs) in rounds.filter(|(round, _)| *round > state.clock.round) {
                found.planned.extend(jobs.iter().map(|id| (*id, round)));
            }
            found.known.sort_unstable();
            found.planned.sort_unstable();
        }
        found
    }

    /// Future rounds for which the plan has a job.
    pub(super) fn planned(&self, id: JobId) -> Vec<u64> {
        let Some(Decision::Plan(plan)) = self.state.mechanism.decision() else { return Vec::new() };
        (plan.first_round..)
            .zip(&plan.rounds)
            .filter(|(round, jobs)| *round > self.state.clock.round && jobs.contains(&id))
            .map(|(round, _)| round)
            .collect()
    }
}

impl Prospects {
    pub(super) fn ahead(&self, id: JobId) -> (usize, u32) {
        let place = self.ahead.binary_search_by_key(&id, |entry| entry.0);
        place.map_or((0, 0), |place| self.ahead[place].1)
    }

    pub(super) fn planned(&self, id: JobId) -> Vec<u64> {
        let from = self.planned.partition_point(|entry| entry.0 < id);
        let rounds = self.planned[from..].iter().take_while(|entry| entry.0 == id);
        rounds.map(|entry| entry.1).collect()
    }

    pub(super) fn knows(&self, id: JobId) -> bool {
        self.known.binary_search(&id).is_ok()
    }

    pub(super) fn held(&self, user: &str) -> u32 {
        self.held.get(user).copied().unwrap_or_default()
    }
}
