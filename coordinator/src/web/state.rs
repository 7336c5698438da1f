//! What the page shows, as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shockwave_core::types::JobId;
use shockwave_proto::v1::PlanReply;
use tonic::Status;

use crate::cli::cluster::Pool;
use crate::cli::json::Job as Shown;
use crate::grpc::client::{cluster, fairness};
use crate::service::book::{Job, Stint};
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
    let prospects = owner.state.engine.prospects();
    let shown = |job| Shown::from(view::job_by(owner, &prospects, job));
    let mut jobs: Vec<Shown> = book.active().chain(ended).map(shown).collect();
    jobs.sort_by_key(|job| job.id);
    let plan = view::plan(owner);
    let rounds = rounds(owner, &plan);
    let stints = book.history.iter().rev().take(STINTS_MAX).map(|it| stint(owner, it));
    let holders = cluster::Holders::of(owner);
    let nodes = book.nodes.iter().map(|(name, node)| {
        let info = cluster::info(owner, &holders, name, node);
        let devices = info.devices.iter().map(|it| {
            let device = it.device.clone().unwrap_or_default();
            json!({
                "index": device.index, "kind": device.kind, "model": device.model,
                "memory_bytes": device.memory_bytes,
                "job": (it.job_id > 0).then_some(it.job_id),
            })
        });
        json!({
            "name": name, "state": info.state, "heard_ago_s": info.heard_ago_s,
            "devices": devices.collect::<Vec<_>>(),
        })
    });
    let shares = fairness::report(owner).users.into_iter().map(|it| {
        json!({
            "user": it.user, "jobs": it.jobs, "active_jobs": it.active_jobs, "gpu_s": it.gpu_s,
            "share": it.share, "wasted_gpu_s": it.wasted_gpu_s, "preemptions": it.preemptions,
            "mean_rho": it.mean_rho, "worst_rho": it.worst_rho,
            "weight": it.terms.as_ref().map_or(1.0, |terms| terms.weight),
            "gpus_max": it.terms.as_ref().and_then(|terms| terms.gpus_max),
        })
    });
    json!({
        "version": 1,
        "now_unix_s": crate::store::unix_now_s(),
        "records": owner.durable(),
        "program": env!("CARGO_PKG_VERSION"),
        "epoch": owner.store.epoch,
        "gap": plan.gap,
        "forecasts": [book.forecasts_held.0, book.forecasts_held.1],
        "policy": plan.policy,
        "round": plan.round,
        "round_s": plan.round_s,
        "round_left_s": plan.round_left_s,
        "gpus": plan.gpus,
        "solve_s": plan.solve_s,
        "jobs": jobs,
        "rounds": rounds,
        "stints": stints.collect::<Vec<_>>(),
        "nodes": nodes.collect::<Vec<_>>(),
        "pools": owner.pools.iter().cloned().map(Pool::from).collect::<Vec<_>>(),
        "users": shares.collect::<Vec<_>>(),
    })
}

fn stint(owner: &Owner, it: &Stint) -> Value {
    let job = owner.state.book.jobs.get(&it.job);
    let batches = job.map(|job| job.curve.batches_within(it.from_unix_s, it.to_unix_s));
    json!({
        "job": it.job, "node": it.node, "slots": it.slots,
        "from": it.from_unix_s, "to": it.to_unix_s, "batches": batches.unwrap_or_default(),
    })
}

/// The planned rounds, with the batch size that each job is expected to have in them.
fn rounds(owner: &Owner, plan: &PlanReply) -> Vec<Value> {
    let engine = &owner.state.engine;
    let mut ahead: BTreeMap<u64, Vec<(f64, u32)>> = BTreeMap::new();
    let mut served: BTreeMap<u64, f64> = BTreeMap::new();
    let mut length_s = plan.round_left_s;
    let mut rounds = Vec::new();
    for round in &plan.planned {
        // A plan outlives the jobs that it was made for.
        let there = |id: &&u64| book_job(owner, **id).is_some_and(|job| job.end.is_none());
        let jobs = round.job_ids.iter().filter(there).map(|&id| {
            let regimes = ahead.entry(id).or_insert_with(|| {
                let declared =
                    book_job(owner, id).is_some_and(|job| job.request.declaration.is_some());
                let forecast = engine.forecast(JobId(id)).filter(|_| declared).unwrap_or_default();
                forecast.regimes.iter().map(|it| (it.epochs * it.epoch_s, it.batch)).collect()
            });
            let at_s = served.entry(id).or_default();
            let mut left_s = *at_s;
            let now = regimes.iter().find(|(lasts_s, _)| {
                left_s -= lasts_s;
                left_s < 0.0
            });
            *at_s += length_s;
            let gpus = book_job(owner, id).map_or(1, |job| job.request.gpus.max(1));
            json!({ "id": id, "gpus": gpus, "batch": now.map(|(_, batch)| batch) })
        });
        let jobs: Vec<Value> = jobs.collect();
        rounds.push(json!({ "round": round.round, "price": round.price, "jobs": jobs }));
        length_s = plan.round_s;
    }
    rounds
}

fn book_job(owner: &Owner, id: u64) -> Option<&Job> {
    owner.state.book.jobs.get(&id)
}

/// One job's page.
pub(super) async fn job(shared: &Shared, id: u64) -> Result<String, Status> {
    let path = shared.jobs_dir.join(id.to_string()).join("log");
    let ask = move |owner: &mut Owner| {
        let book = &owner.state.book;
        let missing = || Status::not_found(format!("there is no job {id}"));
        let job = book.jobs.get(&id).ok_or_else(missing)?;
        let stints = book.history.iter().filter(|it| it.job == id).map(|it| stint(owner, it));
        let forecast = owner.state.engine.forecast(JobId(id));
        let declared = job.request.declaration.is_some();
        let ahead = forecast.filter(|_| declared).unwrap_or_default().regimes;
        let end = job.end.as_ref().map_or(f64::INFINITY, |end| end.unix_s);
        let held = job.curve.held(end);
        Ok(json!({
            "version": 1,
            "job": Shown::from(view::job(owner, job)),
            "stints": stints.collect::<Vec<_>>(),
            "curve": job.curve.points,
            "forecasts": job.curve.forecasts,
            "forecasts_held": [held.0, held.1],
            "ahead": ahead,
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
        let mut file = crate::files::open_foreign(path)?;
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
