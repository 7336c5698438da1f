//! Who runs in the next round, and where: the mechanism's precedence under the cluster's and the
//! users' limits.

use std::collections::{BTreeMap, BTreeSet};

use super::{Engine, job::Job, lease::Lease};
use crate::{
    placement::FreeDevices,
    types::{JobId, NodeId, Placement},
};

/// The jobs of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choice {
    /// Jobs that stay on the devices that they have.
    pub(super) keep: BTreeSet<JobId>,
    /// Jobs that get devices.
    pub(super) start: Vec<(JobId, Placement)>,
}

/// What is left while the round is filled.
struct Room<'a> {
    /// Devices by kind.
    kinds: BTreeMap<&'a str, u32>,
    /// Devices by node, as far as they are promised to jobs that cannot be elsewhere.
    nodes: BTreeMap<&'a NodeId, u32>,
    /// Devices by user, for users with a cap.
    users: BTreeMap<&'a str, u32>,
}

impl Engine {
    /// Chooses the jobs of the next round.
    pub(super) fn choose(&self) -> Choice {
        let state = &self.state;
        let boundary_s = state.clock.boundary_s();
        let order = self.precedence();
        let mut room = self.room(boundary_s);
        let mut keep = BTreeSet::new();
        let mut wanted: Vec<&Job> = Vec::new();
        let mut seen = BTreeSet::new();
        for id in self.pinned(boundary_s).into_iter().chain(order.iter().copied()) {
            let Some(job) = state.jobs.get(&id).filter(|job| self.may_run(job, boundary_s)) else {
                continue;
            };
            let lease = state.leases.get(&id);
            if !seen.insert(id) || lease.is_some_and(|lease| self.is_out_of_reach(lease)) {
                continue;
            }
            let lease = lease.filter(|lease| lease.is_live());
            if lease.is_some_and(|lease| self.fits_in_place(&mut room, job, lease)) {
                keep.insert(id);
            } else if self.fits_somewhere(&mut room, job) {
                wanted.push(job);
            }
        }
        let start = self.place_all(&keep, wanted, boundary_s);
        let mut choice = Choice { keep, start };
        self.fill_rest(&mut choice, &order, boundary_s);
        choice
    }

    /// Jobs in the order in which they are offered devices: the policy's, then by admission.
    pub(super) fn precedence(&self) -> Vec<JobId> {
        let state = &self.state;
        let active = state
            .admitted
            .values()
            .copied()
            .filter(|id| state.jobs.get(id).is_some_and(super::job::Job::is_active));
        state.mechanism.precedence(state.clock.round + 1, active)
    }

    /// Running jobs that have not had their shortest run yet. It counts from the first training:
    /// a lease that is taken back before has cost a start and brought nothing, over and over where
    /// starts take as long as rounds. A worker that never trains is ended by its lease's time.
    fn pinned(&self, boundary_s: f64) -> Vec<JobId> {
        let leases = self.state.leases.values().filter(|lease| lease.is_live());
        let mut pinned: Vec<(u64, JobId)> = leases
            .filter(|lease| lease.training_s.is_none() || lease.pinned_until_s > boundary_s)
            .filter_map(|lease| Some((self.state.jobs.get(&lease.job)?.seq, lease.job)))
            .collect();
        pinned.sort_unstable();
        pinned.into_iter().map(|(_, job)| job).collect()
    }

    /// Whether a job may hold devices at a time.
    pub(super) fn may_run(&self, job: &Job, at_s: f64) -> bool {
        job.is_active() && job.not_before_s <= at_s
    }

