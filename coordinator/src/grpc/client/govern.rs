//! `Client.HoldJob` and `Client.SetWeight`: what a user changes of a job that is in.

use shockwave_proto::v1::{HoldJobRequest, JobInfo, SetWeightRequest};
use tonic::Status;

use crate::grpc::auth::Caller;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check, view};

/// Fails for a job that has ended.
fn active(owner: &Owner, caller: &Caller, id: u64) -> Result<(), Status> {
    if super::own_job(owner, caller, id)?.end.is_some() {
        return Err(Status::failed_precondition(format!("job {id} has ended")));
    }
    Ok(())
}

pub(super) async fn hold(
    shared: &Shared,
    caller: Caller,
    request: HoldJobRequest,
) -> Result<JobInfo, Status> {
    let HoldJobRequest { job_id: job, held } = request;
    let ask = move |owner: &mut Owner| {
        active(owner, &caller, job)?;
        if super::job(owner, job)?.held != held {
            owner.append(&Record::Held { job, held })?;
        }
        Ok(view::job(owner, super::job(owner, job)?))
    };
    shared.handle.ask(ask).await
}

pub(super) async fn weigh(
    shared: &Shared,
    caller: Caller,
    request: SetWeightRequest,
) -> Result<JobInfo, Status> {
    let SetWeightRequest { job_id: job, weight } = request;
    check::weight(weight)?;
    let ask = move |owner: &mut Owner| {
        active(owner, &caller, job)?;
        owner.append(&Record::Weighed { job, weight })?;
        Ok(view::job(owner, super::job(owner, job)?))
    };
    shared.handle.ask(ask).await
}
