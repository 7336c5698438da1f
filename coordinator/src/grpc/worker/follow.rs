//! `Worker.Follow`: directives as soon as they arise.

use std::sync::Arc;
use std::time::Duration;

use shockwave_proto::v1::directive::Kind;
use shockwave_proto::v1::{Directive, LeaseRef, Revoked, YieldBy};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::service::Shared;
use crate::service::actions::to_ms;
use crate::service::owner::Owner;

pub(super) async fn follow(
    shared: &Arc<Shared>,
    lease: LeaseRef,
) -> Result<impl Stream<Item = Result<Directive, Status>> + use<>, Status> {
    let ask = move |owner: &mut Owner| {
        super::fenced(owner, lease)?;
        *owner.followers.entry(lease.job_id).or_insert(0) += 1;
        Ok(owner.job_bell(lease.job_id))
    };
    let mut bell = shared.handle.ask(ask).await?;
    let (sender, receiver) = mpsc::channel(4);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut last: Option<Directive> = None;
        while let Ok(now) = shared.handle.ask(move |owner| Ok(directive(owner, lease))).await {
            let is_news = now.as_ref().map(same_news) != last.as_ref().map(same_news);
            if let (Some(now), true) = (&now, is_news)
                && sender.send(Ok(now.clone())).await.is_err()
            {
                break;
            }
            let over = matches!(now, Some(Directive { kind: Some(Kind::Revoked(_)) }));
            last = now;
            if over {
                break;
            }
            tokio::select! {
                changed = bell.changed() => if changed.is_err() { break },
                () = sender.closed() => break,
            }
            // Several changes in a row are one look.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let gone = shared.handle.ask(move |owner| {
            owner.unfollow(lease.job_id);
            Ok(())
        });
        let _ = gone.await;
    });
    Ok(ReceiverStream::new(receiver))
}

/// What is the same in two directives that say the same at different times.
fn same_news(directive: &Directive) -> (u8, String) {
    match &directive.kind {
        Some(Kind::YieldBy(it)) => (1, it.reason.clone()),
        Some(Kind::Revoked(_)) => (2, String::new()),
        Some(Kind::Extended(_)) | None => (0, String::new()),
    }
}

/// What the holder of a lease must know now, if anything.
fn directive(owner: &Owner, lease: LeaseRef) -> Option<Directive> {
    let kind = match super::fenced(owner, lease) {
        Err(status) => Kind::Revoked(Revoked { reason: status.message().to_owned() }),
        Ok(job) => {
            let lease = owner.state.book.current_lease(job)?;
            if lease.revoked {
                let reason = format!("lease {} is not valid any more", lease.epoch);
                Kind::Revoked(Revoked { reason })
            } else {
                let stop = lease.stop.as_ref()?;
                let deadline_ms = to_ms((stop.deadline_s - owner.now_s()).max(0.0));
                Kind::YieldBy(YieldBy { deadline_ms, reason: stop.reason.clone() })
            }
        }
    };
    Some(Directive { kind: Some(kind) })
}
