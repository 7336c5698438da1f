//! One coordinator with 1,000 agents of 8 devices each, over the network: joins, boundaries of
//! rounds with their directives, renewals, losses.
//!
//! The coordinator is a process of its own; agents and training are played here, each machine with
//! two connections (its agent's, its training's). Both share this machine's cores. Prints one JSON
//! object per result row. `--agents N` (default 1000), `--rounds N` (default 3).

mod machine;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use shockwave_proto::v1::client_client::ClientClient;
use shockwave_proto::v1::{ClusterRequest, JobRequest, PlanRequest, SubmitRequest};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use machine::{DEVICES, Machine, STOPPING, Shared, TTL_S, connection, declaration, with_token};

/// As a coordinator has them by default.
const ROUND_S: f64 = 120.0;
const LEAD_S: f64 = 10.0;
/// Jobs for each machine: twice what it can carry at once.
const JOBS: usize = 5;
/// Machines that fall silent in the end, of a hundred.
const SILENT_PERCENT: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let agents = option("--agents").unwrap_or(1000);
    let rounds = option("--rounds").unwrap_or(3);
    shockwave::files::open_files_max();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(agents, rounds))
}

fn option(name: &str) -> Option<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next()?.parse().ok()
}

fn row(name: &str, value: f64, unit: &str, goal: Option<f64>, against: &str) {
    let row = serde_json::json!({
        "name": name, "value": value, "unit": unit, "goal": goal,
        "holds": goal.map(|goal| value <= goal), "against": against,
    });
    println!("{row}");
}

/// A part of sorted values, 0 to 1.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((part * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The coordinator, killed with this value.
struct Serve {
    child: Child,
    url: String,
    token: String,
}

