//! The way to a coordinator on another machine, or in another process.

use std::time::Duration;

use shockwave_proto::v1::agent_client::AgentClient;
use shockwave_proto::v1::{JoinReply, JoinRequest, SyncReply, SyncRequest};
use shockwave_proto::{AUTHORIZATION, MESSAGE_BYTES_MAX};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::link::Link;
use crate::tls;

/// Longest time until an answer that is not held open.
const ANSWER: Duration = Duration::from_secs(10);
/// The coordinator's reply names every lease of the machine: larger than what anybody may send.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// An agent's connection to its coordinator. It is made when it is needed, and again after it broke.
#[derive(Debug)]
pub struct Remote {
    client: AgentClient<Channel>,
    bearer: MetadataValue<Ascii>,
    address: String,
}

impl Remote {
    /// A connection over `channel` to `address`, authorised by `bearer` (`Bearer TOKEN`).
    #[must_use]
    pub fn new(channel: Channel, bearer: MetadataValue<Ascii>, address: String) -> Self {
        let client = AgentClient::new(channel)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
            .max_decoding_message_size(REPLY_BYTES_MAX);
        Self { client, bearer, address }
    }

    /// A failed exchange in words for whoever runs the agent.
    fn explain(&self, status: Status) -> Status {
        match tls::mismatch(&self.address, &status) {
            Some(sentence) => Status::new(status.code(), sentence),
            None => status,
        }
    }

    fn request<T>(&self, message: T, wait: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert(AUTHORIZATION, self.bearer.clone());
        request.set_timeout(wait + ANSWER);
        request
    }
}

impl Link for Remote {
    async fn join(&self, request: JoinRequest) -> Result<JoinReply, Status> {
        let request = self.request(request, Duration::ZERO);
        let joined = self.client.clone().join(request).await;
        Ok(joined.map_err(|status| self.explain(status))?.into_inner())
    }

    async fn sync(&self, request: SyncRequest) -> Result<SyncReply, Status> {
        let wait = Duration::from_millis(request.wait_ms);
        let request = self.request(request, wait);
        let synced = self.client.clone().sync(request).await;
        Ok(synced.map_err(|status| self.explain(status))?.into_inner())
    }
}
