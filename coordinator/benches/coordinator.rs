//! The coordinator's own work: durable events, the boundary of a round, a start on a long log, ten
//! thousand connected jobs, a device that changes hands.
//!
//! Prints one JSON object per result row; everything else goes to stderr. `--events N`: length of
//! the log that is started on (default 1,000,000). `--jobs N` (10,000) that are connected for
//! `--seconds N` (150: a round and a quarter). `--turns-s N` (90): time in which two jobs take turns.
//! `--only NAME,..`: some of events, boundary, agents, restart, connected, handover.

mod cluster;
mod connected;
mod handover;
mod served;

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use shockwave::service::apply::{Stamp, State};
use shockwave::service::record::Record;
use shockwave::service::recover::{SNAPSHOT_VERSION, recover};
use shockwave::service::settings::Configuration;
use shockwave::store::{NewRecord, Store, StoreError, Writer};
use shockwave_core::engine::{Demand, Event, Planning, Submission, Terms};
use shockwave_core::types::{Adaptation, DeviceInfo, JobId, JobSpec, NodeId, NodeInfo};

/// Each figure is the median of so many runs.
const RUNS: usize = 5;
/// Records since the last snapshot that a start has to replay, at most (`serve::snapshots`).
const SINCE_SNAPSHOT: u64 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let number =
        |name, default| text_option(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let only = text_option("--only");
    let wanted =
        |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|wanted| wanted == name));
    if wanted("events") {
        durable_events()?;
    }
    if wanted("boundary") {
        boundary()?;
    }
    if wanted("agents") {
        cluster::measure()?;
    }
    if wanted("restart") {
        restart(number("--events", 1_000_000))?;
    }
    if wanted("connected") {
        connected_jobs(number("--jobs", 10_000), number("--seconds", 150))?;
    }
    if wanted("handover") {
        hand_over_device(Duration::from_secs(number("--turns-s", 90)))?;
    }
    Ok(())
}

