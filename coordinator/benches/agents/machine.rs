//! A machine as the coordinator sees it over the network: its agent, and its training.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shockwave_proto::v1::agent_client::AgentClient;
use shockwave_proto::v1::declaration::Policy;
use shockwave_proto::v1::event::Kind;
use shockwave_proto::v1::worker_client::WorkerClient;
use shockwave_proto::v1::{
    Accordion, Assignment, Declaration, DeclareRequest, Device, Event, JoinRequest, LeaseRef,
    RenewRequest, ReportRequest, Started, SyncRequest, WorkerState, WorkerStatus,
};
use shockwave_proto::{AUTHORIZATION, PROTOCOL_VERSION, env};
use tokio::task::AbortHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// Devices of a machine.
pub const DEVICES: u32 = 8;
/// Waits of agents between calls that do not get through: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How long an agent waits for news.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Time that training takes from the directive to stop until it has ended: a checkpoint's, and long
/// enough for every yield of a round to be asked for at once, when the round is fixed.
pub const STOPPING: Duration = Duration::from_millis(8500);
/// How long a lease lasts, seconds: as a coordinator has it by default.
pub const TTL_S: f64 = 150.0;

/// What is noted while it runs.
#[derive(Default)]
pub struct Notes {
    /// Durations of joins, ms.
    pub joins_ms: Vec<f64>,
    /// When directives to stop have reached their agents.
    pub stops: Vec<Instant>,
    /// When leases have reached their agents.
    pub starts: Vec<Instant>,
    /// When renewals were sent, and their durations, ms.
    pub renewals: Vec<(Instant, f64)>,
    /// Calls of agents that had to be made again: the connection broke.
    pub again: u64,
    /// Calls that were refused, by what was said.
    pub refusals: BTreeMap<String, u64>,
}

/// The notes, for everybody.
pub type Shared = Arc<Mutex<Notes>>;

/// Takes something down.
pub fn note(notes: &Shared, change: impl FnOnce(&mut Notes)) {
    change(&mut notes.lock().unwrap_or_else(PoisonError::into_inner));
}

/// A call with its token.
pub fn with_token<T>(token: &str, message: T) -> Result<Request<T>, Status> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse();
    let value = value.map_err(|_| Status::internal("the token is no header"))?;
    request.metadata_mut().insert(AUTHORIZATION, value);
    Ok(request)
}

/// A connection that is made when it is needed.
pub fn connection(url: &str) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())?;
    Ok(endpoint.connect_timeout(Duration::from_secs(20)).tcp_nodelay(true).connect_lazy())
}

/// A lease on a machine.
struct Held {
    nonce: String,
    state: WorkerState,
    training: Option<AbortHandle>,
    ends_at: Option<Instant>,
}

/// A machine: its agent and its training.
pub struct Machine {
    node: String,
    token: String,
    agent: AgentClient<Channel>,
    training: WorkerClient<Channel>,
    held: BTreeMap<(u64, u64), Held>,
    notes: Shared,
}

/// What a job declares.
pub fn declaration(job: u64) -> Declaration {
    Declaration {
        epochs_total: 200,
        samples_per_epoch: 50_000,
        initial_batch: 32,
        family: format!("family{}", job % 7),
        policy: Some(Policy::Accordion(Accordion { small: 32, large: 256 })),
    }
}

