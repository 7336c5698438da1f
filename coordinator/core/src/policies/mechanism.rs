//! The round mechanism: from a policy's decision to the jobs of the next round.
//!
//! Shares become rounds as in Gavel (OSDI '20, section 5): a job's priority is its share over the
//! fraction of time that it has received since the shares were last computed, ties go to the larger
//! deficit, and the round is filled greedily. Orders are filled greedily as they are; plans are
//! followed round by round and idle GPUs offered in the plan's backfill order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Replan;
use crate::types::{Decision, JobId};

/// How rounds are filled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MechanismConfig {
    /// Length of a round, seconds; half of it is each job's initial received time.
    pub round_s: f64,
    /// Least time between two decisions of a policy that decides on job changes, seconds.
    pub resolve_interval_s: f64,
    /// What happens to a job that a greedy fill picks although its policy gave it no share (it
    /// arrived since): true, and it holds its GPUs without running, as in the published simulator;
    /// false, and it runs.
    pub strangers_hold_capacity: bool,
}

impl MechanismConfig {
    /// The service's: decisions are renewed at once, and no GPU is held idle.
    #[must_use]
    pub fn product(round_s: f64) -> Self {
        Self { round_s, resolve_interval_s: 0.0, strangers_hold_capacity: false }
    }

    /// The published simulator's: shares are renewed at most every 1000 s.
    #[must_use]
    pub fn published(round_s: f64) -> Self {
        Self { round_s, resolve_interval_s: 1000.0, strangers_hold_capacity: true }
    }
}

/// A job that may run in the next round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The job.
    pub id: JobId,
    /// Gang size.
    pub gpus: u32,
    /// Whether it runs now.
    pub running: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Account {
    received_s: f64,
    deficit_s: f64,
}

/// A job's place among the others.
struct Rank {
    id: JobId,
    priority: f64,
    deficit_s: f64,
    share: f64,
}

impl Rank {
    /// The larger priority first, then deficit, then share. A stable sort leaves equals in order of
    /// admission.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let by_priority = other.priority.total_cmp(&self.priority);
        let by_deficit = || other.deficit_s.total_cmp(&self.deficit_s);
        by_priority.then_with(by_deficit).then_with(|| other.share.total_cmp(&self.share))
    }
}

/// The state between rounds: one for each cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mechanism {
    config: MechanismConfig,
    accounts: BTreeMap<JobId, Account>,
    received_total_s: f64,
    decision: Option<Decision>,
    decided_at_s: f64,
    changed: bool,
}

impl Mechanism {
    /// A mechanism without jobs.
    #[must_use]
    pub fn new(config: MechanismConfig) -> Self {
        Self {
            config,
            accounts: BTreeMap::new(),
            received_total_s: 0.0,
            decision: None,
            decided_at_s: 0.0,
            changed: false,
        }
    }

    /// Takes in a job that has arrived.
    pub fn admit(&mut self, id: JobId) {
        let received_s = self.config.round_s / 2.0;
        self.accounts.insert(id, Account { received_s, deficit_s: 0.0 });
        self.changed = true;
    }

    /// Lets go of a job that has ended.
    pub fn remove(&mut self, id: JobId) {
        self.accounts.remove(&id);
        self.changed = true;
    }

    /// Notes that a decision is out of date for another reason: a failure, another number of GPUs.
    pub fn note_change(&mut self) {
        self.changed = true;
    }

    /// Notes time that a job has run.
    pub fn received(&mut self, id: JobId, seconds: f64) {
        if let Some(account) = self.accounts.get_mut(&id) {
            account.received_s += seconds;
        }
        self.received_total_s += seconds;
    }

    /// Whether the policy must be asked before round `round`.
    #[must_use]
    pub fn must_decide(&self, replan: Replan, now_s: f64, round: u64) -> bool {
        let exhausted = match &self.decision {
            None => true,
            Some(Decision::Plan(plan)) => round >= plan.first_round + plan.rounds.len() as u64,
            Some(_) => false,
        };
        // A decision at time 0 does not count: the first rounds of a trace re-solve at once.
        let waited =
            now_s - self.decided_at_s >= self.config.resolve_interval_s || self.decided_at_s == 0.0;
        match replan {
            Replan::EveryRound => true,
            Replan::OnJobChange => exhausted || (self.changed && waited),
        }
    }

    /// The policy is about to be asked: what changes from now on is not in its answer.
    pub fn begin_decision(&mut self) {
        self.changed = false;
    }

