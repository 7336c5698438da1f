//! Renews the lease within every third of its duration, and more often at first.

use std::ops::Range;
use std::time::{Duration, Instant};

use shockwave_proto::v1;

use super::lease::Directive;
use super::link::{Backoff, Link, lock};

/// Pause after the first renewal; it doubles up to a third of the lease. How fast the job trains
/// reaches the forecasts with them, long before its first epoch ends.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The part of a pause that is waited: a round starts many jobs at once, and they would renew at once
/// from then on.
const SHARE: Range<f64> = 0.75..1.0;

/// Runs until the lease is revoked; a job without a lease has nothing to renew and then waits for
/// its end.
pub(super) async fn run(link: &Link) {
    let mut backoff = Backoff::new();
    let mut early = FIRST_PAUSE;
    loop {
        // Let go of at once: a lock is not held while waiting.
        let directive = lock(&link.shared.lease).directive(Instant::now());
        if let Directive::Revoked { .. } = directive {
            return std::future::pending().await;
        }
        let sent_at = Instant::now();
        match renew(link).await {
            Ok(directive) => {
                link.hear(directive, sent_at);
                backoff.reset();
                let interval = lock(&link.shared.lease).renewal_interval();
                tokio::time::sleep(interval.min(early).mul_f64(rand::random_range(SHARE))).await;
                early = interval.min(2 * early);
            }
            Err(status) => {
                link.hear_failure("Renew", &status);
                backoff.wait().await;
            }
        }
    }
}

async fn renew(link: &Link) -> Result<v1::Directive, tonic::Status> {
    let position = (*lock(&link.shared.position)).into();
    let message = v1::RenewRequest { lease: Some(link.lease_ref), position: Some(position) };
    let request = link.request(message, Some(link.call_timeout()));
    Ok(link.client().renew(request).await?.into_inner())
}
