//! What the owner looks after by the second: machines that fall silent, plain commands that cannot
//! speak for themselves.

use std::collections::BTreeSet;

use super::LOST_AFTER;
use super::apply::Effects;
use super::carriers::PLACE;
use super::owner::Owner;
use super::record::Record;

impl Owner {
    /// What is looked at each second.
    pub fn each_second(&mut self) {
        self.find_lost_nodes();
        self.drop_unsaid_joins();
        self.renew_for_commands();
    }

    fn find_lost_nodes(&mut self) {
        let (late_s, now_s) = (LOST_AFTER.as_secs_f64(), self.now_s());
        // A place has no agent that could fall silent: those of its leases can.
        let up =
            self.state.book.nodes.iter().filter(|(_, node)| !node.lost && node.instance != PLACE);
        let lost: Vec<_> = up
            .map(|(name, _)| name.clone())
            .filter(|name| self.heard.get(name).is_none_or(|heard_s| now_s - heard_s > late_s))
            .collect();
        for node in lost {
            // After a start nobody has been heard yet: everybody gets the whole time.
            if let std::collections::btree_map::Entry::Vacant(entry) =
                self.heard.entry(node.clone())
            {
                entry.insert(now_s);
                continue;
            }
            let why = format!("its agent was not heard for {late_s} s");
            tracing::warn!(node, why, "a machine is lost");
            let _ = self.append_own(&Record::Lost { node, why });
        }
    }

    /// A plain command cannot renew its lease: its machines' agents speak for it.
    fn renew_for_commands(&mut self) {
        let ttl_s = self.state.configuration.engine.ttl_s;
        let now_s = self.now_s();
        let engine = &self.state.engine;
        let due =
            engine.leases().filter(|lease| lease.live && lease.expires_s - now_s < ttl_s * 0.67);
        let due: Vec<(u64, u64)> = due
            .map(|lease| (lease.job.0, lease.lease_epoch))
            .filter(|key| self.runs_as_command(*key))
            .collect();
        for (job, lease_epoch) in due {
            let _ = self.append_own(&Record::Renewed { job, lease_epoch, position: None });
        }
    }

    /// Whether a lease belongs to a plain command that runs on machines which are heard.
    fn runs_as_command(&self, key: (u64, u64)) -> bool {
        let book = &self.state.book;
        let (Some(lease), Some(job)) = (book.leases.get(&key), book.jobs.get(&key.0)) else {
            return false;
        };
        !job.has_sdk && lease.is_whole() && lease.holders().all(|node| self.hears(lease, node))
    }

    /// Wakes a machine's agent although the log says nothing new to it.
    pub fn tell_node(&mut self, node: &str) {
        let effects = Effects { nodes: BTreeSet::from([node.to_owned()]), ..Effects::default() };
        self.tell(&effects);
    }

    /// A machine will not be heard again.
    pub fn forget_node(&mut self, node: &str) {
        self.heard.remove(node);
        self.joining.remove(node);
        self.left.remove(node);
        self.generations.remove(node);
        self.here.remove(node);
        self.dismissed.remove(node);
    }
}
