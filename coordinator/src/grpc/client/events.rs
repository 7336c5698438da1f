//! `Client.Events`: the durable event log, oldest first.

use std::sync::Arc;

use shockwave_proto::v1::{EventRecord, EventsRequest};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::grpc::auth::Caller;
use crate::service::Shared;
use crate::store::{LogReader, StoredRecord};

/// Records read at a time.
const PAGE: usize = 256;

pub(super) async fn events(
    shared: &Arc<Shared>,
    caller: Caller,
    request: EventsRequest,
) -> Result<impl Stream<Item = Result<EventRecord, Status>> + use<>, Status> {
    let job = request.job_id;
    let mut bell = shared
        .handle
        .ask(move |owner| {
            if job == 0 && !caller.is_admin {
                let sentence = "the whole log is for administrators; ask for one of your jobs";
                return Err(Status::permission_denied(sentence));
            }
            if job != 0 {
                super::own_job(owner, &caller, job)?;
            }
            Ok(owner.log_bell())
        })
        .await?;
    let (sender, receiver) = mpsc::channel(PAGE);
    let path = shared.database.clone();
    tokio::spawn(async move {
        let mut next = request.from.max(1);
        loop {
            bell.borrow_and_update();
            let path = path.clone();
            let page =
                tokio::task::spawn_blocking(move || LogReader::open(&path)?.read(next, job, PAGE));
            let page = match page.await {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => {
                    let _ = sender.send(Err(Status::internal(error.to_string()))).await;
                    return;
                }
                Err(_) => return,
            };
            let is_full = page.len() == PAGE;
            for record in page {
                next = record.number + 1;
                if sender.send(Ok(event(record))).await.is_err() {
                    return;
                }
            }
            if is_full {
                continue;
            }
            if !request.follow {
                return;
            }
            tokio::select! {
                changed = bell.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
        }
    });
    Ok(ReceiverStream::new(receiver))
}

fn event(record: StoredRecord) -> EventRecord {
    EventRecord { number: record.number, at_unix_s: record.unix_s, json: record.body }
}
