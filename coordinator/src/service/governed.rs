//! What users and administrators change: holds, budgets, caps, tokens, drains.

use shockwave_core::engine::Event;
use shockwave_core::types::{JobId, NodeId};
use shockwave_proto::v1;

use super::apply::{Effects, Stamp, State};
use super::book::Token;
use super::record::Record;

impl State {
    /// A program that was started by hand carries a job, or is gone: then the job is kept back.
    fn attached(
        &mut self,
        stamp: Stamp,
        id: u64,
        program: &Option<v1::Attachment>,
        effects: &mut Effects,
    ) {
        let Some(job) = self.book.jobs.get_mut(&id).filter(|job| job.end.is_none()) else { return };
        effects.jobs.insert(id);
        let was_detached = std::mem::replace(&mut job.detached, program.is_none());
        if let Some(program) = program {
            job.request.attached = Some(program.clone());
        }
        let (job, held) = (JobId(id), job.held);
        match (was_detached, program.is_none()) {
            _ if held => {}
            (false, true) => self.feed(stamp, Event::JobHeld { job }, effects),
            (true, false) => self.feed(stamp, Event::JobReleased { job }, effects),
            _ => {}
        }
    }

    /// Takes a record of this kind; others change nothing here.
    pub(super) fn governed(&mut self, stamp: Stamp, record: &Record, effects: &mut Effects) {
        match record {
            Record::Held { job, held } => {
                if let Some(job) = self.book.jobs.get_mut(job) {
                    job.held = *held;
                }
                effects.jobs.insert(*job);
                // Without its program it stays back all the same.
                if self.book.jobs.get(job).is_some_and(|job| job.detached) {
                    return;
                }
                let job = JobId(*job);
                let event = if *held { Event::JobHeld { job } } else { Event::JobReleased { job } };
                self.feed(stamp, event, effects);
            }
            Record::Attached { job, program } => self.attached(stamp, *job, program, effects),
            Record::Weighed { job, weight } => {
                if let Some(job) = self.book.jobs.get_mut(job) {
                    job.request.weight = *weight;
                }
                effects.jobs.insert(*job);
                let event = Event::WeightChanged { job: JobId(*job), weight: *weight };
                self.feed(stamp, event, effects);
            }
            Record::UserSet { terms } => {
                self.book.users.insert(terms.user.clone(), terms.clone());
                let event = Event::UserChanged {
                    user: terms.user.clone(),
                    weight: terms.weight,
                    gpus_max: terms.gpus_max,
                };
                self.feed(stamp, event, effects);
            }
            Record::TokenAdded { token, digest } => {
                let token = Token { info: token.clone(), digest: digest.clone() };
                self.book.tokens.insert(token.info.id, token);
            }
            Record::TokenRevoked { id } => {
                if let Some(token) = self.book.tokens.get_mut(id) {
                    token.info.revoked_unix_s.get_or_insert(stamp.unix_s);
                }
            }
            Record::TokenBound { id, node } => {
                if let Some(token) = self.book.tokens.get_mut(id) {
                    token.info.node.clone_from(node);
                }
            }
            Record::Drained { node, drained, why } => {
                if let Some(node) = self.book.nodes.get_mut(node) {
                    node.drained = *drained;
                }
                let node = NodeId(node.clone());
                let event = if *drained {
                    Event::NodeDrained { node, why: why.clone() }
                } else {
                    Event::NodeResumed { node }
                };
                self.feed(stamp, event, effects);
            }
            _ => {}
        }
    }
}
