//! A coordinator in this process, for the client's tests: it can be stopped, started again with
//! what it held, and told what to answer.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shockwave_proto::v1;
use shockwave_proto::v1::worker_server::{Worker, WorkerServer};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status};

pub(super) const TTL_MS: u64 = 60_000;

/// What the coordinator holds and answers.
#[derive(Default)]
pub(super) struct State {
    pub(super) declared: Vec<v1::Declaration>,
    pub(super) events: BTreeMap<u64, v1::Event>,
    /// Numbers in the order in which they came, repeats included.
    pub(super) received: Vec<u64>,
    pub(super) renewals: Vec<v1::RenewRequest>,
    pub(super) tokens: Vec<String>,
    /// Answer to renewals; none: extended by `TTL_MS`.
    pub(super) answer: Option<v1::Directive>,
    /// Refuses everything with this.
    pub(super) refusal: Option<Status>,
    /// Refuses the event with this number.
    pub(super) poison: Option<u64>,
    /// Takes the next report, but its reply is lost.
    pub(super) lose_reply: bool,
    followers: Vec<mpsc::Sender<Result<v1::Directive, Status>>>,
}

impl State {
    fn acknowledged(&self) -> u64 {
        self.events.keys().next_back().copied().unwrap_or(0)
    }
}

#[derive(Clone)]
struct Service(Arc<Mutex<State>>);

impl Service {
    fn admit<T>(&self, request: &Request<T>) -> Result<std::sync::MutexGuard<'_, State>, Status> {
        let mut state = self.0.lock().unwrap();
        let token = request.metadata().get("authorization").unwrap().to_str().unwrap();
        state.tokens.push(token.to_owned());
        match &state.refusal {
            Some(status) => Err(status.clone()),
            None => Ok(state),
        }
    }
}

pub(super) fn extended(ttl_ms: u64) -> v1::Directive {
    v1::Directive { kind: Some(v1::directive::Kind::Extended(v1::Extended { ttl_ms })) }
}

pub(super) fn yield_by(deadline_ms: u64) -> v1::Directive {
    let yield_by = v1::YieldBy { deadline_ms, reason: "another job's turn".into() };
    v1::Directive { kind: Some(v1::directive::Kind::YieldBy(yield_by)) }
}

pub(super) fn revoked() -> v1::Directive {
    let revoked = v1::Revoked { reason: "lease 9 exists".into() };
    v1::Directive { kind: Some(v1::directive::Kind::Revoked(revoked)) }
}

#[tonic::async_trait]
impl Worker for Service {
    async fn declare(
        &self,
        request: Request<v1::DeclareRequest>,
    ) -> Result<Response<v1::DeclareReply>, Status> {
        let mut state = self.admit(&request)?;
        state.declared.push(request.into_inner().declaration.unwrap());
        let acknowledged = state.acknowledged();
        Ok(Response::new(v1::DeclareReply { acknowledged, ttl_ms: TTL_MS, ..Default::default() }))
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportReply>, Status> {
        let mut state = self.admit(&request)?;
        let events = request.into_inner().events;
        if events.iter().any(|event| Some(event.number) == state.poison) {
            state.poison = if events.len() == 1 { None } else { state.poison };
            return Err(Status::invalid_argument("an epoch that cannot be"));
        }
        for event in events {
            state.received.push(event.number);
            if event.number == state.acknowledged() + 1 {
                state.events.insert(event.number, event);
            }
        }
        if std::mem::take(&mut state.lose_reply) {
            return Err(Status::unavailable("the connection broke"));
        }
        Ok(Response::new(v1::ReportReply { acknowledged: state.acknowledged() }))
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::Directive>, Status> {
        let mut state = self.admit(&request)?;
        state.renewals.push(request.into_inner());
        Ok(Response::new(state.answer.clone().unwrap_or_else(|| extended(TTL_MS))))
    }

    type FollowStream = Pin<Box<dyn Stream<Item = Result<v1::Directive, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<v1::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let mut state = self.admit(&request)?;
        let (sender, receiver) = mpsc::channel(4);
        state.followers.push(sender);
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// The coordinator's process.
pub(super) struct Coordinator {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) address: SocketAddr,
    running: Option<(oneshot::Sender<()>, std::thread::JoinHandle<()>)>,
}

impl Coordinator {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut coordinator = Self { state: Arc::default(), address, running: None };
        coordinator.serve(listener);
        coordinator
    }

    pub(super) fn start_again(&mut self) {
        self.serve(TcpListener::bind(self.address).unwrap());
    }

    fn serve(&mut self, listener: TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let service = Service(Arc::clone(&self.state));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let server = tonic::transport::Server::builder()
                    .add_service(WorkerServer::new(service))
                    .serve_with_incoming(TcpListenerStream::new(listener));
                // Dropped in mid-flight, as a killed process would be.
                tokio::select! { _ = server => {}, _ = stopped => {} }
            });
            runtime.shutdown_timeout(Duration::ZERO);
        });
        self.running = Some((stop, thread));
    }

    pub(super) fn stop(&mut self) {
        self.state.lock().unwrap().followers.clear();
        let (stop, thread) = self.running.take().unwrap();
        let _ = stop.send(());
        thread.join().unwrap();
    }

    /// Says something on every open stream. Whether anybody listens.
    pub(super) fn say(&self, directive: v1::Directive) -> bool {
        let state = self.state.lock().unwrap();
        let said = state.followers.iter().filter(|f| f.try_send(Ok(directive.clone())).is_ok());
        said.count() > 0
    }
}
