//! What users and administrators change: holds, budgets, caps, tokens, drains.

use shockwave_core::engine::Event;
use shockwave_core::types::{JobId, NodeId};

use super::apply::{Effects, Stamp, State};
use super::book::Token;
use super::record::Record;

impl State {
    /// Takes a record of this kind; others change nothing here.
    pub(super) fn governed(&mut self, stamp: Stamp, record: &Record, effects: &mut Effects) {
        match record {
            Record::Held { job, held } => {
                if let Some(job) = self.book.jobs.get_mut(job) {
                    job.held = *held;
                }
                effects.jobs.insert(*job);
                let job = JobId(*job);
                let event = if *held { Event::JobHeld { job } } else { Event::JobReleased { job } };
                self.feed(stamp, event, effects);
            }
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
