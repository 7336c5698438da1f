//! What the page shows, as JSON.

use serde_json::{Value, json};
use tonic::Status;

use crate::cli::cluster::Pool;
use crate::cli::json::Job;
use crate::grpc::client::{cluster, fairness};
use crate::service::book::Stint;
use crate::service::owner::Owner;
use crate::service::{Shared, view};

/// Ended jobs on the front page.
const ENDED_MAX: usize = 100;
/// Stints on the front page.
const STINTS_MAX: usize = 1000;

/// The front page's state.
pub(super) async fn state(shared: &Shared) -> Result<String, Status> {
    shared.handle.ask(|owner| Ok(front(owner).to_string())).await
}

fn front(owner: &Owner) -> Value {
    let book = &owner.state.book;
    let ended = book.jobs.values().rev().filter(|job| job.end.is_some()).take(ENDED_MAX);
    let mut jobs: Vec<Job> =
        book.active().chain(ended).map(|job| Job::from(view::job(owner, job))).collect();
    jobs.sort_by_key(|job| job.id);
    let plan = view::plan(owner);
    let rounds = plan
        .planned
        .iter()
        .map(|round| json!({ "round": round.round, "jobs": round.job_ids, "price": round.price }));
    let stints = book.history.iter().rev().take(STINTS_MAX).map(stint);
    let nodes = book.nodes.iter().map(|(name, node)| {
        let info = cluster::info(owner, name, node);
        let devices = info.devices.iter().map(|it| {
            let device = it.device.clone().unwrap_or_default();
            json!({
                "index": device.index, "kind": device.kind, "model": device.model,
                "job": (it.job_id > 0).then_some(it.job_id),
            })
        });
        json!({ "name": name, "state": info.state, "devices": devices.collect::<Vec<_>>() })
    });
    let shares = fairness::report(owner).users.into_iter().map(|it| {
        json!({
            "user": it.user, "jobs": it.jobs, "active_jobs": it.active_jobs, "gpu_s": it.gpu_s,
            "share": it.share, "wasted_gpu_s": it.wasted_gpu_s, "preemptions": it.preemptions,
            "mean_rho": it.mean_rho, "worst_rho": it.worst_rho,
        })
    });
    json!({
        "version": 1,
        "now_unix_s": crate::store::unix_now_s(),
        "records": owner.durable(),
        "policy": plan.policy,
        "round": plan.round,
        "round_s": plan.round_s,
        "round_left_s": plan.round_left_s,
        "gpus": plan.gpus,
        "solve_s": plan.solve_s,
        "jobs": jobs,
        "rounds": rounds.collect::<Vec<_>>(),
        "stints": stints.collect::<Vec<_>>(),
        "nodes": nodes.collect::<Vec<_>>(),
        "pools": owner.pools.iter().cloned().map(Pool::from).collect::<Vec<_>>(),
        "users": shares.collect::<Vec<_>>(),
    })
}

fn stint(it: &Stint) -> Value {
    json!({
        "job": it.job, "node": it.node, "slots": it.slots,
        "from": it.from_unix_s, "to": it.to_unix_s,
    })
}

/// One job's page.
pub(super) async fn job(shared: &Shared, id: u64) -> Result<String, Status> {
    let path = shared.jobs_dir.join(id.to_string()).join("log");
    let ask = move |owner: &mut Owner| {
        let book = &owner.state.book;
        let missing = || Status::not_found(format!("there is no job {id}"));
        let job = book.jobs.get(&id).ok_or_else(missing)?;
        let stints = book.history.iter().filter(|it| it.job == id).map(stint);
        let monitor = job.monitor.as_ref();
        Ok(json!({
            "version": 1,
            "job": Job::from(view::job(owner, job)),
            "stints": stints.collect::<Vec<_>>(),
            "loss": monitor.and_then(|it| it.loss),
            "grad_norm": monitor.and_then(|it| it.grad_norm),
            "noise_scale": monitor.and_then(|it| it.noise_scale),
        }))
    };
    let mut value = shared.handle.ask(ask).await?;
    let tail = tokio::task::spawn_blocking(move || log_tail(&path)).await;
    value["log"] = tail.unwrap_or_default().into();
    Ok(value.to_string())
}

/// The last 8 KiB of a log, from a whole line on.
fn log_tail(path: &std::path::Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    const TAIL_BYTES: u64 = 8 << 10;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
        let mut text = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    match text.split_once('\n') {
        Some((_, rest)) if text.len() as u64 >= TAIL_BYTES => rest.to_owned(),
        _ => text,
    }
}
