//! kill -9 of the coordinator, at random moments and at named ones (P1): nothing that it has
//! acknowledged is lost, and nothing is there that nobody has asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave::service::record::Record;
use shockwave::store::LogReader;
use shockwave_proto::v1::event::Kind;
use shockwave_proto::v1::{
    EpochDone, Event, JobInfo, JobRequest, ListJobsRequest, Started, SubmitRequest,
};
use tonic::transport::Channel;

use super::wire::{self, Machine, Trainer, with_token};
use super::{Run, Scenario, Tally, log};
use crate::coordinator::Coordinator;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "kill",
    what: "P1: kill -9 of the coordinator at random and at named moments, 200 events or more each",
    counts: "acknowledged events looked for",
    runs: 300,
    ci_runs: 3,
    prepare,
};

/// Named moments, and how often each is passed for one event at least.
const POINTS: [&str; 7] = [
    "owner.append",
    "owner.applied",
    "store.inserted",
    "store.commit",
    "store.committed",
    "store.marked",
    "owner.release",
];
/// Acknowledged events of a run at least.
const EVENTS: u64 = 200;
/// Jobs that train, and submitters beside them.
const TRAINERS: usize = 2;

/// What was asked for and acknowledged, over all tasks of a run.
#[derive(Default)]
struct Ledger {
    /// Keys of submissions that were sent.
    sent: Mutex<BTreeSet<String>>,
    /// Job by key, where it was acknowledged.
    taken: Mutex<BTreeMap<String, u64>>,
    /// By job: events sent, events acknowledged.
    events: Mutex<BTreeMap<u64, (u64, u64)>>,
    acknowledged: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn prepare(_runs: u64) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(Box::new(move |seed, tally| runtime.block_on(run(seed, tally))))
}

async fn run(seed: u64, tally: &mut Tally) -> Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir()?;
    let point = seed.is_multiple_of(2).then(|| POINTS[seed as usize / 2 % POINTS.len()]);
    let passes = EVENTS + 60 + random.random_range(0..200);
    let named = point.map(|point| format!("{point}:{passes}"));
    let variables = named.iter().map(|value| ("SHOCKWAVE_FAIL_POINT", value.as_str()));
    let variables: Vec<_> = variables.collect();
    let arguments = "--devices none --round-s 30 --ttl-s 600 --policy fifo";
    let mut coordinator = Coordinator::start_with(folder.path(), arguments, &variables)?;
    let token = coordinator.token()?;
    let channel = wire::connect(coordinator.url()).await?;
    let mut machine = Machine::new(&channel, &token, "by-hand", TRAINERS as u32);
    machine.join().await?;
    let ledger = Arc::new(Ledger::default());
    for number in 0..TRAINERS {
        let key = format!("train-{number}");
        submit(&channel, &token, &ledger, wire::training(&key), key).await?;
    }
    let mut trainers = machine.take(TRAINERS).await?;
    let tasks = start_tasks(&channel, &token, &ledger, &mut trainers).await?;
    if point.is_none() {
        let wanted = EVENTS + random.random_range(0..200);
        while ledger.acknowledged.load(Ordering::Relaxed) < wanted {
            ensure!(!tasks.iter().all(tokio::task::JoinHandle::is_finished), "it has ended itself");
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        tokio::time::sleep(Duration::from_micros(random.random_range(0..5000))).await;
        coordinator.kill()?;
    }
    coordinator.gone(Duration::from_secs(120)).with_context(|| format!("{named:?}"))?;
    for task in tasks {
        task.await?;
    }
    let acknowledged = ledger.acknowledged.load(Ordering::Relaxed);
    ensure!(acknowledged >= EVENTS, "only {acknowledged} events were acknowledged ({named:?})");
    tally.checked += acknowledged;
    tally.note_sum(point.unwrap_or("random moment"), 1.0);
    coordinator.start_again()?;
    check_log(&coordinator, &ledger, tally)?;
    let channel = wire::connect(coordinator.url()).await?;
    check_answers(&channel, &token, &ledger, &mut trainers, tally).await
}

/// Submitters and trainers, which go on until the connection breaks.
async fn start_tasks(
    channel: &Channel,
    token: &str,
    ledger: &Arc<Ledger>,
    trainers: &mut [Trainer],
) -> Result<Vec<tokio::task::JoinHandle<()>>> {
    let mut tasks = Vec::new();
    for trainer in trainers {
        trainer.declare().await?;
        let (trainer, ledger) = (trainer.clone(), Arc::clone(ledger));
        tasks.push(tokio::spawn(async move { train(trainer, &ledger).await }));
    }
    for number in 0..2 {
        let (channel, token) = (channel.clone(), token.to_owned());
        let ledger = Arc::clone(ledger);
        tasks.push(tokio::spawn(async move {
            for count in 0..u64::MAX {
                let key = format!("held-{number}-{count}");
                let job = JobRequest { held: true, ..wire::training(&key) };
                if submit(&channel, &token, &ledger, job, key).await.is_err() {
                    return;
                }
            }
        }));
    }
    Ok(tasks)
}