impl Serve {
    fn start(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let times = format!("--round-s {ROUND_S} --lead-s {LEAD_S} --ttl-s {TTL_S}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_shockwave"))
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--devices", "none"])
            .args(times.split(' '))
            .arg("--state")
            .arg(folder)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let ready: serde_json::Value = serde_json::from_str(&line)?;
        let known = std::fs::read(folder.join("coordinator.json"))?;
        let known: serde_json::Value = serde_json::from_slice(&known)?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self { child, url: text(&ready["coordinator"]), token: text(&known["token"]) })
    }

    /// Processor time so far, seconds, and the most memory that it had, MiB.
    fn cost(&self) -> (f64, f64) {
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
        };
        let stat = read("stat");
        let fields: Vec<f64> =
            stat.split(' ').map(|field| field.parse().unwrap_or_default()).collect();
        let ticks = fields.get(13).zip(fields.get(14)).map_or(0.0, |(user, system)| user + system);
        let status = read("status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse().ok());
        (ticks / 100.0, peak.unwrap_or(0.0) / 1024.0)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn submit(client: &ClientClient<Channel>, token: &str, jobs: usize) -> Result<(), Status> {
    let mut calls = JoinSet::new();
    for job in 0..jobs {
        if calls.len() >= 64
            && let Some(done) = calls.join_next().await
        {
            done.map_err(|error| Status::internal(error.to_string()))??;
        }
        let gpus = [1, 1, 2, 4, 8][job % 5];
        let request = JobRequest {
            command: vec!["train".into()],
            working_dir: "/".into(),
            gpus,
            workers: gpus,
            declaration: Some(declaration(job as u64 + 1)),
            ..JobRequest::default()
        };
        let (mut client, token) = (client.clone(), token.to_owned());
        calls.spawn(async move {
            let request = SubmitRequest { job: Some(request), idempotency_key: String::new() };
            client.submit(with_token(&token, request)?).await
        });
    }
    while let Some(done) = calls.join_next().await {
        done.map_err(|error| Status::internal(error.to_string()))??;
    }
    Ok(())
}

async fn measure(agents: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let serve = Serve::start(folder.path())?;
    let notes = Shared::default();
    let mut client = ClientClient::new(connection(&serve.url)?).max_decoding_message_size(64 << 20);
    let began = Instant::now();
    let mut machines = Vec::new();
    for number in 0..agents {
        let machine = Machine::new(number, &serve.url, &serve.token, &notes)?;
        machines.push(tokio::spawn(machine.run()));
    }
    while notes.lock().unwrap_or_else(PoisonError::into_inner).joins_ms.len() < agents {
        if let Some(ended) = machines.iter_mut().find(|task| task.is_finished()) {
            ended.await??;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let all_s = began.elapsed().as_secs_f64();
    let mut joins_ms = notes.lock().unwrap_or_else(PoisonError::into_inner).joins_ms.clone();
    let name = |what: &str| format!("{agents} agents of {DEVICES}: {what}");
    row(&name("all have joined, at once"), all_s, "s", None, "");
    row(&name("join, p99"), quantile(&mut joins_ms, 0.99), "ms", None, "all at once");
    submit(&client, &serve.token, JOBS * agents).await?;
    boundaries(&mut client, &serve, &notes, (agents, rounds)).await?;
    losses(&mut client, &serve, &notes, &machines).await?;
    let (refusals, again) = {
        let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        (notes.refusals.clone(), notes.again)
    };
    row(&name("calls of agents made again"), again as f64, "", None, "all connect at once");
    let count: u64 = refusals.values().sum();
    row(&name("calls refused"), count as f64, "", None, &format!("{refusals:?}"));
    row(&name("memory of the coordinator, most"), serve.cost().1, "MiB", None, "");
    Ok(())
}

/// Whole rounds: when the last directive was at its agent, and how long renewals took.
async fn boundaries(
    client: &mut ClientClient<Channel>,
    serve: &Serve,
    notes: &Shared,
    (agents, rounds): (usize, usize),
) -> Result<(), Box<dyn Error>> {
    let name = |what: &str| format!("{agents} agents of {DEVICES}: {what}");
    let (mut lasts_ms, mut firsts_ms, mut begun_ms) = (Vec::new(), Vec::new(), Vec::new());
    let mut told = 0;
    let (cost_s, began) = (serve.cost().0, Instant::now());
    for round in 0..=rounds {
        let plan = client.plan(with_token(&serve.token, PlanRequest {})?).await?.into_inner();
        let boundary = Instant::now() + Duration::from_secs_f64(plan.round_left_s.max(0.0));
        tokio::time::sleep_until((boundary + Duration::from_secs(3)).into()).await;
        let fixed = boundary - Duration::from_secs_f64(LEAD_S);
        // Those that were asked to go at the boundary's fixing, a little earlier for clocks that tick.
        let from = fixed - Duration::from_millis(50);
        let within = |times: &[Instant], end: Instant| -> Vec<f64> {
            let times = times.iter().filter(|at| (from..end).contains(*at));
            times.map(|at| at.saturating_duration_since(fixed).as_secs_f64() * 1e3).collect()
        };
        let (stops, starts) = {
            let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
            let end = boundary + Duration::from_secs(3);
            (within(&notes.stops, boundary), within(&notes.starts, end))
        };
        // The first round only starts what there is.
        if round > 0 && !stops.is_empty() {
            told += stops.len();
            lasts_ms.push(stops.iter().copied().fold(0.0, f64::max));
            firsts_ms.push(stops.iter().copied().fold(f64::INFINITY, f64::min));
            begun_ms.push(starts.iter().copied().fold(0.0, f64::max));
        }
    }
    let share = (serve.cost().0 - cost_s) / began.elapsed().as_secs_f64();
    let jobs = JOBS * agents;
    let against = format!("{told} directives in {} rounds, {jobs} jobs", lasts_ms.len());
    let last = quantile(&mut lasts_ms, 0.5);
    row(
        &name("a round is fixed to its last directive at an agent"),
        last,
        "ms",
        Some(250.0),
        &against,
    );
    let worst = quantile(&mut lasts_ms, 1.0);
    row(&name("the same, worst round"), worst, "ms", None, "");
    let first = quantile(&mut firsts_ms, 0.5);
    row(&name("the same, first directive"), first, "ms", None, "planning was done before");
    let begun = quantile(&mut begun_ms, 0.5) - STOPPING.as_secs_f64() * 1e3;
    let what = name("training has ended to the last lease that follows at its machine");
    row(&what, begun, "ms", None, "ends 8.5 s after its directive");
    let mut renewals: Vec<f64> = {
        let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = notes.renewals.iter().filter(|(at, _)| *at >= began);
        counted.map(|(_, took_ms)| *took_ms).collect()
    };
    let rate = renewals.len() as f64 / began.elapsed().as_secs_f64();
    let p99 = quantile(&mut renewals, 0.99);
    let against =
        format!("{rate:.0} renewals a second, p50 {:.1} ms", quantile(&mut renewals, 0.5));
    row(&name("renewal, p99"), p99, "ms", Some(50.0), &against);
    row(&name("processors of the coordinator"), share, "", None, "beside the played agents");
    Ok(())
}

/// A part of the machines falls silent at once.
async fn losses(
    client: &mut ClientClient<Channel>,
    serve: &Serve,
    notes: &Shared,
    machines: &[tokio::task::JoinHandle<Result<(), Status>>],
) -> Result<(), Box<dyn Error>> {
    let silent = machines.len() * SILENT_PERCENT / 100;
    machines[..silent].iter().for_each(tokio::task::JoinHandle::abort);
    let began = Instant::now();
    let is_lost = |state: &str| state == "lost";
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let cluster = client.cluster(with_token(&serve.token, ClusterRequest {})?).await?;
        let nodes = cluster.into_inner().nodes;
        if nodes.iter().filter(|node| is_lost(&node.state)).count() >= silent {
            break;
        }
        if began.elapsed() > Duration::from_secs(90) {
            return Err("the silent machines are not lost".into());
        }
    }
    let all_s = began.elapsed().as_secs_f64();
    let name = |what: &str| format!("{silent} of {} agents fall silent: {what}", machines.len());
    row(&name("all are lost"), all_s, "s", Some(35.0), "counted as lost after 30 s");
    let mut renewals: Vec<f64> = {
        let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let late = notes.renewals.iter().filter(|(at, _)| *at >= began);
        late.map(|(_, took_ms)| *took_ms).collect()
    };
    row(&name("renewal meanwhile, p99"), quantile(&mut renewals, 0.99), "ms", Some(50.0), "");
    Ok(())
}
