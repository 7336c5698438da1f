//! The service `Client`: what users and programs ask.

mod attach;
mod cancel;
pub(crate) mod cluster;
mod events;
mod explain;
pub(crate) mod fairness;
mod govern;
mod jobs;
mod logs;
mod plan;
mod submit;
mod watch;
mod whatif;

use std::pin::Pin;
use std::sync::Arc;

use shockwave_proto::v1::client_server::Client;
use shockwave_proto::v1::{
    AttachReply, AttachRequest, CancelJobRequest, ClusterReply, ClusterRequest, EventRecord,
    EventsRequest, ExplainReply, FairnessReply, FairnessRequest, HoldJobRequest, JobInfo,
    ListJobsReply, ListJobsRequest, LogChunk, LogsRequest, PlanReply, PlanRequest,
    SetWeightRequest, ShowJobRequest, SubmitReply, SubmitRequest, WhatIfReply, WhatIfRequest,
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::auth::{self, Caller};
use crate::service::Shared;
use crate::service::book::Job;
use crate::service::owner::Owner;

/// The service's state.
pub struct ClientService {
    shared: Arc<Shared>,
    /// One fork of the state is played at a time.
    forks: Arc<tokio::sync::Semaphore>,
}

impl ClientService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, forks: Arc::new(tokio::sync::Semaphore::new(1)) }
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        auth::check_user(&self.shared, request.metadata())
    }
}

/// A job by number.
fn job(owner: &Owner, id: u64) -> Result<&Job, Status> {
    let job = owner.state.book.jobs.get(&id);
    job.ok_or_else(|| {
        Status::not_found(format!("there is no job {id}; `shockwave jobs` lists them"))
    })
}

/// A job that the caller may touch.
fn own_job<'a>(owner: &'a Owner, caller: &Caller, id: u64) -> Result<&'a Job, Status> {
    let job = job(owner, id)?;
    if caller.is_admin || job.user == caller.user {
        return Ok(job);
    }
    tracing::warn!(target: "audit", job = id, user = %caller.user, "another user's job was refused");
    Err(Status::permission_denied(format!("job {id} belongs to {}", job.user)))
}

type Streaming<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Client for ClientService {
    type LogsStream = Streaming<LogChunk>;
    type WatchJobStream = Streaming<JobInfo>;
    type AttachStream = Streaming<AttachReply>;
    type EventsStream = Streaming<EventRecord>;

    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitReply>, Status> {
        let caller = self.caller(&request)?;
        submit::submit(&self.shared, caller, request.into_inner()).await.map(Response::new)
    }

    async fn list_jobs(
        &self,
        request: Request<ListJobsRequest>,
    ) -> Result<Response<ListJobsReply>, Status> {
        self.caller(&request)?;
        jobs::list(&self.shared, request.into_inner()).await.map(Response::new)
    }

    async fn show_job(
        &self,
        request: Request<ShowJobRequest>,
    ) -> Result<Response<JobInfo>, Status> {
        self.caller(&request)?;
        jobs::show(&self.shared, request.into_inner().job_id).await.map(Response::new)
    }

    async fn cancel_job(
        &self,
        request: Request<CancelJobRequest>,
    ) -> Result<Response<JobInfo>, Status> {
        let caller = self.caller(&request)?;
        cancel::cancel(&self.shared, caller, request.into_inner()).await.map(Response::new)
    }

    async fn logs(
        &self,
        request: Request<LogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        let caller = self.caller(&request)?;
        let stream = logs::logs(&self.shared, caller, request.into_inner()).await?;
        Ok(Response::new(Box::pin(stream)))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanReply>, Status> {
        self.caller(&request)?;
        plan::plan(&self.shared).await.map(Response::new)
    }

    async fn watch_job(
        &self,
        request: Request<ShowJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        self.caller(&request)?;
        let stream = watch::watch(&self.shared, request.into_inner().job_id).await?;
        Ok(Response::new(Box::pin(stream)))
    }

    async fn events(
        &self,
        request: Request<EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        let caller = self.caller(&request)?;
        let stream = events::events(&self.shared, caller, request.into_inner()).await?;
        Ok(Response::new(Box::pin(stream)))
    }

    async fn cluster(
        &self,
        request: Request<ClusterRequest>,
    ) -> Result<Response<ClusterReply>, Status> {
        self.caller(&request)?;
        cluster::cluster(&self.shared).await.map(Response::new)
    }

    async fn hold_job(
        &self,
        request: Request<HoldJobRequest>,
    ) -> Result<Response<JobInfo>, Status> {
        let caller = self.caller(&request)?;
        govern::hold(&self.shared, caller, request.into_inner()).await.map(Response::new)
    }

    async fn set_weight(
        &self,
        request: Request<SetWeightRequest>,
    ) -> Result<Response<JobInfo>, Status> {
        let caller = self.caller(&request)?;
        govern::weigh(&self.shared, caller, request.into_inner()).await.map(Response::new)
    }

    async fn explain(
        &self,
        request: Request<ShowJobRequest>,
    ) -> Result<Response<ExplainReply>, Status> {
        self.caller(&request)?;
        explain::explain(&self.shared, request.into_inner().job_id).await.map(Response::new)
    }

    async fn fairness(
        &self,
        request: Request<FairnessRequest>,
    ) -> Result<Response<FairnessReply>, Status> {
        self.caller(&request)?;
        fairness::fairness(&self.shared).await.map(Response::new)
    }

    async fn attach(
        &self,
        request: Request<AttachRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let caller = self.caller(&request)?;
        let stream = attach::attach(&self.shared, caller, request.into_inner()).await?;
        Ok(Response::new(Box::pin(stream)))
    }

    async fn what_if(
        &self,
        request: Request<WhatIfRequest>,
    ) -> Result<Response<WhatIfReply>, Status> {
        self.caller(&request)?;
        whatif::what_if(&self.shared, &self.forks, request.into_inner()).await.map(Response::new)
    }
}
