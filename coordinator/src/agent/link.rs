//! How an agent reaches its coordinator: in the same process or over the network, by the same
//! messages.

use std::future::Future;

use shockwave_proto::v1::{JoinReply, JoinRequest, SyncReply, SyncRequest};
use tonic::Status;

/// The agent's side of the service `Agent`.
pub trait Link: Send + Sync + 'static {
    /// Enters the machine.
    ///
    /// # Errors
    /// The coordinator's refusal, or that it cannot be reached.
    fn join(&self, request: JoinRequest) -> impl Future<Output = Result<JoinReply, Status>> + Send;

    /// Exchanges observed for wanted state. The future may be dropped at any time.
    ///
    /// # Errors
    /// As [`Link::join`]; `NOT_FOUND` asks for a new join.
    fn sync(&self, request: SyncRequest) -> impl Future<Output = Result<SyncReply, Status>> + Send;
}
