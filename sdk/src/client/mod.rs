//! Speaks with the coordinator, on a thread of its own.
//!
//! A training step never waits for the network: events go to a spool on disk and are handed over in
//! the background; directives are read from memory. Losing the coordinator ends nothing by itself:
//! see [`lease`].

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shockwave_proto::v1;
use tokio::sync::watch;
use tonic::metadata::MetadataValue;

mod declaration;
mod environment;
mod event;
mod follow;
pub mod lease;
pub(crate) mod link;
mod renew;
mod report;
pub mod spool;
mod wire;

pub use declaration::{Declaration, DeclaredPolicy};
pub(crate) use environment::start_ticks;
pub use environment::{ClientConfig, ClientError, Secret};
pub use event::{Event, Numbered, YieldCause};
pub use lease::{Directive, LeaseStatus};

use lease::Lease;
use link::{Link, Shared, lock};
use spool::Spool;

/// Where training is; shown to users and used by forecasts, never for correctness.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Position {
    /// Epoch going on, from 0.
    pub epoch: u64,
    /// Steps done so far.
    pub step: u64,
    /// Samples of this epoch done so far.
    pub sample: u64,
    /// Batch size over all workers, in samples.
    pub batch: u64,
    /// Recent speed over all workers, in samples per second; 0: not measured yet.
    pub samples_per_s: f64,
}

impl From<Position> for v1::Position {
    fn from(position: Position) -> Self {
        let Position { epoch, step, sample, batch, samples_per_s } = position;
        let samples_per_s = if samples_per_s.is_finite() { samples_per_s.max(0.0) } else { 0.0 };
        let (epoch, batch) = (declaration::clip(epoch), declaration::clip(batch));
        Self { epoch, step, sample, batch, samples_per_s }
    }
}

/// A job's voice and ear at the coordinator.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// The client that the environment asks for; none when there is no coordinator, and in all but
    /// the first worker of a gang.
    ///
    /// # Errors
    /// The environment makes no sense, the spool cannot be opened, or the thread not be started.
    /// A coordinator that cannot be reached is no error.
    pub fn from_env() -> Result<Option<Self>, ClientError> {
        ClientConfig::from_env()?.map(Self::start).transpose()
    }

    /// Starts the client's thread.
    ///
    /// # Errors
    /// See [`Self::from_env`].
    pub fn start(config: ClientConfig) -> Result<Self, ClientError> {
        let failed = |source| ClientError::Spool { path: config.spool_dir.clone(), source };
        let spool = Spool::open(&config.spool_dir, config.lease_epoch).map_err(failed)?;
        let endpoint = link::endpoint(&config)?;
        let bearer = MetadataValue::try_from(format!("Bearer {}", config.token.0));
        let bearer = bearer.map_err(|_| ClientError::Invalid {
            variable: shockwave_proto::env::JOB_TOKEN,
            value: "(secret)".to_owned(),
            expected: "visible ASCII",
        })?;
        let lease = Lease::new(config.lease_epoch, config.ttl, config.grace, config.started_at);
        let shared = Arc::new(Shared {
            lease: Mutex::new(lease),
            spool: Mutex::new(spool),
            declaration: Mutex::new(None),
            position: Mutex::new(Position::default()),
            refusal: Mutex::new(None),
            said: watch::Sender::new(0),
            closing: watch::Sender::new(false),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ClientError::Thread)?;
        let lease_ref = v1::LeaseRef { job_id: config.job_id, lease_epoch: config.lease_epoch };
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("shockwave-client".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    link::run(Link::new(&endpoint, bearer, lease_ref, theirs)).await;
                });
            })
            .map_err(ClientError::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Says what the job is going to do. Events are handed over only after it.
    pub fn declare(&self, declaration: Declaration) {
        *lock(&self.shared.declaration) = Some(declaration);
        self.wake();
    }

    /// Takes an event; it is on disk when this returns, and with the coordinator some time later.
    ///
    /// A disk that refuses is logged and costs the event its durability, not the job its life.
    pub fn report(&self, event: Event) {
        if let Err(error) = lock(&self.shared.spool).append(event) {
            tracing::error!(%error, "the event spool cannot be written");
        }
        self.wake();
    }

    /// Says where training is; sent with the next renewal of the lease.
    pub fn set_position(&self, position: Position) {
        *lock(&self.shared.position) = position;
    }

    /// What the training loop is to do now. Costs no more than a lock.
    #[must_use]
    pub fn directive(&self) -> Directive {
        lock(&self.shared.lease).directive(Instant::now())
    }

    /// The lease, for display.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseStatus> {
        Some(lock(&self.shared.lease).status(Instant::now()))
    }

    /// Why the coordinator cannot be spoken with (its protocol is another), if it has said so:
    /// nothing of this job would ever count.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        lock(&self.shared.refusal).clone()
    }

    /// Number of events that the coordinator has not acknowledged yet.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        lock(&self.shared.spool).len()
    }

    /// Ends the client when every event is acknowledged, or after `timeout`. What is not
    /// acknowledged stays on disk for the job's next process. Whether everything was.
    pub fn close(mut self, timeout: Duration) -> bool {
        let give_up_at = Instant::now() + timeout;
        // Polled, because the spool's lock is shared with a thread that must never wait for this one.
        while self.unacknowledged() > 0 && Instant::now() < give_up_at {
            if matches!(self.directive(), Directive::Revoked { .. }) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let all = self.unacknowledged() == 0;
        self.end();
        all
    }

    fn wake(&self) {
        self.shared.said.send_modify(|count| *count += 1);
    }

    fn end(&mut self) {
        self.shared.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic in the client's thread has been printed there; training is not its victim.
            let _ = thread.join();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