    /// Adopts a new decision: what each job was owed by the old one goes into its deficit.
    pub fn adopt(&mut self, decision: Decision, now_s: f64) {
        let elapsed_s = now_s - self.decided_at_s;
        let initial_s = self.config.round_s / 2.0;
        for (id, account) in &mut self.accounts {
            let share = match &self.decision {
                Some(Decision::Shares(shares)) => shares.get(id).copied().unwrap_or(0.0),
                _ => 0.0,
            };
            account.deficit_s += share * elapsed_s - (account.received_s - initial_s);
            account.received_s = initial_s;
        }
        self.received_total_s = initial_s * self.accounts.len() as f64;
        self.decision = Some(decision);
        self.decided_at_s = now_s;
    }

    /// The decision in force.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Every one of the active jobs (given in order of admission), once, in the order in which they
    /// are offered GPUs in round `round`. Jobs that the decision does not know come last.
    #[must_use]
    pub fn precedence(&self, round: u64, active: impl Iterator<Item = JobId>) -> Vec<JobId> {
        let active: Vec<JobId> = active.collect();
        if let Some(Decision::Shares(shares)) = &self.decision {
            let mut ranked: Vec<Rank> = active.iter().map(|id| self.rank(shares, *id)).collect();
            ranked.sort_by(Rank::compare);
            return ranked.into_iter().map(|rank| rank.id).collect();
        }
        let mut waiting = active.clone();
        waiting.sort_unstable();
        let mut is_taken = vec![false; waiting.len()];
        let mut takes = |id: &JobId| {
            let place = waiting.binary_search(id).ok();
            place.is_some_and(|place| !std::mem::replace(&mut is_taken[place], true))
        };
        let decided = self.in_order(round);
        decided.chain(active).filter(|id| takes(id)).collect()
    }

    /// The jobs of an order, or of a plan's round and its backfill.
    fn in_order(&self, round: u64) -> Box<dyn Iterator<Item = JobId> + '_> {
        match &self.decision {
            Some(Decision::Order(order)) => Box::new(order.iter().copied()),
            Some(Decision::Plan(plan)) => {
                let planned = round
                    .checked_sub(plan.first_round)
                    .and_then(|offset| plan.rounds.get(usize::try_from(offset).ok()?));
                Box::new(planned.into_iter().flatten().chain(&plan.backfill).copied())
            }
            Some(Decision::Shares(_)) | None => Box::new(std::iter::empty()),
        }
    }

    /// Fills round `round`: whole gangs on at most `gpus` GPUs, in order of precedence.
    /// `candidates` are all active jobs in order of admission.
    #[must_use]
    pub fn fill(&self, round: u64, candidates: &[Candidate], gpus: u32) -> Vec<JobId> {
        match &self.decision {
            None => Vec::new(),
            Some(Decision::Shares(shares)) => self.fill_by_shares(shares, candidates, gpus),
            Some(_) => greedy(self.in_order(round), candidates, gpus),
        }
    }

    fn fill_by_shares(
        &self,
        shares: &BTreeMap<JobId, f64>,
        candidates: &[Candidate],
        gpus: u32,
    ) -> Vec<JobId> {
        let mut ranked: Vec<(Rank, &Candidate)> =
            candidates.iter().map(|job| (self.rank(shares, job.id), job)).collect();
        ranked.sort_by(|a, b| a.0.compare(&b.0));
        let mut left = gpus;
        let mut chosen = Vec::new();
        for (_, candidate) in ranked {
            if candidate.gpus > left {
                continue;
            }
            left -= candidate.gpus;
            let stranger = !shares.contains_key(&candidate.id) && !candidate.running;
            if !(stranger && self.config.strangers_hold_capacity) {
                chosen.push(candidate.id);
            }
        }
        chosen
    }

    fn rank(&self, shares: &BTreeMap<JobId, f64>, id: JobId) -> Rank {
        let account = self.accounts.get(&id).copied().unwrap_or_default();
        let share = shares.get(&id).copied().unwrap_or(0.0);
        Rank { id, priority: self.priority(share, account), deficit_s: account.deficit_s, share }
    }

    fn priority(&self, share: f64, account: Account) -> f64 {
        if share != 0.0 && self.received_total_s > 0.0 && account.received_s > 0.0 {
            share / (account.received_s / self.received_total_s)
        } else {
            share * 1e9
        }
    }
}

/// Takes jobs in order while their gangs fit; jobs that are not candidates or come twice are passed.
fn greedy(order: impl Iterator<Item = JobId>, candidates: &[Candidate], gpus: u32) -> Vec<JobId> {
    let mut waiting: BTreeMap<JobId, u32> =
        candidates.iter().map(|candidate| (candidate.id, candidate.gpus)).collect();
    let mut left = gpus;
    let mut chosen = Vec::new();
    for id in order {
        if left == 0 {
            break;
        }
        if let Some(gang) = waiting.get(&id).copied().filter(|gang| *gang <= left) {
            waiting.remove(&id);
            left -= gang;
            chosen.push(id);
        }
    }
    chosen
}
