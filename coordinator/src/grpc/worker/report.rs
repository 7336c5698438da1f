//! `Worker.Report`: numbered events, acknowledged once they are durable.

use shockwave_proto::REPORT_EVENTS_MAX;
use shockwave_proto::v1::{Event, LeaseRef, ReportReply};
use tonic::Status;

use crate::service::record::Record;
use crate::service::{Shared, check};

pub(super) async fn report(
    shared: &Shared,
    lease: LeaseRef,
    mut events: Vec<Event>,
) -> Result<ReportReply, Status> {
    if events.len() > REPORT_EVENTS_MAX {
        let got = events.len();
        let sentence = format!("{got} events in one call, at most {REPORT_EVENTS_MAX}");
        return Err(Status::invalid_argument(sentence));
    }
    for event in &mut events {
        check::event(event)?;
    }
    let ask = move |owner: &mut crate::service::owner::Owner| {
        let acknowledged = super::fenced(owner, lease)?.acknowledged;
        // What is durable already is skipped; after a gap the rest is not taken.
        let mut next = acknowledged + 1;
        events.retain(|event| {
            let fits = event.number == next;
            next += u64::from(fits);
            fits
        });
        if !events.is_empty() {
            let (job, lease_epoch) = (lease.job_id, lease.lease_epoch);
            owner.append(&Record::Reported { job, lease_epoch, events })?;
        }
        Ok(ReportReply { acknowledged: super::fenced(owner, lease)?.acknowledged })
    };
    shared.handle.ask(ask).await
}
