//! Declares the job and hands its events over, in order, until they are acknowledged.

use std::time::{Duration, Instant};

use shockwave_proto::{PROTOCOL_VERSION, v1};
use tonic::{Code, Status};

use super::lease::Answer;
use super::link::{Backoff, Link, lock};

/// Runs until the training thread closes the client and everything is acknowledged.
pub(super) async fn run(link: &Link) {
    let mut said = link.shared.said.subscribe();
    let mut backoff = Backoff::new();
    let mut progress = Progress { declared: false, events_max: usize::MAX };
    loop {
        said.borrow_and_update();
        match progress.advance(link).await {
            Ok(true) => backoff.reset(),
            Ok(false) => {
                if said.changed().await.is_err() {
                    return;
                }
            }
            Err(status) => {
                link.hear_failure("Report", &status);
                backoff.wait().await;
            }
        }
    }
}

/// How far the conversation has come.
struct Progress {
    declared: bool,
    /// Events in the next call: all that fit, or one where one of them is refused.
    events_max: usize,
}

impl Progress {
    /// Makes one call, if there is anything to say. Whether there was.
    async fn advance(&mut self, link: &Link) -> Result<bool, Status> {
        if !self.declared {
            let declaration = lock(&link.shared.declaration).as_ref().map(v1::Declaration::from);
            let Some(declaration) = declaration else { return Ok(false) };
            declare(link, declaration).await?;
            self.declared = true;
        }
        let events = lock(&link.shared.spool).batch(self.events_max);
        if events.is_empty() {
            return Ok(false);
        }
        let sent = events.len();
        let events = events.iter().map(v1::Event::from).collect();
        let message = v1::ReportRequest { lease: Some(link.lease_ref), events };
        let request = link.request(message, Some(link.call_timeout()));
        match link.client().report(request).await {
            Ok(reply) => {
                self.events_max = usize::MAX;
                let acknowledged = reply.into_inner().acknowledged;
                on_disk("acknowledge", lock(&link.shared.spool).acknowledge(acknowledged));
                Ok(true)
            }
            Err(status) if status.code() == Code::InvalidArgument => {
                self.refused(link, sent, &status);
                Ok(true)
            }
            Err(status) => Err(status),
        }
    }

    /// One event that the coordinator will never take must not hold back all that follow: it is
    /// found by sending one at a time, and given up.
    fn refused(&mut self, link: &Link, sent: usize, status: &Status) {
        if sent > 1 {
            self.events_max = 1;
            return;
        }
        tracing::error!(
            error = status.message(),
            "the coordinator refuses an event; it is dropped"
        );
        on_disk("discard", lock(&link.shared.spool).discard_oldest());
        self.events_max = usize::MAX;
    }
}

async fn declare(link: &Link, declaration: v1::Declaration) -> Result<(), Status> {
    let message = v1::DeclareRequest {
        lease: Some(link.lease_ref),
        protocol_version: PROTOCOL_VERSION,
        declaration: Some(declaration),
        sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let sent_at = Instant::now();
    let request = link.request(message, Some(link.call_timeout()));
    let reply = link.client().declare(request).await;
    let refused = reply.as_ref().err().filter(|status| status.code() == Code::Unimplemented);
    *lock(&link.shared.refusal) = refused.map(|status| status.message().to_owned());
    let reply = reply?.into_inner();
    on_disk("synchronise", lock(&link.shared.spool).synchronise(reply.acknowledged));
    if reply.ttl_ms > 0 {
        let ttl = Duration::from_millis(reply.ttl_ms);
        lock(&link.shared.lease).hear(Answer::Extended { ttl }, sent_at);
    }
    Ok(())
}

/// A disk that fails costs durability of events, not the training: said, not fatal.
fn on_disk(what: &'static str, result: std::io::Result<()>) {
    if let Err(error) = result {
        tracing::error!(what, %error, "the event spool cannot be written");
    }
}
