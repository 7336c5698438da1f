//! Snapshots from time to time, so that a start does not replay the whole log.

use std::time::Duration;

use tokio::sync::watch;
use tonic::Status;

use crate::service::owner::{Handle, Owner};

/// Records after which a snapshot is worth its while.
const EVERY_RECORDS: u64 = 20_000;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(30);

/// Takes snapshots until `stop` is set.
pub(super) fn start(handle: Handle, mut stop: watch::Receiver<bool>) {
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = stop.changed() => return,
            }
            let due = handle.ask(|owner| Ok(owner.records_since_snapshot() >= EVERY_RECORDS)).await;
            match due {
                Ok(true) => take(&handle).await,
                Ok(false) => {}
                Err(_) => return,
            }
        }
    });
}

/// Takes one now.
pub(super) async fn take(handle: &Handle) {
    let ask = |owner: &mut Owner| owner.take_snapshot().map_err(Status::internal);
    if let Err(status) = handle.ask(ask).await {
        tracing::warn!(error = status.message(), "no snapshot could be taken");
    }
}
