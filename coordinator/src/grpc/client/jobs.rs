//! `Client.ListJobs` and `Client.ShowJob`.

use std::ops::Bound;

use prost::Message;
use shockwave_proto::v1::{JobInfo, ListJobsReply, ListJobsRequest};
use tonic::Status;

use crate::service::owner::Owner;
use crate::service::{Shared, view};

/// Most jobs in one answer.
const LIMIT_MAX: u32 = 1000;
/// A page is complete with this, whatever its jobs hold: far below what a reply may have.
const PAGE_BYTES: usize = 4 << 20;

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
        let prospects = owner.state.engine.prospects();
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while jobs.len() < limit as usize && bytes < PAGE_BYTES {
            let Some(job) = wanted.next() else { break };
            let info = view::job_by(owner, &prospects, job);
            bytes += info.encoded_len();
            jobs.push(info);
        }
        Ok(ListJobsReply { jobs, more: wanted.next().is_some() })
    };
    shared.handle.ask(ask).await
}

pub(super) async fn show(shared: &Shared, id: u64) -> Result<JobInfo, Status> {
    shared.handle.ask(move |owner| Ok(view::job(owner, super::job(owner, id)?))).await
}
