//! The client's thread: three loops that speak with the coordinator.
//!
//! Each loop retries for ever with a back-off that is bounded, because the end of the lease, not
//! the number of attempts, ends the waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shockwave_proto::v1::worker_client::WorkerClient;
use shockwave_proto::{AUTHORIZATION, MESSAGE_BYTES_MAX, v1};
use tokio::sync::watch;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use super::declaration::Declaration;
use super::environment::{ClientConfig, ClientError};
use super::lease::{Answer, Lease};
use super::spool::Spool;
use super::wire;
use super::{Position, follow, renew, report};

/// First and longest wait between two attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Longest time that a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What the training thread and the client's thread share. No lock is held across a call.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) lease: Mutex<Lease>,
    pub(super) spool: Mutex<Spool>,
    pub(super) declaration: Mutex<Option<Declaration>>,
    pub(super) position: Mutex<Position>,
    /// Why the coordinator cannot be spoken with, if it has said so.
    pub(super) refusal: Mutex<Option<String>>,
    /// Counts what the training thread has said: the report loop wakes when it rises.
    pub(super) said: watch::Sender<u64>,
    /// Set once the training thread wants the client to end.
    pub(super) closing: watch::Sender<bool>,
}

/// Locks, also after a panic of the other thread: every value behind these locks is whole between
/// two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection, with what each call needs.
#[derive(Clone)]
pub(super) struct Link {
    client: WorkerClient<Channel>,
    bearer: MetadataValue<Ascii>,
    pub(super) lease_ref: v1::LeaseRef,
    pub(super) shared: Arc<Shared>,
}

impl Link {
    /// Prepares the connection; nothing is sent yet. Must be called within a tokio runtime.
    pub(super) fn new(
        endpoint: &Endpoint,
        bearer: MetadataValue<Ascii>,
        lease_ref: v1::LeaseRef,
        shared: Arc<Shared>,
    ) -> Self {
        let client = WorkerClient::new(endpoint.connect_lazy())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Self { client, bearer, lease_ref, shared }
    }

    pub(super) fn client(&self) -> WorkerClient<Channel> {
        self.client.clone()
    }

    /// A request with the job's token. `timeout` is also told to the server.
    pub(super) fn request<T>(&self, message: T, timeout: Option<Duration>) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert(AUTHORIZATION, self.bearer.clone());
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        request
    }

    /// Longest time for one call: a renewal that hangs must leave time for the next.
    pub(super) fn call_timeout(&self) -> Duration {
        lock(&self.shared.lease).renewal_interval().min(CALL_TIMEOUT)
    }

    pub(super) fn hear(&self, directive: v1::Directive, sent_at: Instant) {
        match wire::answer(directive) {
            Some(answer) => lock(&self.shared.lease).hear(answer, sent_at),
            None => tracing::warn!("the coordinator sent a directive that this SDK does not know"),
        }
    }

    /// Takes note of a failed call. Only one failure says something about the lease: that a newer
    /// one exists.
    pub(super) fn hear_failure(&self, call: &'static str, status: &Status) {
        if status.code() == Code::FailedPrecondition {
            let reason = status.message().to_owned();
            lock(&self.shared.lease).hear(Answer::Revoked { reason }, Instant::now());
        } else if matches!(
            status.code(),
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled
        ) {
            tracing::debug!(call, error = status.message(), "the coordinator is not heard");
        } else {
            tracing::warn!(call, code = %status.code(), error = status.message(), "refused");
        }
    }
}

/// Waits between attempts: doubling, with a random part so that a coordinator that comes back does
/// not meet all jobs at once.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(BACKOFF.0)
    }

    pub(crate) fn reset(&mut self) {
        self.0 = BACKOFF.0;
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0.mul_f64(rand::random_range(0.5..1.0))).await;
        self.0 = (self.0 * 2).min(BACKOFF.1);
    }
}

/// The address and its TLS settings; nothing is connected yet.
pub(super) fn endpoint(config: &ClientConfig) -> Result<Endpoint, ClientError> {
    endpoint_at(&config.coordinator, config.ca_file.as_deref())
}

/// An address and its authority, if it needs one; nothing is connected yet.
pub(crate) fn endpoint_at(
    coordinator: &str,
    ca_file: Option<&std::path::Path>,
) -> Result<Endpoint, ClientError> {
    let invalid = || ClientError::Invalid {
        variable: shockwave_proto::env::COORDINATOR,
        value: coordinator.to_owned(),
        expected: "http://HOST:PORT or https://HOST:PORT",
    };
    let endpoint = Endpoint::from_shared(coordinator.to_owned())
        .map_err(|_| invalid())?
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        // A machine that vanished without a word is noticed within a renewal.
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10));
    let Some(path) = ca_file else { return Ok(endpoint) };
    let failed = |reason: String| ClientError::Certificate { path: path.to_owned(), reason };
    let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
    endpoint.tls_config(tls).map_err(|error| failed(error.to_string()))
}

/// Runs until the training thread closes the client.
pub(super) async fn run(link: Link) {
    let mut closing = link.shared.closing.subscribe();
    let closed = async move {
        // An error means that the client is gone, which is the end too.
        let _ = closing.wait_for(|closing| *closing).await;
    };
    tokio::select! {
        () = closed => {}
        () = renew::run(&link) => {}
        () = follow::run(&link) => {}
        () = report::run(&link) => {}
    }
}
