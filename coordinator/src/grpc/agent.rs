//! The service `Agent`, and the same logic for the agent in the coordinator's own process.

use std::sync::Arc;
use std::time::Duration;

use shockwave_core::engine::ReleaseReason;
use shockwave_proto::v1::agent_server::Agent;
use shockwave_proto::v1::{
    JoinReply, JoinRequest, SyncReply, SyncRequest, WorkerState, WorkerStatus,
};
use shockwave_proto::{exit, v1};
use tonic::{Request, Response, Status};

use super::auth;
use crate::agent::link::Link;
use crate::agent::mark;
use crate::launcher::Carries;
use crate::service::book::Node;
use crate::service::carriers;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{LOST_AFTER, Shared, check};

/// The service's state.
pub struct AgentService {
    shared: Arc<Shared>,
}

impl AgentService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Whether the caller speaks for the machine; the token to bind to it.
    fn check<T>(&self, request: &Request<T>, node: &str) -> Result<Option<u64>, Status> {
        let unbound = auth::check_agent(&self.shared, request.metadata(), node)?;
        let shows = || request.peer_certs().is_some_and(|certificates| !certificates.is_empty());
        if self.shared.agents_show_certificates && !shows() {
            tracing::warn!(target: "audit", "an agent without a certificate was refused");
            return Err(Status::unauthenticated(
                "agents must show a certificate of this site's authority (--certificate FILE)",
            ));
        }
        Ok(unbound)
    }
}

/// Why a machine is drained that says that it is being taken away.
pub const LEAVING: &str = "it is being taken away";

/// Longest time that a Sync is held open.
const WAIT_MAX: Duration = Duration::from_secs(20);

#[tonic::async_trait]
impl Agent for AgentService {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let unbound = self.check(&request, &request.get_ref().node)?;
        if let Some(id) = unbound {
            bind(&self.shared, id, request.get_ref().node.clone()).await?;
        }
        join(&self.shared, request.into_inner()).await.map(Response::new)
    }

    async fn sync(&self, request: Request<SyncRequest>) -> Result<Response<SyncReply>, Status> {
        self.check(&request, &request.get_ref().node)?;
        sync(&self.shared, request.into_inner()).await.map(Response::new)
    }
}

/// The agent in the coordinator's own process: the same calls without a network.
pub struct Embedded(pub Arc<Shared>);

impl Link for Embedded {
    async fn join(&self, request: JoinRequest) -> Result<JoinReply, Status> {
        join(&self.0, request).await
    }

    async fn sync(&self, request: SyncRequest) -> Result<SyncReply, Status> {
        sync(&self.0, request).await
    }
}

/// Makes an unused token for agents that of one machine.
async fn bind(shared: &Shared, id: u64, node: String) -> Result<(), Status> {
    check::name("node", &node)?;
    let ask = move |owner: &mut Owner| {
        let token = owner.state.book.tokens.get(&id);
        // Two machines may have come with it at once: the first has it.
        if token.is_none_or(|token| !token.info.node.is_empty() && token.info.node != node) {
            return Err(Status::permission_denied(format!(
                "token {id} belongs to another machine"
            )));
        }
        // Its leases, with the tokens and variables of their jobs, are another machine's.
        let is_taken = owner.heard.contains_key(&node) || owner.joining.contains_key(&node);
        if is_taken && token.is_some_and(|token| token.info.node.is_empty()) {
            tracing::warn!(target: "audit", %node, "a new agent's token was refused: the name is taken");
            return Err(Status::permission_denied(format!(
                "a machine called {node} is there already: give another name with --node, or wait \
                 until that one is lost"
            )));
        }
        owner.append(&Record::TokenBound { id, node })?;
        owner.publish_accounts();
        Ok(())
    };
    shared.handle.ask(ask).await
}

async fn join(shared: &Shared, request: JoinRequest) -> Result<JoinReply, Status> {
    super::worker::check_version(request.protocol_version, "the agent")?;
    check::name("node", &request.node)?;
    if request.node.is_empty() || request.devices.is_empty() {
        return Err(Status::invalid_argument("node is nameless or has no devices"));
    }
    for device in &request.devices {
        check::name("kind", &device.kind)?;
        check::name("model", &device.model)?;
    }
    check::name("address", &request.address)?;
    check::name("instance", &request.instance)?;
    check_folder(shared, &request)?;
    let carries = carried(shared, &request.node);
    let ask = move |owner: &mut Owner| match carries {
        Some(carries) => carriers::join(owner, carries, request),
        None if owner.is_place(&request.node) => Err(Status::already_exists(format!(
            "{} is the name of a place that the coordinator keeps itself; give another with --node",
            request.node
        ))),
        None => Ok(take_join(owner, request)),
    };
    shared.handle.ask(ask).await
}

