//! What goes over the simulated network.

use shockwave_proto::v1::{
    DeclareReply, Directive, Event, JoinRequest, LeaseRef, Position, SyncReply, SyncRequest,
};
use tonic::Code;

/// To the coordinator.
#[derive(Clone, Debug)]
pub(super) enum Up {
    /// The agent enters its machine; the exchange's number.
    Join(JoinRequest, u64),
    /// The agent observes.
    Sync(SyncRequest, u64),
    /// A process declares itself.
    Declare(LeaseRef),
    /// A process reports.
    Report(LeaseRef, Vec<Event>),
    /// A process renews.
    Renew(LeaseRef, Position),
}

/// To a machine. An answer that is an error carries its code.
#[derive(Clone, Debug)]
pub(super) enum Down {
    /// The agent is let in: the exchange's number, and the join's.
    Joined(u64, u64),
    /// What the machine is to run.
    Synced(u64, SyncReply),
    /// The agent is refused.
    Unsynced(u64, Code),
    /// The declaration is taken.
    Declared(LeaseRef, Result<DeclareReply, Code>),
    /// Events are durable up to this one.
    Reported(LeaseRef, Result<u64, Code>),
    /// The renewal is answered.
    Renewed(LeaseRef, Result<Directive, Code>),
}

/// A message under way.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    /// From a machine, which sent it at this moment.
    Up(Up, f64),
    /// To a machine: the answer to what was sent at this moment.
    Down(Down, f64),
}
