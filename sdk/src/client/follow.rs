//! Hears directives as soon as they arise.

use std::time::Instant;

use shockwave_proto::v1;

use super::link::{Backoff, Link};

/// Runs for ever. The end of a stream means nothing: it is opened again.
pub(super) async fn run(link: &Link) {
    let mut backoff = Backoff::new();
    loop {
        match follow(link, &mut backoff).await {
            Ok(()) => {}
            // A stale lease is heard by the renewal too; here a failure is only the stream's.
            Err(status) => link.hear_failure("Follow", &status),
        }
        backoff.wait().await;
    }
}

async fn follow(link: &Link, backoff: &mut Backoff) -> Result<(), tonic::Status> {
    let message = v1::FollowRequest { lease: Some(link.lease_ref) };
    let mut stream = link.client().follow(link.request(message, None)).await?.into_inner();
    while let Some(directive) = stream.message().await? {
        backoff.reset();
        link.hear(directive, Instant::now());
    }
    Ok(())
}
