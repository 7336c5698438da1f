//! Speaks to a coordinator by hand: as a user, as a machine, as training.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use shockwave_proto::v1::agent_client::AgentClient;
use shockwave_proto::v1::client_client::ClientClient;
use shockwave_proto::v1::declaration::Policy;
use shockwave_proto::v1::worker_client::WorkerClient;
use shockwave_proto::v1::{
    Assignment, Declaration, DeclareReply, DeclareRequest, Device, Event, JobRequest, JoinRequest,
    LeaseRef, ReportRequest, Static, SyncRequest, WorkerState, WorkerStatus,
};
use shockwave_proto::{AUTHORIZATION, PROTOCOL_VERSION, env};
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A request with a token.
///
/// # Panics
/// The token is no header; tests use none of that kind.
pub fn with_token<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Ok(value) = format!("Bearer {token}").parse() {
        request.metadata_mut().insert(AUTHORIZATION, value);
    }
    request
}

/// A connection.
///
/// # Errors
/// Nobody listens.
pub async fn connect(url: &str) -> Result<Channel> {
    Ok(Channel::from_shared(url.to_owned())?.tcp_nodelay(true).connect().await?)
}

/// A user's side.
#[must_use]
pub fn client(channel: &Channel) -> ClientClient<Channel> {
    ClientClient::new(channel.clone()).max_decoding_message_size(64 << 20)
}

/// A job that declares its training, for a machine that is played by hand.
#[must_use]
pub fn training(name: &str) -> JobRequest {
    JobRequest {
        name: name.into(),
        command: vec!["played-by-hand".into()],
        working_dir: "/".into(),
        declaration: Some(declaration()),
        ..JobRequest::default()
    }
}

/// A declaration of many epochs.
#[must_use]
pub fn declaration() -> Declaration {
    Declaration {
        epochs_total: 1_000_000,
        samples_per_epoch: 1000,
        initial_batch: 10,
        family: "by hand".into(),
        policy: Some(Policy::Static(Static {})),
    }
}

/// A machine that is played by hand.
pub struct Machine {
    channel: Channel,
    token: String,
    name: String,
    devices: u32,
    instance: String,
    generation: u64,
    join_number: u64,
    running: BTreeMap<(u64, u64), String>,
}

impl Machine {
    /// A machine that has not joined yet.
    #[must_use]
    pub fn new(channel: &Channel, token: &str, name: &str, devices: u32) -> Self {
        Self {
            channel: channel.clone(),
            token: token.into(),
            name: name.into(),
            devices,
            instance: format!("{name}-1"),
            generation: 0,
            join_number: 0,
            running: BTreeMap::new(),
        }
    }

    /// The same machine over another connection.
    pub fn reconnect(&mut self, channel: &Channel) {
        self.channel = channel.clone();
        self.generation = 0;
    }

    fn statuses(&self) -> Vec<WorkerStatus> {
        let status = |(key, nonce): (&(u64, u64), &String)| {
            let mut status = WorkerStatus {
                lease: Some(LeaseRef { job_id: key.0, lease_epoch: key.1 }),
                nonce: nonce.clone(),
                ..WorkerStatus::default()
            };
            status.set_state(WorkerState::Running);
            status
        };
        self.running.iter().map(status).collect()
    }

    /// Enters.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub async fn join(&mut self) -> Result<(), Status> {
        let device = |index| Device { index, kind: "cpu".into(), ..Device::default() };
        let request = JoinRequest {
            protocol_version: PROTOCOL_VERSION,
            node: self.name.clone(),
            instance: self.instance.clone(),
            devices: (0..self.devices).map(device).collect(),
            workers: self.statuses(),
            walltime_left_s: None,
            address: "127.0.0.1".into(),
            ..JoinRequest::default()
        };
        let mut agent = AgentClient::new(self.channel.clone());
        let reply = agent.join(with_token(&self.token, request)).await?;
        self.join_number = reply.into_inner().join_number;
        Ok(())
    }

    /// One exchange; whatever is to start counts as started. Gives what is to run.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub async fn sync(&mut self, wait_ms: u64) -> Result<Vec<Assignment>, Status> {
        let request = SyncRequest {
            node: self.name.clone(),
            instance: self.instance.clone(),
            workers: self.statuses(),
            generation: self.generation,
            join_number: self.join_number,
            wait_ms,
            ..SyncRequest::default()
        };
        let mut agent = AgentClient::new(self.channel.clone()).max_decoding_message_size(256 << 20);
        let reply = agent.sync(with_token(&self.token, request)).await?.into_inner();
        self.generation = reply.generation;
        let key = |it: &Assignment| {
            let lease = it.lease.unwrap_or_default();
            (lease.job_id, lease.lease_epoch)
        };
        self.running = reply.assignments.iter().map(|it| (key(it), it.nonce.clone())).collect();
        Ok(reply.assignments)
    }

    /// Exchanges until so many leases are here, and told to the coordinator as running.
    ///
    /// # Errors
    /// They do not come.
    pub async fn take(&mut self, count: usize) -> Result<Vec<Trainer>> {
        let mut assignments = Vec::new();
        for _ in 0..600 {
            assignments = self.sync(100).await?;
            if assignments.len() >= count {
                self.sync(0).await?;
                return assignments.iter().map(|it| Trainer::new(&self.channel, it)).collect();
            }
        }
        anyhow::bail!("{} of {count} leases came", assignments.len())
    }
}

/// Training that is played by hand.
#[derive(Clone)]
pub struct Trainer {
    client: WorkerClient<Channel>,
    /// Its lease.
    pub lease: LeaseRef,
    token: String,
}

impl Trainer {
    fn new(channel: &Channel, it: &Assignment) -> Result<Self> {
        let token = it.env.get(env::JOB_TOKEN).context("no job token")?.clone();
        let lease = it.lease.context("no lease")?;
        Ok(Self { client: WorkerClient::new(channel.clone()), lease, token })
    }

    /// The same over another connection.
    pub fn reconnect(&mut self, channel: &Channel) {
        self.client = WorkerClient::new(channel.clone());
    }

    /// A request with the job's token.
    pub fn request<T>(&self, message: T) -> Request<T> {
        with_token(&self.token, message)
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> WorkerClient<Channel> {
        self.client.clone()
    }

    /// Declares.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub async fn declare(&mut self) -> Result<DeclareReply, Status> {
        let request = DeclareRequest {
            lease: Some(self.lease),
            protocol_version: PROTOCOL_VERSION,
            declaration: Some(declaration()),
            sdk_version: "by hand".into(),
        };
        let request = self.request(request);
        Ok(self.client.declare(request).await?.into_inner())
    }

    /// Reports; the last acknowledged event.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub async fn report(&mut self, events: Vec<Event>) -> Result<u64, Status> {
        let request = self.request(ReportRequest { lease: Some(self.lease), events });
        Ok(self.client.report(request).await?.into_inner().acknowledged)
    }
}