async fn submit(
    channel: &Channel,
    token: &str,
    ledger: &Ledger,
    job: JobRequest,
    key: String,
) -> Result<()> {
    lock(&ledger.sent).insert(key.clone());
    let request = SubmitRequest { job: Some(job), idempotency_key: key.clone() };
    let reply = wire::client(channel).submit(with_token(token, request)).await?.into_inner();
    let id = reply.job.context("a job")?.id;
    lock(&ledger.taken).insert(key, id);
    ledger.acknowledged.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn train(mut trainer: Trainer, ledger: &Ledger) {
    let job = trainer.lease.job_id;
    let mut next = 1;
    loop {
        let count = 1 + next % 3;
        let events: Vec<Event> = (next..next + count).map(event).collect();
        lock(&ledger.events).entry(job).or_default().0 = next + count - 1;
        let Ok(acknowledged) = trainer.report(events).await else { return };
        lock(&ledger.events).entry(job).or_default().1 = acknowledged;
        ledger.acknowledged.fetch_add(count, Ordering::Relaxed);
        next = acknowledged + 1;
    }
}

fn event(number: u64) -> Event {
    let epoch = number as u32;
    let kind = match number {
        1 => Kind::Started(Started { batch: 10, ..Started::default() }),
        _ => {
            Kind::EpochDone(EpochDone { epoch, batch: 10, duration_s: 1.0, ..EpochDone::default() })
        }
    };
    Event { number, lease_epoch: 1, at_unix_s: 0.0, kind: Some(kind) }
}

/// What the log holds against what was sent and what was acknowledged.
fn check_log(coordinator: &Coordinator, ledger: &Ledger, tally: &mut Tally) -> Result<()> {
    let reader = LogReader::open(&coordinator.state().join("shockwave.db"))?;
    let mut jobs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut events: BTreeMap<u64, u64> = BTreeMap::new();
    for stored in log::all(&reader)? {
        match Record::decode(stored.number, &stored.body)? {
            Record::Submitted { job, key, .. } => jobs.entry(key).or_default().push(job),
            Record::Reported { job, events: reported, .. } => {
                for found in reported {
                    let last = events.entry(job).or_default();
                    ensure!(found == event(*last + 1), "job {job}: {found:?} after event {last}");
                    *last += 1;
                }
            }
            _ => {}
        }
    }
    let (sent, taken) = (lock(&ledger.sent), lock(&ledger.taken));
    let (before, mut why) = (tally.lost + tally.phantom + tally.double, Vec::new());
    for (key, found) in &jobs {
        tally.phantom += u64::from(!sent.contains(key));
        tally.double += found.len() as u64 - 1;
        if !sent.contains(key) || found.len() > 1 {
            why.push(format!("{key} as jobs {found:?}"));
        }
    }
    for (key, id) in taken.iter().filter(|(key, id)| jobs.get(*key) != Some(&vec![**id])) {
        tally.lost += 1;
        why.push(format!("{key}, acknowledged as job {id}"));
    }
    for (job, (sent, acknowledged)) in lock(&ledger.events).iter() {
        let found = events.get(job).copied().unwrap_or(0);
        tally.lost += acknowledged.saturating_sub(found);
        tally.phantom += found.saturating_sub(*sent);
        if found < *acknowledged || found > *sent {
            why.push(format!("job {job}: {sent} sent, {acknowledged} acknowledged, {found} found"));
        }
    }
    if tally.lost + tally.phantom + tally.double > before {
        bail!("the log has lost, doubled or invented: {}", why.join("; "));
    }
    Ok(())
}

/// What the coordinator answers after its restart.
async fn check_answers(
    channel: &Channel,
    token: &str,
    ledger: &Ledger,
    trainers: &mut [Trainer],
    tally: &mut Tally,
) -> Result<()> {
    let mut listed: BTreeMap<String, u64> = BTreeMap::new();
    let mut after_id = 0;
    loop {
        let request = ListJobsRequest { after_id, ..ListJobsRequest::default() };
        let page = wire::client(channel).list_jobs(with_token(token, request)).await?.into_inner();
        let name =
            |job: &JobInfo| job.request.as_ref().map_or_else(String::new, |it| it.name.clone());
        listed.extend(page.jobs.iter().map(|job| (name(job), job.id)));
        after_id = page.jobs.last().map_or(after_id, |job| job.id);
        if !page.more {
            break;
        }
    }
    for (key, id) in lock(&ledger.taken).iter() {
        tally.lost += u64::from(listed.get(key) != Some(id));
        ensure!(listed.get(key) == Some(id), "{key} is {:?}, was job {id}", listed.get(key));
    }
    for trainer in trainers {
        trainer.reconnect(channel);
        let known = trainer.declare().await?.acknowledged;
        let events = lock(&ledger.events).get(&trainer.lease.job_id).copied();
        let (sent, acknowledged) = events.unwrap_or_default();
        ensure!((acknowledged..=sent).contains(&known), "{known}, not {acknowledged} to {sent}");
    }
    // Sent again with the same key, what was under way in the end is one job.
    let open: Vec<String> = {
        let taken = lock(&ledger.taken);
        lock(&ledger.sent).iter().filter(|key| !taken.contains_key(*key)).cloned().collect()
    };
    for key in open {
        let job = JobRequest { held: true, ..wire::training(&key) };
        let request = || SubmitRequest { job: Some(job.clone()), idempotency_key: key.clone() };
        let mut ids = BTreeSet::new();
        for _ in 0..2 {
            let reply = wire::client(channel).submit(with_token(token, request())).await?;
            ids.insert(reply.into_inner().job.context("a job")?.id);
        }
        ids.extend(listed.get(&key));
        tally.double += ids.len() as u64 - 1;
        ensure!(ids.len() == 1, "{key} became jobs {ids:?}");
    }
    Ok(())
}
