//! `Client.Attach`: a program that was started by hand waits for its lease.

use std::sync::Arc;
use std::time::Duration;

use shockwave_proto::v1::{AttachReply, AttachRequest, Attachment, JobRequest};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::cli::json::state_name;
use crate::grpc::auth::Caller;
use crate::grpc::worker::check_version;
use crate::service::book::Job;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check, view};

/// Changes that come closer together are one.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn attach(
    shared: &Arc<Shared>,
    caller: Caller,
    request: AttachRequest,
) -> Result<impl Stream<Item = Result<AttachReply, Status>> + use<>, Status> {
    check_version(request.protocol_version, "the program")?;
    let job = request.job.as_ref().ok_or_else(|| Status::invalid_argument("job is missing"))?;
    check::request(job)?;
    check::name("key", &request.key)?;
    if job.workers > 1 {
        return Err(Status::invalid_argument(
            "workers is above 1: a program that is started by hand is one process; submit the job",
        ));
    }
    let after = request.last_lease_epoch;
    let ask = move |owner: &mut Owner| enter(owner, &caller, request);
    let (id, call) = shared.handle.ask(ask).await?;
    let mut bell = shared.handle.ask(move |owner| Ok(owner.job_bell(id))).await?;
    let (sender, receiver) = mpsc::channel(4);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut last = None;
        let mut gone = false;
        loop {
            let address = shared.address.clone();
            let now = shared.handle.ask(move |owner| reply(owner, id, after, &address)).await;
            let over = now.as_ref().map_or(true, |it| it.grant.is_some() || !it.ended.is_empty());
            let news = now.as_ref().ok() != last.as_ref();
            last = now.as_ref().ok().cloned();
            if news && sender.send(now).await.is_err() {
                gone = true;
            }
            if over || gone {
                break;
            }
            tokio::select! {
                changed = bell.changed() => if changed.is_err() { break },
                () = sender.closed() => gone = true,
            }
            tokio::time::sleep(PAUSE).await;
        }
        let left = shared.handle.ask(move |owner| {
            leave(owner, id, call, gone);
            Ok(())
        });
        let _ = left.await;
    });
    Ok(ReceiverStream::new(receiver))
}

/// The job that the program carries: its own from before, or a new one. And the number of the call.
fn enter(owner: &mut Owner, caller: &Caller, request: AttachRequest) -> Result<(u64, u64), Status> {
    let mut job = request.job.unwrap_or_default();
    let mut program = job.attached.take().unwrap_or_default();
    program.node = node(owner, &program.node, &request.machine, job.gpus)?;
    let key = (caller.user.clone(), request.key.clone());
    let known = match request.job_id {
        0 => owner.state.book.keys.get(&key).copied(),
        id => Some(super::own_job(owner, caller, id)?.id),
    };
    let known = known.and_then(|id| owner.state.book.jobs.get(&id));
    let id = match known {
        Some(known) if request.job_id > 0 || known.end.is_none() => {
            let id = known.id;
            carried_by_another(owner, known, &program)?;
            if known.end.is_none()
                && (known.detached || known.request.attached.as_ref() != Some(&program))
            {
                owner.append(&Record::Attached { job: id, program: Some(program) })?;
            }
            id
        }
        _ => enter_new(owner, caller, request.key, job, program)?,
    };
    let call = owner.attached.values().max().copied().unwrap_or(0) + 1;
    owner.attached.insert(id, call);
    Ok((id, call))
}

fn enter_new(
    owner: &mut Owner,
    caller: &Caller,
    key: String,
    mut job: JobRequest,
    program: Attachment,
) -> Result<u64, Status> {
    if job.name.is_empty() {
        job.name = super::submit::default_name(&job.command);
    }
    job.gpus = job.gpus.max(1);
    job.workers = 1;
    if job.weight == 0.0 {
        job.weight = 1.0;
    }
    job.attached = Some(program);
    super::submit::check_room(owner)?;
    let id = owner.state.book.next_job();
    let user = caller.user.clone();
    owner.append(&Record::Submitted { job: id, user, key, request: Box::new(job) })?;
    Ok(id)
}

/// Two programs do not carry one job.
fn carried_by_another(owner: &Owner, job: &Job, program: &Attachment) -> Result<(), Status> {
    let Some(other) = job.request.attached.as_ref() else {
        return Err(Status::failed_precondition(format!(
            "job {} was submitted, not started by hand",
            job.id
        )));
    };
    let same = (other.pid, other.start_ticks) == (program.pid, program.start_ticks);
    let listens = owner.attached.contains_key(&job.id);
    let leased = owner.state.book.current_lease(job).is_some_and(|lease| lease.stop.is_none());
    if !same && (listens || leased) {
        return Err(Status::already_exists(format!(
            "process {} on {} carries job {} already; end it, or name this one with \
             SHOCKWAVE_ATTACH_KEY",
            other.pid, other.node, job.id
        )));
    }
    Ok(())
}

/// The program's machine.
fn node(owner: &Owner, named: &str, machine: &str, gpus: u32) -> Result<String, Status> {
    let nodes = owner.state.book.nodes.iter().filter(|(_, node)| !node.lost);
    let mut nodes = nodes.filter(|(_, node)| !node.machine.is_empty());
    let found = match named {
        "" => nodes.find(|(_, node)| node.machine == machine),
        named => nodes.find(|(name, _)| *name == named),
    };
    let Some((name, node)) = found else {
        let which = if named.is_empty() { "this machine".into() } else { format!("{named:?}") };
        return Err(Status::failed_precondition(format!(
            "no agent of {which} has joined this coordinator; start `shockwave agent` on it, or \
             name the machine with SHOCKWAVE_NODE (`shockwave cluster` lists them)"
        )));
    };
    if gpus as usize > node.devices.len() {
        let has = node.devices.len();
        return Err(Status::invalid_argument(format!(
            "gpus is {gpus}, expected at most {has}, which {name} has"
        )));
    }
    Ok(name.clone())
}

fn reply(owner: &mut Owner, id: u64, after: u64, address: &str) -> Result<AttachReply, Status> {
    let job = super::job(owner, id)?;
    let node = job.request.attached.as_ref().map_or("", |program| &program.node).to_owned();
    let info = view::job(owner, job);
    let ended = match (&job.end, info.reason.as_str()) {
        (None, _) => String::new(),
        (Some(_), "") => format!("job {id} has ended: {}", state_name(info.state())),
        (Some(_), why) => format!("job {id} has ended: {}: {why}", state_name(info.state())),
    };
    let grant = owner.grant(job, after, address);
    Ok(AttachReply { job_id: id, node, waits: info.reason, grant, ended })
}

/// The call is over. A program that went away without its lease leaves its job on hold.
fn leave(owner: &mut Owner, id: u64, call: u64, gone: bool) {
    if owner.attached.get(&id) != Some(&call) {
        return;
    }
    owner.attached.remove(&id);
    let Some(job) = owner.state.book.jobs.get(&id) else { return };
    if gone && job.end.is_none() && owner.state.book.current_lease(job).is_none() {
        owner.append_own(&Record::Attached { job: id, program: None });
    }
}
