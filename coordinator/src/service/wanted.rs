//! What a machine is to run: its part of every lease, as its agent is told.

use shockwave_core::types::{JobId, NodeShare};
use shockwave_proto::env;
use shockwave_proto::v1::{Assignment, Grant, LeaseRef, StopOrder};

use super::actions::to_ms;
use super::book::{Job, Lease};
use super::owner::Owner;
use crate::grpc::auth::job_token;

impl Owner {
    /// Everything that a machine is to run now.
    #[must_use]
    pub fn assignments(&mut self, node: &str, address: &str) -> Vec<Assignment> {
        if !self.here.contains_key(node) {
            let leases = self.state.book.leases.iter();
            let held = leases.filter(|(_, lease)| lease.holders().any(|holder| holder == node));
            let keys = held.map(|(key, _)| *key).collect();
            self.here.insert(node.to_owned(), keys);
        }
        let keys = self.here.get(node).into_iter().flatten();
        let here = keys.filter_map(|key| self.state.book.leases.get(key));
        here.filter_map(|lease| {
            let job = self.state.book.jobs.get(&lease.job)?;
            let parts = &lease.placement.parts;
            let index = parts.iter().position(|part| part.node.0 == node)?;
            Some(self.assignment(job, lease, index, &parts[index], address))
        })
        .collect()
    }

    fn assignment(
        &self,
        job: &Job,
        lease: &Lease,
        index: usize,
        part: &NodeShare,
        address: &str,
    ) -> Assignment {
        let settings = &self.state.configuration.engine;
        let per_worker = (job.request.gpus.max(1) / job.request.workers.max(1)).max(1);
        let workers_of = |part: &NodeShare| part.slots.len() as u32 / per_worker;
        let before = &lease.placement.parts[..index];
        let chief = lease.placement.parts.first().map(|part| part.node.0.as_str());
        let chief = chief.and_then(|name| self.address_of(lease, name));
        Assignment {
            lease: Some(LeaseRef { job_id: lease.job, lease_epoch: lease.epoch }),
            nonce: lease.nonce.clone(),
            devices: part.slots.clone(),
            command: job.request.command.clone(),
            env: self.variables(job, lease, address),
            working_dir: job.request.working_dir.clone(),
            workers: workers_of(part),
            first_rank: before.iter().map(workers_of).sum(),
            world_size: job.request.workers.max(1),
            group_rank: index as u32,
            master_addr: chief.unwrap_or("127.0.0.1").to_owned(),
            master_port: self.rendezvous_port(lease).unwrap_or(0),
            ttl_ms: to_ms(self.left_s(lease)),
            checkpoint_dir: job.request.checkpoint_dir.clone(),
            log_bytes_max: self.state.configuration.log_bytes_max,
            go: self.may_go(lease),
            stop: self.stop_order(lease, &part.node.0),
            grace_ms: to_ms(job.grace_s(settings)),
            kept_by_agent: !job.has_sdk,
            attached: job.request.attached.clone(),
        }
    }

    /// Host at which the machine that has a part of a lease is reached.
    fn address_of(&self, lease: &Lease, node: &str) -> Option<&str> {
        match self.carrier(lease, node) {
            Some(carrier) => Some(&carrier.address),
            None => self.state.book.nodes.get(node).map(|node| node.address.as_str()),
        }
    }

    /// Time left of a lease, seconds.
    fn left_s(&self, lease: &Lease) -> f64 {
        let status = self.state.engine.lease(JobId(lease.job));
        let current = status.filter(|status| status.lease_epoch == lease.epoch);
        current.map_or(0.0, |status| (status.expires_s - self.now_s()).max(0.0))
    }

    /// The lease of an attached program after `after_epoch`, once its agent keeps its devices for
    /// it.
    #[must_use]
    pub fn grant(&self, job: &Job, after_epoch: u64, address: &str) -> Option<Grant> {
        let program = job.request.attached.as_ref()?;
        let lease = self.state.book.current_lease(job)?;
        if lease.epoch <= after_epoch
            || lease.stop.is_some()
            || lease.revoked
            || !lease.running.contains(&program.node)
        {
            return None;
        }
        let part = lease.placement.parts.iter().find(|part| part.node.0 == program.node)?;
        let node = self.state.book.nodes.get(&program.node)?;
        let chosen = node.devices.iter().filter(|device| part.slots.contains(&device.index));
        let has_gpus = chosen.clone().any(|device| device.kind == "gpu");
        let slots: Vec<String> = part.slots.iter().map(u32::to_string).collect();
        let mut env = self.variables(job, lease, address);
        // Counted from its grant, as for programs that an agent starts.
        env.insert(env::LEASE_TTL_MS.to_owned(), to_ms(self.left_s(lease)).max(1).to_string());
        env.insert(env::NONCE.to_owned(), lease.nonce.clone());
        env.insert(env::SLOT.to_owned(), slots.join(","));
        let visible = if has_gpus { slots.join(",") } else { String::new() };
        env.insert(env::CUDA_VISIBLE_DEVICES.to_owned(), visible);
        Some(Grant { env, devices: part.slots.clone() })
    }