fn text_option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn row(name: &str, value: f64, unit: &str, goal: Option<(f64, bool)>, against: &str) {
    let row = serde_json::json!({
        "name": name, "value": value, "unit": unit, "goal": goal.map(|it| it.0),
        "holds": goal.map(|it| it.1), "against": against,
    });
    println!("{row}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// An event as a worker reports it: some hundred bytes.
fn record(number: u64) -> NewRecord {
    let body = format!(
        "{{\"fact\":{number},\"epoch\":{},\"batch\":256,\"loss\":0.7311,\"duration_s\":12.25,\
         \"grad_norm\":1.0437,\"metrics\":{{\"test_accuracy\":0.8125}}}}",
        number / 30
    );
    let job_id = number % 900 + 1;
    NewRecord { number, now_s: number as f64, unix_s: 1e9 + number as f64, job_id, body }
}

fn hand_over(writer: &Writer, record: impl Fn() -> NewRecord) -> Result<(), StoreError> {
    loop {
        match writer.append(record()) {
            Err(StoreError::Busy) => std::thread::sleep(Duration::from_micros(200)),
            result => return result,
        }
    }
}

fn wait_for(writer: &Writer, number: u64) {
    let state = writer.state();
    while state.borrow().durable < number {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Events from many jobs at once, against SQLite with one commit an event on the same disk.
fn durable_events() -> Result<(), Box<dyn Error>> {
    const EVENTS: u64 = 20_000;
    const SINGLE: u64 = 300;
    let mut grouped = Vec::new();
    let mut single = Vec::new();
    for _ in 0..RUNS {
        let folder = tempfile::tempdir()?;
        let (_store, writer) = Store::open(folder.path())?;
        let start = Instant::now();
        for number in 1..=EVENTS {
            hand_over(&writer, || record(number))?;
        }
        wait_for(&writer, EVENTS);
        grouped.push(EVENTS as f64 / start.elapsed().as_secs_f64());
        single.push(SINGLE as f64 / one_by_one(folder.path(), SINGLE)?);
    }
    let (grouped, single) = (median(grouped), median(single));
    let against = format!("{single:.0} a second with one commit an event");
    row("durable events", grouped, "1/s", Some((5000.0, grouped >= 5000.0)), &against);
    Ok(())
}

fn one_by_one(folder: &Path, events: u64) -> Result<f64, rusqlite::Error> {
    let database = rusqlite::Connection::open(folder.join("single.db"))?;
    database.pragma_update(None, "journal_mode", "wal")?;
    database.pragma_update(None, "synchronous", "full")?;
    database.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, body TEXT NOT NULL)", [])?;
    let start = Instant::now();
    for number in 1..=events {
        let body = record(number).body;
        database.execute("INSERT INTO log VALUES (?1, ?2)", (number.cast_signed(), body))?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn submission(id: u64, random: &mut impl Rng) -> Submission {
    let gpus = [1, 1, 1, 1, 1, 1, 2, 2, 4][random.random_range(0..9)];
    Submission {
        spec: JobSpec {
            id: JobId(id),
            gpus,
            weight: 1.0,
            arrival_s: 0.0,
            epochs_total: random.random_range(20..200),
            samples_per_epoch: 50_000,
            initial_batch: 32,
            adaptation: Adaptation::Gns { initial: 32, max: 512 },
            family: ["resnet", "transformer", "recommender"][id as usize % 3].into(),
        },
        user: format!("user{}", id % 10),
        demand: Demand::default(),
        terms: Terms::default(),
        after: Vec::new(),
        held: false,
    }
}

/// From the moment at which a round is planned to all its directives, 900 jobs on 256 devices; the
/// plan is made within, as if nothing ran beside.
fn boundary() -> Result<(), Box<dyn Error>> {
    let mut configuration = Configuration::default();
    configuration.engine.planning = Planning::Inline;
    let mut engine = configuration.engine()?;
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    for node in 0..32 {
        let device = |slot| DeviceInfo { slot, kind: "gpu".into(), memory_bytes: 0 };
        let node = NodeInfo {
            node: NodeId(format!("node{node}")),
            devices: (0..8).map(device).collect(),
            until_s: None,
        };
        engine.handle(Event::NodeJoined { node, keeps: Vec::new() }, 0.0);
    }
    for id in 1..=900 {
        let submission = Box::new(submission(id, &mut random));
        engine.handle(Event::JobSubmitted(submission), 1.0);
    }
    let mut times_ms = Vec::new();
    for _ in 0..2 * RUNS {
        let running: Vec<_> = engine.leases().map(|it| (it.job, it.lease_epoch)).collect();
        let mut now_s = engine.boundary_s() - 60.0;
        for (job, lease_epoch) in running {
            let renewed = Event::LeaseRenewed { job, lease_epoch, epochs_done: None };
            engine.handle(renewed, now_s);
            now_s += 1e-6;
        }
        let boundary_s = engine.boundary_s();
        let start = Instant::now();
        engine.handle(Event::Tick, boundary_s);
        times_ms.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let value = median(times_ms);
    row("boundary, 900 jobs, 256 devices", value, "ms", Some((250.0, value <= 250.0)), "");
    Ok(())
}

/// Takes a record in; milliseconds that it took.
fn put(state: &mut State, record: &Record, now_s: f64) -> f64 {
    let stamp = Stamp { number: state.book.number + 1, now_s, unix_s: 1e9 };
    let start = Instant::now();
    state.apply(stamp, record);
    start.elapsed().as_secs_f64() * 1000.0
}

/// A start on a log of so many events, with the newest snapshot as old as it can be.
fn restart(events: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fill(folder.path(), events)?;
    let mut times_s = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let (store, writer) = Store::open(folder.path())?;
        let reader = store.reader()?;
        let state = recover(&store.info, &reader, &Configuration::default(), &store.info.secret)?;
        times_s.push(start.elapsed().as_secs_f64());
        assert_eq!(state.book.number, events, "the whole log");
        drop((store, writer));
    }
    let value = median(times_s);
    row(&format!("start on {events} events"), value, "s", Some((2.0, value <= 2.0)), "");
    Ok(())
}

/// A log as a coordinator with 900 jobs writes it: their submissions, then renewals.
fn fill(folder: &Path, events: u64) -> Result<(), Box<dyn Error>> {
    let (store, writer) = Store::open(folder)?;
    let configuration = Configuration::default();
    let mut state = State::empty(&configuration, &store.info.secret)?;
    let started =
        Record::Started { configuration: Box::new(configuration), program: "bench".into() };
    let mut put = |number: u64, record: &Record| -> Result<(), Box<dyn Error>> {
        let stamp = Stamp { number, now_s: number as f64 * 0.01, unix_s: 1e9 };
        let body = record.encode()?;
        let new = || NewRecord {
            number,
            now_s: stamp.now_s,
            unix_s: stamp.unix_s,
            job_id: record.job_id(),
            body: body.clone(),
        };
        hand_over(&writer, new)?;
        state.apply(stamp, record);
        if number == events.saturating_sub(SINCE_SNAPSHOT).max(901) {
            while writer.snapshot(state.save()?, SNAPSHOT_VERSION).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    };
    put(1, &started)?;
    for job in 1..=900 {
        let request = shockwave_proto::v1::JobRequest {
            name: format!("job {job}"),
            command: vec!["train".into()],
            working_dir: "/".into(),
            gpus: 1,
            workers: 1,
            weight: 1.0,
            ..Default::default()
        };
        let record = Record::Submitted {
            job,
            user: "ada".into(),
            key: String::new(),
            request: Box::new(request),
        };
        put(job + 1, &record)?;
    }
    for number in 902..=events {
        let renewed = Record::Renewed { job: number % 900 + 1, lease_epoch: 1, position: None };
        put(number, &renewed)?;
    }
    wait_for(&writer, events);
    Ok(())
}

/// Jobs that are connected at once, each renewing and reporting; the coordinator has one core.
fn connected_jobs(jobs: u64, seconds: u64) -> Result<(), Box<dyn Error>> {
    let it = connected::measure(jobs, seconds)?;
    let times = &it.renewals_ms;
    let (Some(longest), Some(middle)) = (times.last(), times.get(times.len() / 2)) else {
        return Err("nothing was renewed".into());
    };
    let p99 = times[times.len() * 99 / 100];
    let against = format!(
        "{} renewals and {} reports in {:.0} s; median {middle:.1} ms, longest {longest:.0} ms; \
         {:.0} % of the core",
        times.len(),
        it.reports,
        it.seconds,
        100.0 * it.core_share
    );
    let name = format!("{jobs} jobs connected at once on one core: p99 of a renewal");
    row(&name, p99, "ms", Some((50.0, p99 <= 50.0)), &against);
    let memory = it.memory_per_job_kib;
    let name = format!("{jobs} jobs connected at once: memory of the coordinator for each");
    row(&name, memory, "KiB", Some((100.0, memory <= 100.0)), "a connection and a stream each");
    Ok(())
}

/// Round of the paper, seconds.
const ROUND_S: f64 = 120.0;

/// A device that goes from one job of the SDK to another, in parts, and what the paper calls
/// overhead: checkpoint and restart as a share of a round.
fn hand_over_device(time: Duration) -> Result<(), Box<dyn Error>> {
    let Some(program) = handover::training() else {
        eprintln!("resnet_cifar is not built (cargo build --workspace --bins): rows left out");
        return Ok(());
    };
    let small = "--depth 8 --width 6 --epochs 100000 --batch 16 --train-samples 1024 \
                 --test-samples 32 --threads 1";
    let large = "--depth 18 --epochs 100000 --batch 4 --train-samples 256 --test-samples 8 \
                 --threads 1";
    for (model, options) in [("ResNet-8", small), ("ResNet-18", large)] {
        let found = handover::measure(&program, options, time)?;
        if found.is_empty() {
            return Err(format!("{model}: no device changed hands").into());
        }
        let of = |part: fn(&handover::HandOver) -> f64| median(found.iter().map(part).collect());
        let parts = format!(
            "{} hand-overs; step going on {:.3}, checkpoint {:.3}, process gone {:.3}, next \
             started {:.3}, its start to the first step {:.3} s",
            found.len(),
            of(|it| it.step_s),
            of(|it| it.checkpoint_s),
            of(|it| it.exit_s),
            of(|it| it.next_s),
            of(|it| it.start_s)
        );
        let beyond = of(handover::HandOver::beyond_s);
        let name = format!("hand-over of a device, {model}: beyond checkpoint and process start");
        row(&name, beyond, "s", Some((1.0, beyond <= 1.0)), &parts);
        let share = 100.0 * of(handover::HandOver::standstill_s) / ROUND_S;
        let name = format!("checkpoint and restart as a share of a 120 s round, {model}");
        row(&name, share, "%", Some((3.0, share <= 3.0)), "the paper's overhead");
    }
    Ok(())
}