/// The lease that an agent of this name carries, if it is one of those that carry just one.
fn carried(shared: &Shared, node: &str) -> Option<Carries> {
    let passes = shared.pilots.borrow();
    passes.iter().find(|pass| pass.admits(node)).and_then(|pass| pass.carries.clone())
}

/// Takes that a machine is to be entered, as [`JoinRequest`] says it is; its next exchange does so.
/// The request has been checked.
pub fn take_join(owner: &mut Owner, request: JoinRequest) -> JoinReply {
    JoinReply {
        coordinator_epoch: owner.store.epoch,
        lost_after_ms: LOST_AFTER.as_millis() as u64,
        join_number: owner.note_joining(request),
    }
}

/// Refuses a machine that does not have the coordinator's folder of the jobs: what is moved there
/// would begin anew.
fn check_folder(shared: &Shared, request: &JoinRequest) -> Result<(), Status> {
    // An agent that is older than this check names no folder.
    if request.jobs_folder.is_empty() || request.jobs_mark == shared.jobs_mark {
        return Ok(());
    }
    let what = if request.jobs_mark.is_empty() { "does not have" } else { "has another than" };
    let sentence = format!(
        "{} on {} is not the folder of the jobs that the coordinator has at {}: it {what} its mark \
         {}; give `serve` and `agent` the same shared folder with --jobs",
        request.jobs_folder,
        request.node,
        shared.jobs_dir.display(),
        mark::FILE,
    );
    tracing::warn!(node = request.node, "a machine was refused: {sentence}");
    Err(Status::failed_precondition(sentence))
}

async fn sync(shared: &Shared, request: SyncRequest) -> Result<SyncReply, Status> {
    let wait = Duration::from_millis(request.wait_ms).min(WAIT_MAX);
    let (node, seen, leaves) = (request.node.clone(), request.generation, request.leaves);
    let carries = carried(shared, &node);
    let own = carries.clone();
    let mut bell = shared
        .handle
        .ask(move |owner| match own {
            Some(carries) => {
                carriers::take_sync(owner, &carries, &request)?;
                Ok(owner.node_bell(&carries.place))
            }
            None => {
                take_sync(owner, &request)?;
                Ok(owner.node_bell(&request.node))
            }
        })
        .await?;
    if leaves {
        return Ok(SyncReply::default());
    }
    let deadline = tokio::time::Instant::now() + wait;
    let mut is_due = false;
    loop {
        let (name, address, carries) = (node.clone(), shared.address.clone(), carries.clone());
        let ask = move |owner: &mut Owner| {
            let place = carries.as_ref().map_or(name.as_str(), |it| it.place.as_str());
            let is_told = is_due || generation(owner, place) != seen;
            Ok(is_told.then(|| match &carries {
                Some(carries) => carriers::sync_reply(owner, &name, carries, &address),
                None => sync_reply(owner, &name, &address),
            }))
        };
        if let Some(reply) = shared.handle.ask(ask).await? {
            return Ok(reply);
        }
        tokio::select! {
            changed = bell.changed() => is_due = changed.is_err(),
            () = tokio::time::sleep_until(deadline) => is_due = true,
        }
    }
}

/// Counts what a machine is to have; no number comes again after a restart.
fn generation(owner: &Owner, node: &str) -> u64 {
    let changes = owner.generations.get(node).copied().unwrap_or(0) + 1;
    (owner.store.epoch << 40) + changes
}

/// A machine that is being taken away gets nothing new; one that is empty then is forgotten.
fn note_leaving(owner: &mut Owner, request: &SyncRequest) -> Result<(), Status> {
    let known = owner.state.book.nodes.get(&request.node);
    let node = request.node.clone();
    if request.left {
        let why = "it was given back".into();
        owner.append(&Record::Left { node: node.clone(), why })?;
        owner.forget_node(&node);
    } else if request.leaving && known.is_some_and(|node| !node.drained) {
        let why = LEAVING.into();
        owner.append(&Record::Drained { node, drained: true, why })?;
    }
    Ok(())
}

