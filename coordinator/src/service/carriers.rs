//! Machines that exist as a number only, and the agents that carry single leases on them.
//!
//! Where a batch system is asked anew for every lease, there is no machine before there is a lease.
//! The engine plans on *places*: machines that are entered without an agent, as many as the pool may
//! have. A lease's part on a place is carried by an agent of its own, on whatever machine the batch
//! system chose; what such an agent says of its lease counts as said by the place.

use shockwave_proto::v1::{
    Assignment, Device, JoinReply, JoinRequest, SyncReply, SyncRequest, WorkerStatus,
};
use tonic::Status;

use super::LOST_AFTER;
use super::book::Lease;
use super::owner::Owner;
use super::record::Record;
use crate::launcher::Carries;
use shockwave_core::engine::ReleaseReason;

/// What stands in the place of the start of an agent, for a place has none.
pub const PLACE: &str = "place";

/// An agent that carries one lease.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// What it carries.
    pub carries: Carries,
    /// Which start of the agent is in.
    pub instance: String,
    /// Host for rendezvous.
    pub address: String,
    /// Its devices.
    pub devices: Vec<Device>,
    /// When it was last heard, coordinator's clock, seconds.
    pub heard_s: f64,
    /// When its machine is taken away, coordinator's clock, seconds.
    pub until_s: Option<f64>,
    /// Whether it is to give its machine back.
    pub is_dismissed: bool,
}

impl Owner {
    /// Whether a machine exists as a number only.
    #[must_use]
    pub fn is_place(&self, node: &str) -> bool {
        self.state.book.nodes.get(node).is_some_and(|node| node.instance == PLACE)
    }

    /// The agent that carries a lease's part on a place.
    #[must_use]
    pub fn carrier(&self, lease: &Lease, place: &str) -> Option<&Carrier> {
        let key = (lease.job, lease.epoch);
        self.carriers
            .values()
            .find(|it| it.carries.place == place && (it.carries.job, it.carries.lease_epoch) == key)
    }

    /// Whether the agent that has a lease's part on a machine is heard.
    #[must_use]
    pub fn hears(&self, lease: &Lease, node: &str) -> bool {
        let heard_s = match self.is_place(node) {
            true => self.carrier(lease, node).map(|carrier| carrier.heard_s),
            false => self.heard.get(node).copied(),
        };
        heard_s.is_some_and(|heard_s| self.now_s() - heard_s < LOST_AFTER.as_secs_f64())
    }

    /// Whether a place still has the part of a lease.
    #[must_use]
    pub fn holds(&self, it: &Carries) -> bool {
        let lease = self.state.book.leases.get(&(it.job, it.lease_epoch));
        lease.is_some_and(|lease| lease.holders().any(|holder| holder == it.place))
    }

    /// A place has let go of a lease, and nobody is to blame.
    ///
    /// # Errors
    /// As [`Owner::append`].
    pub fn let_go(&mut self, it: &Carries) -> Result<(), Status> {
        if self.holds(it) {
            self.append(&Record::Released {
                job: it.job,
                lease_epoch: it.lease_epoch,
                node: it.place.clone(),
                reason: ReleaseReason::NodeLeaving,
            })?;
        }
        Ok(())
    }
}

/// Enters an agent that carries one lease.
///
/// # Errors
/// `FAILED_PRECONDITION` when it has too few devices; as [`Owner::append`].
pub fn join(
    owner: &mut Owner,
    carries: Carries,
    request: JoinRequest,
) -> Result<JoinReply, Status> {
    if request.devices.len() < carries.devices as usize {
        return Err(Status::failed_precondition(format!(
            "{} has {} devices for a lease of {}: does the batch system give the devices that are \
             asked for?",
            request.node,
            request.devices.len(),
            carries.devices
        )));
    }
    take_statuses(owner, &carries, &request.workers, false)?;
    let now_s = owner.now_s();
    let until_s = request.walltime_left_s.filter(|left_s| left_s.is_finite());
    let place = carries.place.clone();
    let carrier = Carrier {
        carries,
        instance: request.instance,
        address: request.address,
        devices: request.devices,
        heard_s: now_s,
        until_s: until_s.map(|left_s| now_s + left_s),
        is_dismissed: false,
    };
    owner.carriers.insert(request.node, carrier);
    // Others of its gang may wait for its address.
    owner.tell_node(&place);
    Ok(JoinReply {
        coordinator_epoch: owner.store.epoch,
        lost_after_ms: LOST_AFTER.as_millis() as u64,
        // What it does not name is not taken for gone.
        join_number: 0,
    })
}

/// Takes what such an agent observes.
///
/// # Errors
/// `NOT_FOUND` for one that has to join first; as [`Owner::append`].
pub fn take_sync(
    owner: &mut Owner,
    carries: &Carries,
    request: &SyncRequest,
) -> Result<(), Status> {
    let now_s = owner.now_s();
    let known = owner.carriers.get_mut(&request.node);
    let Some(carrier) = known.filter(|known| known.instance == request.instance) else {
        return Err(Status::not_found("join first"));
    };
    carrier.heard_s = now_s;
    take_statuses(owner, carries, &request.workers, request.leaving)?;
    if request.left {
        owner.let_go(carries)?;
        owner.carriers.remove(&request.node);
    }
    Ok(())
}

fn take_statuses(
    owner: &mut Owner,
    carries: &Carries,
    workers: &[WorkerStatus],
    leaving: bool,
) -> Result<(), Status> {
    let is_its = |status: &&WorkerStatus| {
        status
            .lease
            .is_some_and(|it| (it.job_id, it.lease_epoch) == (carries.job, carries.lease_epoch))
    };
    let own: Vec<WorkerStatus> = workers.iter().filter(is_its).cloned().collect();
    crate::grpc::agent::take_statuses(owner, &carries.place, &own, leaving)
}

/// What such an agent is to run now: its lease on the devices that it has, or nothing any more.
#[must_use]
pub fn sync_reply(owner: &mut Owner, node: &str, carries: &Carries, address: &str) -> SyncReply {
    let changes = owner.generations.get(&carries.place).copied().unwrap_or(0) + 1;
    let generation = (owner.store.epoch << 40) + changes;
    let now_s = owner.now_s();
    let devices: Vec<u32> = match owner.carriers.get_mut(node) {
        Some(carrier) => {
            carrier.heard_s = now_s;
            carrier.devices.iter().map(|device| device.index).collect()
        }
        None => Vec::new(),
    };
    let is_its = |it: &Assignment| {
        it.lease.is_some_and(|lease| {
            (lease.job_id, lease.lease_epoch) == (carries.job, carries.lease_epoch)
        })
    };
    let mut assignments = owner.assignments(&carries.place, address);
    assignments.retain(is_its);
    for assignment in &mut assignments {
        // The place counts devices; which ones they are is known only here.
        let count = assignment.devices.len();
        assignment.devices = devices.iter().copied().take(count).collect();
    }
    let is_dismissed = owner.carriers.get(node).is_some_and(|carrier| carrier.is_dismissed);
    SyncReply { generation, leave: is_dismissed || assignments.is_empty(), assignments }
}
