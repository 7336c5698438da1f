//! `Client.WatchJob`: a job's state now and at each change, until it has ended.

use std::sync::Arc;
use std::time::Duration;

use shockwave_proto::v1::JobInfo;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::service::{Shared, view};

/// Changes that come closer together are one.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn watch(
    shared: &Arc<Shared>,
    id: u64,
) -> Result<impl Stream<Item = Result<JobInfo, Status>> + use<>, Status> {
    let mut bell = shared
        .handle
        .ask(move |owner| {
            super::job(owner, id)?;
            Ok(owner.job_bell(id))
        })
        .await?;
    let (sender, receiver) = mpsc::channel(4);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        loop {
            let now =
                shared.handle.ask(move |owner| Ok(view::job(owner, super::job(owner, id)?))).await;
            // Ended means that its processes are gone too: then nothing more can change.
            let over = now
                .as_ref()
                .map_or(true, |job| job.ended_unix_s.is_some() && job.devices.is_empty());
            if sender.send(now).await.is_err() || over {
                return;
            }
            tokio::select! {
                changed = bell.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Ok(ReceiverStream::new(receiver))
}
