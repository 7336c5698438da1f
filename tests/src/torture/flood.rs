//! Clients that mean harm: connections that never speak or only drip, floods of calls, connections
//! that come and go, messages of 64 MiB. Whoever behaves is served all the same, and memory stays
//! bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use shockwave_proto::v1::client_client::ClientClient;
use shockwave_proto::v1::{JobRequest, ListJobsRequest, RenewRequest, SubmitRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use super::wire::{self, Machine, Trainer, with_token};
use super::{Run, Scenario, Tally};
use crate::coordinator::Coordinator;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "flood",
    what: "slow-loris, floods, 64 MiB messages: p99 of a good renewal < 1 s, memory bounded",
    counts: "good renewals",
    runs: 3,
    ci_runs: 1,
    prepare,
};

/// Good jobs, each renewing every [`RENEWAL`].
const JOBS: u32 = 50;
const RENEWAL: Duration = Duration::from_millis(500);
/// How long the attack lasts.
const ATTACK: Duration = Duration::from_secs(20);
/// Connections that never speak, and as many that drip.
const SILENT: usize = 300;
/// By then each of them must have been closed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tasks that call with a bad token, one call after the other.
const FLOODERS: usize = 8;
/// Memory that an attack may cost, MiB.
const MEMORY_MIB: f64 = 300.0;

fn prepare(_runs: u64) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(Box::new(move |_seed, tally| runtime.block_on(run(tally))))
}

async fn run(tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serve = "--devices none --round-s 60 --ttl-s 600 --policy fifo";
    let coordinator = Coordinator::start(folder.path(), serve)?;
    let (url, token) = (coordinator.url().to_owned(), coordinator.token()?);
    let channel = wire::connect(&url).await?;
    let mut machine = Machine::new(&channel, &token, "good", JOBS);
    machine.join().await?;
    for number in 0..JOBS {
        let job = wire::training(&format!("good {number}"));
        let request = SubmitRequest { job: Some(job), idempotency_key: format!("{number}") };
        wire::client(&channel).submit(with_token(&token, request)).await?;
    }
    let mut trainers = machine.take(JOBS as usize).await?;
    let before_mib = memory_mib(coordinator.pid())?;
    let over = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicU64::new(0));
    let mut attack = silent(&url);
    attack.extend(floods(&url, &over, &refused));
    attack.push(tokio::spawn(large(url.clone(), token.clone(), Arc::clone(&over))));
    let good: Vec<_> = trainers.drain(..).map(|it| tokio::spawn(renew(it))).collect();
    let mut times = Vec::new();
    let mut peak_mib = before_mib;
    let until = Instant::now() + ATTACK;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200)).await;
        peak_mib = peak_mib.max(memory_mib(coordinator.pid())?);
    }
    for task in good {
        times.extend(task.await??);
    }
    over.store(true, Ordering::Relaxed);
    for task in attack {
        task.await?.context("an attacker was not refused as it should be")?;
    }
    tally.checked += times.len() as u64;
    times.sort_by(f64::total_cmp);
    let p99_s = times[times.len() * 99 / 100];
    tally.note_max("p99 of a renewal, ms", p99_s * 1000.0);
    tally.note_max("memory of the attack, MiB", peak_mib - before_mib);
    tally.note_sum("calls refused", refused.load(Ordering::Relaxed) as f64);
    ensure!(!tally.is_timed || p99_s < 1.0, "p99 of a good renewal is {p99_s:.3} s");
    ensure!(
        peak_mib - before_mib < MEMORY_MIB,
        "memory rose from {before_mib:.0} to {peak_mib:.0} MiB"
    );
    Ok(())
}

/// A good job: the time of each renewal, seconds.
async fn renew(trainer: Trainer) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    let until = Instant::now() + ATTACK;
    while Instant::now() < until {
        let began = Instant::now();
        let request = RenewRequest { lease: Some(trainer.lease), position: None };
        trainer.service().renew(trainer.request(request)).await.context("a good renewal")?;
        times.push(began.elapsed().as_secs_f64());
        tokio::time::sleep(RENEWAL).await;
    }
    Ok(times)
}

type Attack = tokio::task::JoinHandle<Result<()>>;

/// Connections that say nothing, and some that say one byte a second: all are closed in the end.
fn silent(url: &str) -> Vec<Attack> {
    let address = url.rsplit('/').next().unwrap_or_default().to_owned();
    let one = |number: usize| {
        let address = address.clone();
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(&address).await?;
            let began = Instant::now();
            let mut byte = [0];
            while began.elapsed() < PATIENCE {
                if number.is_multiple_of(2) && stream.write_all(b"P").await.is_err() {
                    return Ok(());
                }
                let read = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut byte));
                // Closed by the other side, as it should be.
                if matches!(read.await, Ok(Ok(0) | Err(_))) {
                    return Ok(());
                }
            }
            bail!("connection {number} says nothing and is still open")
        })
    };
    (0..2 * SILENT).map(one).collect()
}

/// Calls with a bad token, and connections that come and go.
fn floods(url: &str, over: &Arc<AtomicBool>, refused: &Arc<AtomicU64>) -> Vec<Attack> {
    let one = |number: usize| {
        let (url, over, refused) = (url.to_owned(), Arc::clone(over), Arc::clone(refused));
        tokio::spawn(async move {
            let mut client: Option<ClientClient<tonic::transport::Channel>> = None;
            while !over.load(Ordering::Relaxed) {
                let mut caller = match client.take() {
                    Some(caller) => caller,
                    None => wire::client(&wire::connect(&url).await?),
                };
                let request = with_token("forged", ListJobsRequest::default());
                let code = caller.list_jobs(request).await.err().map(|status| status.code());
                ensure!(code == Some(Code::Unauthenticated), "a forged token gives {code:?}");
                refused.fetch_add(1, Ordering::Relaxed);
                // Half of them make a new connection for each call.
                client = number.is_multiple_of(2).then_some(caller);
            }
            Ok(())
        })
    };
    (0..FLOODERS).map(one).collect()
}

/// Messages of 64 MiB, with a good token.
async fn large(url: String, token: String, over: Arc<AtomicBool>) -> Result<()> {
    while !over.load(Ordering::Relaxed) {
        let mut client = wire::client(&wire::connect(&url).await?);
        let job = JobRequest { command: vec!["x".repeat(64 << 20)], ..JobRequest::default() };
        let request = SubmitRequest { job: Some(job), idempotency_key: String::new() };
        let code = client.submit(with_token(&token, request)).await.err().map(|it| it.code());
        // Refused by its announced size; a connection that is cut while it is sent is one, too.
        ensure!(code.is_some(), "a message of 64 MiB was taken");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Memory of a process, MiB.
pub(super) fn memory_mib(pid: i32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib / 1024.0)
}
