//! `Client.ListJobs` and `Client.ShowJob`.

use std::ops::Bound;

use shockwave_proto::v1::{JobInfo, ListJobsReply, ListJobsRequest};
use tonic::Status;

use crate::service::owner::Owner;
use crate::service::{Shared, view};

/// Most jobs in one answer.
const LIMIT_MAX: u32 = 1000;

pub(super) async fn list(
    shared: &Shared,
    request: ListJobsRequest,
) -> Result<ListJobsReply, Status> {
    let limit = match request.limit {
        0 => LIMIT_MAX,
        limit => limit.min(LIMIT_MAX),
    };
    let ask = move |owner: &mut Owner| {
        let after = (Bound::Excluded(request.after_id), Bound::Unbounded);
        let wanted = owner.state.book.jobs.range(after).map(|(_, job)| job);
        let mut wanted = wanted.filter(|job| request.all || job.end.is_none());
        let jobs = wanted.by_ref().take(limit as usize);
        let prospects = owner.state.engine.prospects();
        let jobs = jobs.map(|job| view::job_by(owner, &prospects, job)).collect();
        Ok(ListJobsReply { jobs, more: wanted.next().is_some() })
    };
    shared.handle.ask(ask).await
}

pub(super) async fn show(shared: &Shared, id: u64) -> Result<JobInfo, Status> {
    shared.handle.ask(move |owner| Ok(view::job(owner, super::job(owner, id)?))).await
}