impl Machine {
    /// One that has not joined yet.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(
        number: usize,
        url: &str,
        token: &str,
        notes: &Shared,
    ) -> Result<Self, tonic::transport::Error> {
        Ok(Self {
            node: format!("node{number}"),
            token: token.to_owned(),
            agent: AgentClient::new(connection(url)?),
            training: WorkerClient::new(connection(url)?),
            held: BTreeMap::new(),
            notes: Arc::clone(notes),
        })
    }

    /// Joins, and does as told until it is refused.
    pub async fn run(mut self) -> Result<(), Status> {
        let device = |index| Device { index, kind: "gpu".into(), ..Device::default() };
        let request = JoinRequest {
            protocol_version: PROTOCOL_VERSION,
            node: self.node.clone(),
            instance: "1".into(),
            devices: (0..DEVICES).map(device).collect(),
            address: "127.0.0.1".into(),
            ..JoinRequest::default()
        };
        let began = Instant::now();
        let mut pause = PAUSE.0;
        let join_number = loop {
            match self.agent.join(with_token(&self.token, request.clone())?).await {
                Ok(reply) => break reply.into_inner().join_number,
                Err(status) => pause = self.wait(status, pause).await?,
            }
        };
        note(&self.notes, |notes| notes.joins_ms.push(began.elapsed().as_secs_f64() * 1e3));
        let mut generation = 0;
        loop {
            let ends = self.held.values().filter_map(|held| held.ends_at).min();
            let wait = ends.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = wait.map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT));
            let request = SyncRequest {
                node: self.node.clone(),
                instance: "1".into(),
                workers: self.held.iter().map(status).collect(),
                generation,
                wait_ms: wait.as_millis() as u64,
                join_number,
                ..SyncRequest::default()
            };
            let reply = match self.agent.sync(with_token(&self.token, request)?).await {
                Ok(reply) => reply.into_inner(),
                Err(status) => {
                    pause = self.wait(status, pause).await?;
                    continue;
                }
            };
            pause = PAUSE.0;
            generation = reply.generation;
            if self.take(reply.assignments) | self.end() {
                generation = 0;
            }
        }
    }

    /// Waits before a call that did not get through is made again; for longer the next time.
    async fn wait(&self, status: Status, pause: Duration) -> Result<Duration, Status> {
        if !matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal) {
            return Err(status);
        }
        note(&self.notes, |notes| notes.again += 1);
        tokio::time::sleep(pause).await;
        Ok((pause * 2).min(PAUSE.1))
    }

    /// Does as told; whether there is something to say.
    fn take(&mut self, assignments: Vec<Assignment>) -> bool {
        let now = Instant::now();
        let key = |it: &Assignment| {
            let lease = it.lease.unwrap_or_default();
            (lease.job_id, lease.lease_epoch)
        };
        let wanted: BTreeMap<_, _> = assignments.into_iter().map(|it| (key(&it), it)).collect();
        let before = self.held.len();
        self.held.retain(|key, held| {
            let is_wanted = wanted.contains_key(key);
            if let (false, Some(training)) = (is_wanted, &held.training) {
                training.abort();
            }
            is_wanted
        });
        let mut changed = self.held.len() != before;
        for (key, it) in &wanted {
            let held = self.held.entry(*key).or_insert_with(|| {
                note(&self.notes, |notes| notes.starts.push(now));
                changed = true;
                let nonce = it.nonce.clone();
                let state = WorkerState::Reserved;
                Held { nonce, state, training: None, ends_at: None }
            });
            if it.stop.is_some() && held.state != WorkerState::Exited && held.ends_at.is_none() {
                note(&self.notes, |notes| notes.stops.push(now));
                held.ends_at = Some(now + STOPPING);
            } else if it.go && it.stop.is_none() && held.state == WorkerState::Reserved {
                held.state = WorkerState::Running;
                changed = true;
                if it.group_rank == 0 {
                    let token = it.env.get(env::JOB_TOKEN).cloned().unwrap_or_default();
                    let work = train(self.training.clone(), token, *key, Arc::clone(&self.notes));
                    held.training = Some(tokio::spawn(work).abort_handle());
                }
            }
        }
        changed
    }

    /// Ends what has written its checkpoint; whether there is something to say.
    fn end(&mut self) -> bool {
        let now = Instant::now();
        let due = |held: &&mut Held| held.ends_at.is_some_and(|at| at <= now);
        let mut some = false;
        for held in self.held.values_mut().filter(due) {
            held.training.iter().for_each(AbortHandle::abort);
            (held.state, held.ends_at, some) = (WorkerState::Exited, None, true);
        }
        some
    }
}

fn status((key, held): (&(u64, u64), &Held)) -> WorkerStatus {
    let is_over = held.state == WorkerState::Exited;
    WorkerStatus {
        lease: Some(LeaseRef { job_id: key.0, lease_epoch: key.1 }),
        nonce: held.nonce.clone(),
        state: held.state.into(),
        exit_code: is_over.then_some(shockwave_proto::exit::YIELDED),
        running_ms: 1,
        master_port: 29_500,
        ..WorkerStatus::default()
    }
}

/// A chief: says that it trains, and renews its lease.
async fn train(
    mut client: WorkerClient<Channel>,
    token: String,
    (job_id, lease_epoch): (u64, u64),
    notes: Shared,
) {
    let lease = Some(LeaseRef { job_id, lease_epoch });
    let refused = |status: Status| {
        note(&notes, |notes| *notes.refusals.entry(status.message().into()).or_default() += 1);
    };
    let declare = DeclareRequest {
        lease,
        protocol_version: PROTOCOL_VERSION,
        declaration: Some(declaration(job_id)),
        sdk_version: "bench".into(),
    };
    let Ok(declare) = with_token(&token, declare) else { return };
    let known = match client.declare(declare).await {
        Ok(reply) => reply.into_inner().acknowledged,
        Err(status) => return refused(status),
    };
    let started = Started { batch: 32, ..Started::default() };
    let event = Event {
        number: known + 1,
        lease_epoch,
        at_unix_s: 0.0,
        kind: Some(Kind::Started(started)),
    };
    let report = ReportRequest { lease, events: vec![event] };
    let Ok(report) = with_token(&token, report) else { return };
    if let Err(status) = client.report(report).await {
        return refused(status);
    }
    loop {
        let pause_s = rand::random_range(0.75..1.0) * TTL_S / 3.0;
        tokio::time::sleep(Duration::from_secs_f64(pause_s)).await;
        let Ok(renew) = with_token(&token, RenewRequest { lease, position: None }) else { return };
        let began = Instant::now();
        match client.renew(renew).await {
            Ok(_) => {
                let took_ms = began.elapsed().as_secs_f64() * 1e3;
                note(&notes, |notes| notes.renewals.push((began, took_ms)));
            }
            Err(status) => return refused(status),
        }
    }
}
