//! `Worker.Report`: numbered events, acknowledged once they are durable.

use shockwave_proto::REPORT_EVENTS_MAX;
use shockwave_proto::v1::{Event, LeaseRef, ReportReply};
use tonic::Status;

use crate::service::owner::Owner;
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
    shared.handle.ask(move |owner| take_report(owner, lease, events)).await
}

/// Takes events that have been checked: those that are new and follow without a gap.
///
/// # Errors
/// `FAILED_PRECONDITION` for a lease that is not its job's newest; as [`Owner::append`].
pub fn take_report(
    owner: &mut Owner,
    lease: LeaseRef,
    mut events: Vec<Event>,
) -> Result<ReportReply, Status> {
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
}
