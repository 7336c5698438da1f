//! `Client.CancelJob`: ends a job; repeatable.

use shockwave_proto::v1::{CancelJobRequest, JobInfo};
use tonic::Status;

use crate::grpc::auth::Caller;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check, view};

pub(super) async fn cancel(
    shared: &Shared,
    caller: Caller,
    request: CancelJobRequest,
) -> Result<JobInfo, Status> {
    check::name("reason", &request.reason)?;
    let id = request.job_id;
    let ask = move |owner: &mut Owner| {
        if super::own_job(owner, &caller, id)?.end.is_none() {
            let mut why = format!("cancelled by {}", caller.user);
            if !request.reason.is_empty() {
                why = format!("{why}: {}", request.reason);
            }
            owner.append(&Record::Cancelled { job: id, why })?;
        }
        Ok(view::job(owner, super::job(owner, id)?))
    };
    shared.handle.ask(ask).await
}
