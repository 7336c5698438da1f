//! Who is told when something has changed: those who wait, and the coordinator's log.

use shockwave_core::engine::Outcome;
use tokio::sync::watch;

use super::Owner;
use crate::service::apply::Effects;

impl Owner {
    /// Wakes whoever waits for what has changed.
    pub(in crate::service) fn tell(&mut self, effects: &Effects) {
        for job in &effects.jobs {
            self.job_bell.ring(job);
        }
        for job in effects.ended.iter().filter_map(|id| self.state.book.jobs.get(id)) {
            let (id, name) = (job.id, job.request.name.as_str());
            match job.end.as_ref().map(|end| &end.outcome) {
                Some(Outcome::Finished { .. }) => tracing::info!(id, name, "a job has finished"),
                _ => tracing::warn!(id, name, why = job.note, "a job has ended"),
            }
        }
        for node in &effects.nodes {
            self.here.remove(node);
            *self.generations.entry(node.clone()).or_insert(0) += 1;
            self.node_bell.ring(node);
        }
        if effects.nodes.iter().any(|node| self.is_place(node)) {
            self.place_bell.send_modify(|changes| *changes += 1);
        }
    }

    /// A bell that rings when any place is to have something else.
    #[must_use]
    pub fn place_bell(&self) -> watch::Receiver<u64> {
        self.place_bell.subscribe()
    }

    /// A bell that rings at each change of a job.
    pub fn job_bell(&mut self, job: u64) -> watch::Receiver<u64> {
        self.job_bell.listen(&job)
    }

    /// A bell that rings when a machine is to have something else.
    pub fn node_bell(&mut self, node: &str) -> watch::Receiver<u64> {
        self.node_bell.listen(&node.to_owned())
    }

    /// The number of the last durable record, as it grows.
    #[must_use]
    pub fn log_bell(&self) -> watch::Receiver<u64> {
        self.log_bell.subscribe()
    }
}
