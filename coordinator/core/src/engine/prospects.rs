//! Where jobs stand in the queue and in the plan, found once for many questions.

use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use crate::types::{Decision, JobId};

/// The queue and the plan at one moment, by job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prospects {
    /// Jobs that are offered devices before it, and the devices that they ask for together.
    ahead: BTreeMap<JobId, (usize, u32)>,
    /// Rounds to come for which the plan has it.
    planned: BTreeMap<JobId, Vec<u64>>,
    /// Jobs that the plan knows.
    known: BTreeSet<JobId>,
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
            found.ahead.insert(id, before);
            before = (before.0 + 1, before.1 + gpus);
        }
        for lease in state.leases.values() {
            if let Some(job) = state.jobs.get(&lease.job) {
                *found.held.entry(job.user.clone()).or_default() += lease.placement.gpus();
            }
        }
        if let Some(Decision::Plan(plan)) = state.mechanism.decision() {
            found.known.extend(&plan.backfill);
            let rounds = (plan.first_round..).zip(&plan.rounds);
            for (round, jobs) in rounds.filter(|(round, _)| *round > state.clock.round) {
                for id in jobs {
                    found.planned.entry(*id).or_default().push(round);
                }
            }
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
        self.ahead.get(&id).copied().unwrap_or_default()
    }

    pub(super) fn planned(&self, id: JobId) -> &[u64] {
        self.planned.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn knows(&self, id: JobId) -> bool {
        self.known.contains(&id)
    }

    pub(super) fn held(&self, user: &str) -> u32 {
        self.held.get(user).copied().unwrap_or_default()
    }
}
