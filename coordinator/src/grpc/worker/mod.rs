//! The service `Worker`: what training processes say and hear.

mod declare;
mod follow;
mod renew;
mod report;

pub use declare::take_declaration;
pub use renew::take_renewal;
pub use report::take_report;

use std::pin::Pin;
use std::sync::Arc;

use shockwave_proto::PROTOCOL_VERSION;
use shockwave_proto::v1::worker_server::Worker;
use shockwave_proto::v1::{
    DeclareReply, DeclareRequest, Directive, FollowRequest, LeaseRef, RenewRequest, ReportReply,
    ReportRequest,
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::auth;
use crate::service::Shared;
use crate::service::book::Job;
use crate::service::owner::Owner;

/// The service's state.
pub struct WorkerService {
    shared: Arc<Shared>,
}

impl WorkerService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The caller's lease, once its token has been checked.
    fn lease<T>(&self, request: &Request<T>, lease: Option<LeaseRef>) -> Result<LeaseRef, Status> {
        let lease = lease.ok_or_else(|| Status::invalid_argument("lease is missing"))?;
        auth::check_job(&self.shared, request.metadata(), lease.job_id)?;
        Ok(lease)
    }
}

/// The fence: only a job's newest lease may say anything.
fn fenced(owner: &Owner, lease: LeaseRef) -> Result<&Job, Status> {
    let job = owner.state.book.jobs.get(&lease.job_id);
    let job = job.ok_or_else(|| Status::not_found(format!("there is no job {}", lease.job_id)))?;
    let is_there = owner.state.book.leases.contains_key(&(job.id, lease.lease_epoch));
    if lease.lease_epoch == job.lease_epoch {
        // Once its processes are gone, nobody has anything to say of a job that has ended.
        return match job.end.is_none() || is_there {
            true => Ok(job),
            false => Err(Status::failed_precondition(format!(
                "job {} has ended, and its lease {} is over",
                job.id, lease.lease_epoch
            ))),
        };
    }
    Err(Status::failed_precondition(format!(
        "lease {} of job {} is not valid: its newest is {}; stop without committing anything",
        lease.lease_epoch, job.id, job.lease_epoch
    )))
}

/// Refuses peers that are too far away: not by the code that says that a lease is over, for whoever
/// hears that ends resumable, and would come again and again.
pub(super) fn check_version(theirs: u32, who: &str) -> Result<(), Status> {
    if theirs.abs_diff(PROTOCOL_VERSION) <= 1 {
        return Ok(());
    }
    Err(Status::unimplemented(format!(
        "{who} speaks protocol version {theirs}, this coordinator speaks {PROTOCOL_VERSION}; \
         versions must not differ by more than 1: update the older of the two"
    )))
}

/// A directive, as the service gives it.
type DirectiveStream = Pin<Box<dyn Stream<Item = Result<Directive, Status>> + Send>>;

#[tonic::async_trait]
impl Worker for WorkerService {
    type FollowStream = DirectiveStream;

    async fn declare(
        &self,
        request: Request<DeclareRequest>,
    ) -> Result<Response<DeclareReply>, Status> {
        let lease = self.lease(&request, request.get_ref().lease)?;
        declare::declare(&self.shared, lease, request.into_inner()).await.map(Response::new)
    }

    async fn report(
        &self,
        request: Request<ReportRequest>,
    ) -> Result<Response<ReportReply>, Status> {
        let lease = self.lease(&request, request.get_ref().lease)?;
        let events = request.into_inner().events;
        report::report(&self.shared, lease, events).await.map(Response::new)
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<Directive>, Status> {
        let lease = self.lease(&request, request.get_ref().lease)?;
        let position = request.into_inner().position;
        renew::renew(&self.shared, lease, position).await.map(Response::new)
    }

    async fn follow(
        &self,
        request: Request<FollowRequest>,
    ) -> Result<Response<DirectiveStream>, Status> {
        let lease = self.lease(&request, request.get_ref().lease)?;
        let stream = follow::follow(&self.shared, lease).await?;
        Ok(Response::new(Box::pin(stream)))
    }
}