    fn variables(
        &self,
        job: &Job,
        lease: &Lease,
        address: &str,
    ) -> std::collections::BTreeMap<String, String> {
        let mut variables = job.request.env.clone();
        let settings = &self.state.configuration.engine;
        let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
        set(env::COORDINATOR, address.to_owned());
        set(env::JOB_ID, lease.job.to_string());
        set(env::LEASE_EPOCH, lease.epoch.to_string());
        set(env::LEASE_TTL_MS, to_ms(settings.ttl_s).to_string());
        set(env::GRACE_MS, to_ms(job.grace_s(settings)).to_string());
        set(env::JOB_TOKEN, job_token(&self.state.secret, lease.job));
        variables
    }

    /// Whether a lease's processes may start: a gang on several machines does so once each of them
    /// keeps its devices, so that no part runs without the rest.
    fn may_go(&self, lease: &Lease) -> bool {
        let parts = &lease.placement.parts;
        let kept = self.reserved.get(&(lease.job, lease.epoch));
        let is_kept = |node: &str| {
            lease.running.contains(node) || kept.is_some_and(|kept| kept.contains_key(node))
        };
        parts.len() == 1 || parts.iter().all(|part| is_kept(&part.node.0))
    }

    /// The port at which a gang on several machines meets.
    fn rendezvous_port(&self, lease: &Lease) -> Option<u32> {
        let chief = &lease.placement.parts.first()?.node.0;
        self.reserved.get(&(lease.job, lease.epoch))?.get(chief).copied()
    }

    /// Notes that a machine keeps its part of a gang; the others hear of it when all do.
    pub fn note_reserved(&mut self, key: (u64, u64), node: &str, master_port: u32) {
        let Some(lease) = self.state.book.leases.get(&key) else { return };
        if lease.placement.parts.len() == 1 {
            return;
        }
        let holders: Vec<String> = lease.holders().map(str::to_owned).collect();
        let kept = self.reserved.entry(key).or_default();
        if kept.insert(node.to_owned(), master_port) == Some(master_port) {
            return;
        }
        let leases = &self.state.book.leases;
        self.reserved.retain(|key, _| leases.contains_key(key));
        holders.iter().for_each(|node| self.tell_node(node));
    }

    /// How a lease's processes are to end on a machine, once they are to.
    ///
    /// A process of the SDK that follows its directives hears of a yield there, and is spared the
    /// signal (which a shell around it would not survive) for half of its time; all others get
    /// SIGTERM at once. SIGKILL comes at the deadline in any case.
    fn stop_order(&self, lease: &Lease, node: &str) -> Option<StopOrder> {
        if lease.kill.contains(node) {
            return Some(StopOrder { term_in_ms: 0, kill_in_ms: 0 });
        }
        let stop = lease.stop.as_ref()?;
        let now_s = self.now_s();
        let follows = self.followers.get(&lease.job).is_some_and(|&count| count > 0);
        let term_s = if follows { (stop.asked_s + stop.deadline_s) / 2.0 } else { now_s };
        Some(StopOrder {
            term_in_ms: to_ms((term_s - now_s).max(0.0)),
            kill_in_ms: to_ms((stop.deadline_s - now_s).max(0.0)),
        })
    }

    /// A directive stream of a job has ended: from now on it must be told by signal.
    pub fn unfollow(&mut self, job: u64) {
        let Some(count) = self.followers.get_mut(&job) else { return };
        *count -= 1;
        if *count == 0 {
            self.followers.remove(&job);
        }
        let leases = self.state.book.leases.range((job, 0)..=(job, u64::MAX));
        let nodes: Vec<String> =
            leases.flat_map(|(_, lease)| lease.holders().map(str::to_owned)).collect();
        for node in nodes {
            self.tell_node(&node);
        }
    }
}

impl Job {
    /// Longest time from the asking of a yield to the kill, seconds.
    #[must_use]
    pub fn grace_s(&self, settings: &shockwave_core::engine::Settings) -> f64 {
        if self.request.grace_s > 0.0 { self.request.grace_s } else { settings.grace_s }
    }
}
