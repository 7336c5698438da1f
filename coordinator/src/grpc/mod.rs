//! The coordinator on the network: one file per call, every limit set.

pub mod admin;
pub mod agent;
pub mod auth;
pub mod client;
pub mod worker;

use std::sync::Arc;
use std::time::Duration;

use shockwave_proto::MESSAGE_BYTES_MAX;
use shockwave_proto::v1::admin_server::AdminServer;
use shockwave_proto::v1::agent_server::AgentServer;
use shockwave_proto::v1::client_server::ClientServer;
use shockwave_proto::v1::worker_server::WorkerServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::{Server, ServerTlsConfig};

use crate::incoming::{Allowed, Door, Patience};
use crate::service::Shared;

/// What the servers allow. tonic's own defaults have no limit at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Connections at once; further ones are closed.
    pub connections_max: usize,
    /// Connections at once from one address; further ones are closed.
    pub connections_per_address_max: usize,
    /// Time from a connection to the first bytes of its protocol.
    pub opening_timeout: Duration,
    /// Age at which a connection is asked to end; calls that run are finished first, and a client
    /// connects anew by itself.
    pub connection_age_max: Duration,
    /// Calls at once on one connection; further ones wait.
    pub calls_per_connection: usize,
    /// Streams at once on one connection.
    pub streams_per_connection: u32,
    /// Time until a call must have been answered (streams: begun).
    pub call_timeout: Duration,
    /// Idle connections are asked for a sign of life this often.
    pub keepalive: Duration,
    /// And must give it within this time.
    pub keepalive_timeout: Duration,
    /// Size of a call's headers, bytes.
    pub header_bytes_max: u32,
    /// A reply of the service `Client`, bytes: lists are longer than what anybody may send.
    pub reply_bytes_max: usize,
    /// Connections at once to the web page and the metrics; further ones are closed.
    pub web_connections_max: usize,
    /// Time without an answer after which such a connection is closed.
    pub web_patience: Duration,
    /// Live pages at once.
    pub live_pages_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            connections_per_address_max: 5_000,
            opening_timeout: Duration::from_secs(10),
            connection_age_max: Duration::from_secs(6 * 3600),
            calls_per_connection: 256,
            streams_per_connection: 256,
            call_timeout: Duration::from_secs(30),
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            header_bytes_max: 16 << 10,
            reply_bytes_max: 16 << 20,
            web_connections_max: 256,
            web_patience: Duration::from_secs(30),
            live_pages_max: 64,
        }
    }
}

/// Serves until `stop` is set.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    limits: &Limits,
    tls: Option<ServerTlsConfig>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), tonic::transport::Error> {
    let worker = WorkerServer::new(worker::WorkerService::new(Arc::clone(&shared)))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let client = ClientServer::new(client::ClientService::new(Arc::clone(&shared)))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits.reply_bytes_max);
    let admin = AdminServer::new(admin::AdminService::new(Arc::clone(&shared)))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits.reply_bytes_max);
    let agent = AgentServer::new(agent::AgentService::new(shared))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits.reply_bytes_max);
    let allowed = Allowed {
        connections_max: limits.connections_max,
        per_address_max: limits.connections_per_address_max,
        patience: Patience::Opening(limits.opening_timeout),
    };
    let server = match tls {
        Some(tls) => Server::builder().tls_config(tls.timeout(limits.opening_timeout))?,
        None => Server::builder(),
    };
    server
        .concurrency_limit_per_connection(limits.calls_per_connection)
        .max_concurrent_streams(limits.streams_per_connection)
        .timeout(limits.call_timeout)
        .max_connection_age(limits.connection_age_max)
        .http2_keepalive_interval(Some(limits.keepalive))
        .http2_keepalive_timeout(Some(limits.keepalive_timeout))
        .http2_max_header_list_size(limits.header_bytes_max)
        .http2_max_pending_accept_reset_streams(Some(64))
        .http2_max_local_error_reset_streams(Some(256))
        .add_service(worker)
        .add_service(client)
        .add_service(admin)
        .add_service(agent)
        .serve_with_incoming_shutdown(Door::new(listener, allowed).stream(), async move {
            let _ = stop.wait_for(|stop| *stop).await;
        })
        .await
}