    /// Devices that can be given to the whole of the next round: free, or about to be. Those whose
    /// processes do not go are not counted on.
    fn usable(&self, boundary_s: f64) -> FreeDevices<'_> {
        let leases = &self.state.leases;
        let until_s = boundary_s + self.state.settings.round_s;
        self.state.cluster.held_by(until_s, |job, epoch| {
            leases.get(&job).is_some_and(|lease| lease.epoch == epoch && lease.killing.is_none())
        })
    }

    /// Whether a job's lease is on a node that is away: it cannot be managed until the node is
    /// back or the lease is over.
    pub(super) fn is_out_of_reach(&self, lease: &Lease) -> bool {
        lease.parts.iter().any(|part| !self.state.cluster.nodes.contains_key(part))
    }

    fn room(&self, boundary_s: f64) -> Room<'_> {
        let state = &self.state;
        let mut room =
            Room { kinds: BTreeMap::new(), nodes: BTreeMap::new(), users: BTreeMap::new() };
        let usable = self.usable(boundary_s);
        room.kinds.extend(usable.by_kind().map(|(kind, count)| (kind, count as u32)));
        room.nodes.extend(usable.by_node().map(|(node, devices)| (node, devices.len() as u32)));
        for (user, terms) in &state.users {
            if let Some(gpus_max) = terms.gpus_max {
                room.users.insert(user, gpus_max);
            }
        }
        room
    }

    /// Takes room for a job on the devices that it holds.
    fn fits_in_place<'a>(&'a self, room: &mut Room<'a>, job: &'a Job, lease: &'a Lease) -> bool {
        let parts = &lease.placement.parts;
        let Some(kind) = self.state.cluster.kind_of(&lease.placement) else { return false };
        let nodes_fit = parts.iter().all(|part| {
            room.nodes.get(&part.node).is_some_and(|left| *left >= part.slots.len() as u32)
        });
        if !nodes_fit || !room.take(kind, job) {
            return false;
        }
        for part in parts {
            if let Some(left) = room.nodes.get_mut(&part.node) {
                *left -= part.slots.len() as u32;
            }
        }
        true
    }

    /// Takes room for a job that starts.
    fn fits_somewhere<'a>(&'a self, room: &mut Room<'a>, job: &'a Job) -> bool {
        let gpus = job.spec.gpus;
        if let Some(node) = &job.demand.node
            && room.nodes.get(node).is_none_or(|left| *left < gpus)
        {
            return false;
        }
        let last =
            job.last_placement.as_ref().and_then(|placement| self.state.cluster.kind_of(placement));
        let kind = match &job.demand.kind {
            Some(kind) => room.kinds.get_key_value(kind.as_str()).map(|entry| *entry.0),
            None => room
                .kinds
                .iter()
                .filter(|(_, left)| **left >= gpus)
                .max_by_key(|(kind, left)| (Some(**kind) == last, **left))
                .map(|(kind, _)| *kind),
        };
        let Some(kind) = kind.filter(|kind| room.kinds[kind] >= gpus) else { return false };
        if !room.take(kind, job) {
            return false;
        }
        if let Some(left) = job.demand.node.as_ref().and_then(|node| room.nodes.get_mut(node)) {
            *left -= gpus;
        }
        true
    }

    /// Devices for the jobs that start: those bound to a node first, then the largest gangs.
    fn place_all(
        &self,
        keep: &BTreeSet<JobId>,
        mut wanted: Vec<&Job>,
        boundary_s: f64,
    ) -> Vec<(JobId, Placement)> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut free = self.usable(boundary_s);
        for job in keep {
            if let Some(lease) = self.state.leases.get(job) {
                free.take(&lease.placement);
            }
        }
        wanted.sort_by_key(|job| {
            let demand = &job.demand;
            (demand.node.is_none(), !demand.one_node, std::cmp::Reverse(job.spec.gpus), job.seq)
        });
        let mut placed = Vec::with_capacity(wanted.len());
        for job in wanted {
            let wish = job.demand.wish(job.spec.gpus, job.last_placement.as_ref());
            if let Some(placement) = free.place(&wish) {
                free.take(&placement);
                placed.push((job.spec.id, placement));
            }
        }
        placed
    }

    /// Offers what special demands have left over to the others, in order of precedence.
    fn fill_rest(&self, choice: &mut Choice, order: &[JobId], boundary_s: f64) {
        let state = &self.state;
        let mut free = self.usable(boundary_s);
        for job in &choice.keep {
            if let Some(lease) = state.leases.get(job) {
                free.take(&lease.placement);
            }
        }
        for (_, placement) in &choice.start {
            free.take(placement);
        }
        let mut users = UserRoom::new(self, choice);
        let mut chosen: BTreeSet<JobId> = choice.start.iter().map(|(job, _)| *job).collect();
        chosen.extend(&choice.keep);
        for id in order {
            if free.count() == 0 {
                return;
            }
            let Some(job) = state.jobs.get(id).filter(|job| self.may_run(job, boundary_s)) else {
                continue;
            };
            let lease = state.leases.get(id);
            if chosen.contains(id)
                || !users.allows(job)
                || lease.is_some_and(|lease| self.is_out_of_reach(lease))
            {
                continue;
            }
            let kept = |lease: &&Lease| lease.is_live() && free.has(&lease.placement);
            if let Some(lease) = lease.filter(kept) {
                free.take(&lease.placement);
                choice.keep.insert(*id);
                users.take(job);
            } else if let Some(placement) =
                free.place(&job.demand.wish(job.spec.gpus, job.last_placement.as_ref()))
            {
                free.take(&placement);
                choice.start.push((*id, placement));
                users.take(job);
            }
        }
    }
}

impl<'a> Room<'a> {
    /// Takes a gang's devices of a kind, within its user's cap.
    fn take(&mut self, kind: &'a str, job: &Job) -> bool {
        let gpus = job.spec.gpus;
        let cap = self.users.get_mut(job.user.as_str());
        if self.kinds.get(kind).is_none_or(|left| *left < gpus)
            || cap.as_ref().is_some_and(|left| **left < gpus)
        {
            return false;
        }
        if let Some(left) = cap {
            *left -= gpus;
        }
        if let Some(left) = self.kinds.get_mut(kind) {
            *left -= gpus;
        }
        true
    }
}

/// What users with a cap may still take.
pub(super) struct UserRoom<'a> {
    left: BTreeMap<&'a str, u32>,
}

impl<'a> UserRoom<'a> {
    /// After the jobs of a choice.
    fn new(engine: &'a Engine, choice: &Choice) -> Self {
        let chosen = choice.keep.iter().chain(choice.start.iter().map(|(job, _)| job));
        Self::after(engine, chosen.copied())
    }

    /// After these jobs.
    pub(super) fn after(engine: &'a Engine, jobs: impl Iterator<Item = JobId>) -> Self {
        let users = &engine.state.users;
        let caps = users.iter().filter_map(|(user, terms)| Some((user.as_str(), terms.gpus_max?)));
        let mut room = Self { left: caps.collect() };
        if !room.left.is_empty() {
            for job in jobs.filter_map(|id| engine.state.jobs.get(&id)) {
                room.take(job);
            }
        }
        room
    }

    pub(super) fn allows(&self, job: &Job) -> bool {
        self.left.get(job.user.as_str()).is_none_or(|left| *left >= job.spec.gpus)
    }

    pub(super) fn take(&mut self, job: &Job) {
        if let Some(left) = self.left.get_mut(job.user.as_str()) {
            *left = left.saturating_sub(job.spec.gpus);
        }
    }
}
