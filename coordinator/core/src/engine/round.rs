//! Rounds: the question to the policy, the choice of the next round's jobs, the boundary.

use super::{
    Action, Engine, PlanAnswer, PlanRequest, Planning, Refusal, YieldReason, clock::Step,
    on_job::invalid, reactor::Turn, select::Choice,
};
use crate::{
    policies::{Replan, mechanism::Mechanism},
    types::{JobId, NodeId},
};

/// A yield is asked for this much earlier than it took on average.
const YIELD_MARGIN: f64 = 1.25;

impl Engine {
    pub(super) fn on_round_step(&mut self, step: Step, at_s: f64, turn: &mut Turn) {
        // After a gap (nobody called for more than a round) there is no point in catching up.
        if turn.now_s - at_s > self.state.settings.round_s {
            self.state.clock.jump(turn.now_s);
            return;
        }
        match step {
            Step::Ask => self.ask(turn),
            Step::Fix => {
                if self.state.settings.planning == Planning::Inline {
                    self.decide(turn);
                }
                self.fix_round(turn);
            }
            Step::Begin => self.begin_round(turn),
        }
    }

    fn must_decide(&mut self) -> bool {
        self.account_all();
        let state = &self.state;
        let next_round = state.clock.round + 1;
        state.active > 0
            && state.mechanism.must_decide(self.policy.replan(), state.now_s, next_round)
    }

    /// Puts the question to whoever decides beside the round.
    fn ask(&mut self, turn: &mut Turn) {
        self.state.clock.asked = true;
        if self.state.question.is_some() {
            // The last question was not answered.
            self.state.mechanism.note_change();
        }
        if !self.must_decide() {
            return;
        }
        let view = self.view();
        let state = &mut self.state;
        state.questions += 1;
        state.question = Some(state.questions);
        state.mechanism.begin_decision();
        turn.out.push(Action::Plan(Box::new(PlanRequest {
            id: state.questions,
            due_s: state.clock.boundary_s() - state.settings.lead_s,
            view,
            memory: self.policy.memory(),
        })));
    }

    /// A first plan as soon as there is a job: it says what is to come long before the round ends
    /// for which the next one is made. Only for policies that decide anew before every round.
    pub(super) fn ask_early(&mut self, turn: &mut Turn) {
        let state = &self.state;
        let wants = state.settings.planning == Planning::Beside
            && self.policy.replan() == Replan::EveryRound
            && state.mechanism.decision().is_none()
            && state.question.is_none()
            && state.active > 0
            && !state.clock.asked
            && state.cluster.gpus() > 0;
        if wants {
            self.ask(turn);
            self.state.clock.asked = false;
        }
    }

    /// An answer that comes after the round was fixed serves the next one.
    pub(super) fn on_planned(&mut self, answer: PlanAnswer, turn: &mut Turn) {
        if self.state.question != Some(answer.id) {
            return turn.refuse(None, Refusal::StalePlan { got: answer.id });
        }
        self.state.question = None;
        if let Err(error) = self.policy.recall(&answer.memory) {
            return turn.refuse(None, invalid("memory", error, "what the policy gave"));
        }
        self.adopt(answer.decision, turn);
    }

    fn decide(&mut self, turn: &mut Turn) {
        if self.must_decide() {
            let view = self.view();
            self.state.mechanism.begin_decision();
            let decision = self.policy.decide(&view);
            self.adopt(decision, turn);
        }
    }

    fn adopt(&mut self, decision: crate::types::Decision, turn: &mut Turn) {
        let round = self.state.clock.round + 1;
        let news = Box::new(decision.clone());
        self.state.mechanism.adopt(decision, turn.now_s);
        turn.out.push(Action::Replanned { round, decision: news });
    }

    /// Fixes who runs in the next round: devices for those who start, a request to yield for those
    /// who go.
    fn fix_round(&mut self, turn: &mut Turn) {
        self.state.clock.fixed = true;
        let Choice { keep, start } = self.choose();
        let boundary_s = self.state.clock.boundary_s();
        for job in self.state.reserved.keys().copied().collect::<Vec<_>>() {
            self.unreserve(job);
        }
        for (job, placement) in &start {
            self.state.cluster.reserve(placement, *job);
        }
        self.state.reserved = start.into_iter().collect();
        let going: Vec<JobId> = self
            .state
            .leases
            .values()
            .filter(|lease| lease.is_live() && !keep.contains(&lease.job))
            .filter(|lease| !self.is_out_of_reach(lease))
            .map(|lease| lease.job)
            .collect();
        for job in going {
            self.plan_yield(job, boundary_s, turn);
        }
        self.state.dispatch_due = true;
    }

    /// Sets the moment at which a job is asked to yield, so that its devices are free at the
    /// boundary.
    fn plan_yield(&mut self, id: JobId, boundary_s: f64, turn: &mut Turn) {
        let reason = self.yield_reason(id);
        let state = &mut self.state;
        let lead_s = state.settings.lead_s;
        let needed_s = state
            .jobs
            .get(&id)
            .and_then(|job| job.yield_s)
            .map_or(lead_s, |yield_s| (yield_s * YIELD_MARGIN).min(lead_s));
        if let Some(lease) = state.leases.get_mut(&id) {
            lease.yield_at = Some(((boundary_s - needed_s).max(turn.now_s), reason));
        }
        turn.touch(id);
    }

    fn yield_reason(&self, id: JobId) -> YieldReason {
        let state = &self.state;
        let round = state.clock.round + 1;
        let Some(lease) = state.leases.get(&id) else {
            return YieldReason::Round { round, to: Vec::new() };
        };
        let until_s = state.clock.boundary_s() + state.settings.round_s;
        let drained =
            |node: &NodeId| state.cluster.nodes.get(node).is_none_or(|node| !node.serves(until_s));
        if let Some(part) = lease.placement.parts.iter().find(|part| drained(&part.node)) {
            return YieldReason::Drained { node: part.node.clone() };
        }
        if state.reserved.contains_key(&id) {
            return YieldReason::Moved { round };
        }
        let takers = state.cluster.waiting_on(&lease.placement);
        YieldReason::Round { round, to: takers.into_iter().collect() }
    }

    fn begin_round(&mut self, turn: &mut Turn) {
        let state = &mut self.state;
        state.clock.advance();
        let (now_s, ttl_s) = (turn.now_s, state.settings.ttl_s);
        for lease in state.leases.values_mut().filter(|lease| lease.is_live()) {
            // Only a worker that lives gets more time.
            if now_s - lease.heard_s < ttl_s && lease.yield_at.is_none() {
                lease.expires_s = now_s + ttl_s;
                let (job, lease_epoch) = (lease.job, lease.epoch);
                turn.out.push(Action::ExtendLease { job, lease_epoch, ttl_s });
                turn.touched.push(job);
            }
        }
        let running = state.leases.keys().copied().collect();
        turn.out.push(Action::RoundStarted { round: state.clock.round, at_s: now_s, running });
        state.dispatch_due = true;
        if state.jobs.is_empty() && state.leases.is_empty() {
            state.clock.awake = false;
        }
    }

    /// Writes all service so far into the mechanism's accounts.
    fn account_all(&mut self) {
        let state = &mut self.state;
        let now_s = state.now_s;
        let mechanism: &mut Mechanism = &mut state.mechanism;
        for lease in state.leases.values_mut() {
            mechanism.received(lease.job, (now_s - lease.accounted_s).max(0.0));
            lease.accounted_s = now_s;
        }
    }
}