/// Takes what an agent observes; enters its machine where it has asked for that.
///
/// # Errors
/// `NOT_FOUND` for a machine that has to join first; as [`Owner::append`].
pub fn take_sync(owner: &mut Owner, request: &SyncRequest) -> Result<(), Status> {
    owner.enter(request)?;
    let known = owner.state.book.nodes.get(&request.node);
    let is_known = |node: &Node| {
        !node.lost && node.instance == request.instance && node.instance != carriers::PLACE
    };
    if !known.is_some_and(is_known) {
        return Err(Status::not_found("join first"));
    }
    owner.heard.insert(request.node.clone(), owner.now_s());
    if request.leaves {
        owner.left.insert(request.node.clone());
    }
    take_statuses(owner, &request.node, &request.workers, request.leaving)?;
    note_leaving(owner, request)
}

/// What a machine is to run now.
pub fn sync_reply(owner: &mut Owner, node: &str, address: &str) -> SyncReply {
    let generation = generation(owner, node);
    if owner.state.book.nodes.contains_key(node) {
        owner.heard.insert(node.to_owned(), owner.now_s());
    }
    let leave = owner.dismissed.contains(node);
    SyncReply { generation, assignments: owner.assignments(node, address), leave }
}

/// Takes what an agent observes: each start and each end once.
///
/// # Errors
/// As [`Owner::append`].
pub(crate) fn take_statuses(
    owner: &mut Owner,
    node: &str,
    workers: &[WorkerStatus],
    leaving: bool,
) -> Result<(), Status> {
    for status in workers {
        let Some(it) = status.lease else { continue };
        let Some(lease) = owner.state.book.leases.get(&(it.job_id, it.lease_epoch)) else {
            continue;
        };
        if lease.nonce != status.nonce || !lease.holders().any(|holder| holder == node) {
            continue;
        }
        let (job, lease_epoch, node) = (it.job_id, it.lease_epoch, node.to_owned());
        let is_new = !lease.running.contains(&node);
        match status.state() {
            WorkerState::Running if is_new => {
                owner.append(&Record::Running { job, lease_epoch, node })?;
            }
            WorkerState::Reserved => {
                owner.note_reserved((job, lease_epoch), &node, status.master_port);
            }
            WorkerState::Running | WorkerState::Unspecified => {}
            WorkerState::Detached => {
                let ended = owner.state.book.jobs.get(&job).is_none_or(|job| job.end.is_some());
                owner.append(&Record::Attached { job, program: None })?;
                let reason = match ended {
                    true => ReleaseReason::Exited { code: exit::FINISHED },
                    false => ReleaseReason::Yielded,
                };
                owner.append(&Record::Released { job, lease_epoch, node, reason })?;
            }
            WorkerState::Exited | WorkerState::Refused | WorkerState::Lost => {
                let was_told = lease.stop.is_some() || !lease.kill.is_empty();
                let reason = match reason(status, was_told) {
                    ReleaseReason::Signalled { .. } | ReleaseReason::StartFailed { .. }
                        if leaving =>
                    {
                        ReleaseReason::NodeLeaving
                    }
                    reason => reason,
                };
                // An end that came before its start was seen: a start all the same.
                if is_new && status.state() == WorkerState::Exited {
                    let node = node.clone();
                    owner.append(&Record::Running { job, lease_epoch, node })?;
                }
                owner.append(&Record::Released { job, lease_epoch, node, reason })?;
            }
        }
    }
    Ok(())
}

/// How a lease's processes ended, in the engine's words.
fn reason(status: &v1::WorkerStatus, was_told: bool) -> ReleaseReason {
    match (status.state(), status.exit_code, status.signal) {
        (WorkerState::Refused, ..) => ReleaseReason::StartFailed { why: status.message.clone() },
        (_, Some(exit::YIELDED), _) => ReleaseReason::Yielded,
        (_, Some(code), _) => ReleaseReason::Exited { code },
        (WorkerState::Lost, ..) => ReleaseReason::Lost,
        (_, None, Some(_)) if was_told => ReleaseReason::Killed,
        (_, None, signal) => ReleaseReason::Signalled { signal: signal.unwrap_or(libc::SIGKILL) },
    }
}
