//! Ten thousand connected jobs: each with a lease, a connection and a stream of directives of its
//! own, renewing and reporting as the SDK does.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use shockwave_proto::v1::agent_client::AgentClient;
use shockwave_proto::v1::client_client::ClientClient;
use shockwave_proto::v1::event::Kind;
use shockwave_proto::v1::worker_client::WorkerClient;
use shockwave_proto::v1::{self, LeaseRef};
use shockwave_proto::{AUTHORIZATION, PROTOCOL_VERSION, env};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::served::{Served, cores, pin};

type Failure = Box<dyn Error + Send + Sync>;

/// Devices of a machine.
const DEVICES: u32 = 100;
/// A third of the lease's time by default (150 s), as the SDK renews.
const RENEWAL: Duration = Duration::from_secs(50);
/// Time between two reports of a job.
const REPORT: Duration = Duration::from_secs(60);
/// Calls at once while everything is set up.
const SETTING_UP: usize = 64;

/// What was measured.
pub(crate) struct Measured {
    /// Times of all renewals, ms, ascending.
    pub(crate) renewals_ms: Vec<f64>,
    pub(crate) reports: u64,
    pub(crate) memory_per_job_kib: f64,
    /// Share of one core that the coordinator used.
    pub(crate) core_share: f64,
    pub(crate) seconds: f64,
}

fn with_token<T>(token: &str, message: T) -> Result<Request<T>, Failure> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse()?);
    Ok(request)
}

/// As the SDK connects.
fn endpoint(url: &str) -> Result<Endpoint, Failure> {
    Ok(Endpoint::from_shared(url.to_owned())?
        .connect_timeout(Duration::from_secs(30))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(60)))
}

/// Sets everything up, and measures for so many seconds.
pub(crate) fn measure(jobs: u64, seconds: u64) -> Result<Measured, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (core, others) = match cores() {
        1 => (None, vec![0]),
        count => (Some(0), (1..count).collect()),
    };
    let serve = format!(
        "--devices none --jobs-max {} --connections-max {} --connections-per-address-max {}",
        2 * jobs,
        2 * jobs + 100,
        2 * jobs + 100
    );
    let served = Arc::new(Served::start(folder.path(), &serve, core)?);
    shockwave::files::open_files_max();
    // The load comes from a thread of its own, beside the coordinator's core.
    let load = std::thread::spawn(move || -> Result<Measured, Failure> {
        pin(&others)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run(served, jobs, seconds))
    });
    let measured = load.join().map_err(|_| "the load's thread broke")?;
    measured.map_err(|error| error.to_string().into())
}

async fn run(served: Arc<Served>, jobs: u64, seconds: u64) -> Result<Measured, Failure> {
    let shared = endpoint(&served.url)?.connect().await?;
    let machines = machines(&served, &shared, jobs).await?;
    let memory = |served: &Served| served.memory_kib().map_err(|error| error.to_string());
    let before_kib = memory(&served)?;
    submit(&served, &shared, jobs).await?;
    let leases = leases(&machines, jobs).await?;
    eprintln!("{} leases are given", leases.len());
    let tally = Arc::new(Tally::default());
    let window: Arc<Window> = Arc::default();
    let connecting_since = Instant::now();
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let gate = Arc::new(Semaphore::new(SETTING_UP));
    let mut tasks = tokio::task::JoinSet::new();
    for (lease, token) in leases {
        let phase = [RENEWAL, REPORT].map(|period| period.mul_f64(random.random()));
        let url = served.url.clone();
        let connecting = Arc::clone(&gate);
        let (window, tally) = (Arc::clone(&window), Arc::clone(&tally));
        tasks.spawn(async move {
            let place = connecting.acquire_owned().await?;
            let job = Job::connect(&url, lease, token).await?;
            drop(place);
            tally.connected.fetch_add(1, Ordering::Relaxed);
            job.live(phase, &tally, &window).await
        });
    }
    while tally.connected.load(Ordering::Relaxed) < jobs {
        tokio::select! {
            Some(ended) = tasks.join_next() => ended??,
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
        }
    }
    eprintln!("{jobs} jobs are connected after {:.1} s", connecting_since.elapsed().as_secs_f64());
    // Everything that was set up has been answered; then the time that counts.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let began = Instant::now();
    let ends = began + Duration::from_secs(seconds);
    *window.lock().await = Some((began, ends));
    let busy = || served.processor_s().map_err(|error| error.to_string());
    let busy_s = busy()?;
    tokio::select! {
        Some(ended) = tasks.join_next() => ended??,
        () = tokio::time::sleep_until(ends) => {}
    }
    let busy_s = busy()? - busy_s;
    let after_kib = memory(&served)?;
    let mut renewals_ms = std::mem::take(&mut *tally.renewals_ms.lock().await);
    renewals_ms.sort_by(f64::total_cmp);
    Ok(Measured {
        renewals_ms,
        reports: tally.reports.load(Ordering::Relaxed),
        memory_per_job_kib: (after_kib - before_kib) / jobs as f64,
        core_share: busy_s / began.elapsed().as_secs_f64(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

#[derive(Default)]
struct Tally {
    connected: AtomicU64,
    reports: AtomicU64,
    renewals_ms: Mutex<Vec<f64>>,
}

/// From when to when is measured, once everything is set up.
type Window = Mutex<Option<(Instant, Instant)>>;

/// What machines run by now: the tokens of the leases' jobs.
type Leases = Arc<Mutex<BTreeMap<(u64, u64), String>>>;

/// Enters machines of [`DEVICES`] each and keeps them in.
async fn machines(served: &Served, shared: &Channel, jobs: u64) -> Result<Leases, Failure> {
    let leases = Leases::default();
    for number in 0..jobs.div_ceil(u64::from(DEVICES)) {
        let device = |index| v1::Device { index, kind: "cpu".into(), ..v1::Device::default() };
        let join = v1::JoinRequest {
            protocol_version: PROTOCOL_VERSION,
            node: format!("node{number}"),
            instance: "1".into(),
            devices: (0..DEVICES).map(device).collect(),
            address: "127.0.0.1".into(),
            ..v1::JoinRequest::default()
        };
        // A connection of its own, as an agent has: calls that are held open take places.
        let channel = match number {
            0 => shared.clone(),
            _ => endpoint(&served.url)?.connect().await?,
        };
        let agent = AgentClient::new(channel).max_decoding_message_size(64 << 20);
        let joined = agent.clone().join(with_token(&served.token, join)?).await?.into_inner();
        let join_number = joined.join_number;
        let (token, leases) = (served.token.clone(), Arc::clone(&leases));
        tokio::spawn(async move {
            if let Err(error) = exchange(agent, (number, join_number), &token, &leases).await {
                eprintln!("machine {number}: {error}");
            }
        });
    }
    Ok(leases)
}

/// A machine on which everything runs as soon as it is to run.
async fn exchange(
    mut agent: AgentClient<Channel>,
    (number, join_number): (u64, u64),
    token: &str,
    leases: &Leases,
) -> Result<(), Failure> {
    let (mut running, mut generation): (Vec<v1::WorkerStatus>, u64) = (Vec::new(), 0);
    // Machines come at moments of their own.
    let mut wait_ms = 100 * (number % 100);
    loop {
        let request = v1::SyncRequest {
            node: format!("node{number}"),
            instance: "1".into(),
            workers: running.clone(),
            generation,
            wait_ms,
            join_number,
            ..v1::SyncRequest::default()
        };
        let reply = agent.sync(with_token(token, request)?).await?.into_inner();
        generation = reply.generation;
        wait_ms = 10_000;
        running.clear();
        for it in reply.assignments {
            let lease = it.lease.unwrap_or_default();
            let mut status = v1::WorkerStatus {
                lease: Some(lease),
                nonce: it.nonce,
                ..v1::WorkerStatus::default()
            };
            status.set_state(v1::WorkerState::Running);
            running.push(status);
            let job_token = it.env.get(env::JOB_TOKEN).cloned().unwrap_or_default();
            leases.lock().await.insert((lease.job_id, lease.lease_epoch), job_token);
        }
    }
}

async fn submit(served: &Served, shared: &Channel, jobs: u64) -> Result<(), Failure> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..jobs {
        if tasks.len() >= SETTING_UP {
            tasks.join_next().await.ok_or("no task")???;
        }
        let mut client = ClientClient::new(shared.clone());
        let job = v1::JobRequest {
            name: format!("job {number}"),
            command: vec!["train".into()],
            working_dir: "/".into(),
            declaration: Some(declaration()),
            ..v1::JobRequest::default()
        };
        let request = v1::SubmitRequest { job: Some(job), idempotency_key: number.to_string() };
        let request = with_token(&served.token, request)?;
        tasks.spawn(async move {
            client.submit(request).await?;
            Ok::<(), Failure>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn declaration() -> v1::Declaration {
    v1::Declaration {
        epochs_total: 100_000,
        samples_per_epoch: 50_000,
        initial_batch: 32,
        family: "resnet".into(),
        policy: Some(v1::declaration::Policy::Gns(v1::Gns { initial: 32, max: 512 })),
    }
}

/// Waits until every job has its lease.
async fn leases(leases: &Leases, jobs: u64) -> Result<Vec<(LeaseRef, String)>, Failure> {
    let give_up_at = Instant::now() + Duration::from_secs(600);
    loop {
        let now = leases.lock().await;
        if now.len() as u64 >= jobs {
            let lease = |(job_id, lease_epoch)| LeaseRef { job_id, lease_epoch };
            return Ok(now.iter().map(|(key, token)| (lease(*key), token.clone())).collect());
        }
        let got = now.len();
        drop(now);
        if Instant::now() > give_up_at {
            return Err(format!("only {got} of {jobs} jobs have a lease").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A training process.
struct Job {
    client: WorkerClient<Channel>,
    lease: LeaseRef,
    token: String,
    _directives: tonic::Streaming<v1::Directive>,
}

impl Job {
    /// Connects, declares, follows and says that it has begun.
    async fn connect(url: &str, lease: LeaseRef, token: String) -> Result<Self, Failure> {
        let mut client = WorkerClient::new(endpoint(url)?.connect().await?);
        let request = v1::DeclareRequest {
            lease: Some(lease),
            protocol_version: PROTOCOL_VERSION,
            declaration: Some(declaration()),
            sdk_version: "bench".into(),
        };
        client.declare(with_token(&token, request)?).await?;
        let request = v1::FollowRequest { lease: Some(lease) };
        // Answered only once there is something to say, or at once with an open stream.
        let directives = client.follow(with_token(&token, request)?).await?.into_inner();
        let mut job = Self { client, lease, token, _directives: directives };
        let kind = Kind::Started(v1::Started { batch: 32, ..v1::Started::default() });
        job.report(1, kind).await?;
        Ok(job)
    }

    async fn report(&mut self, number: u64, kind: Kind) -> Result<(), Failure> {
        let lease_epoch = self.lease.lease_epoch;
        let event = v1::Event { number, lease_epoch, at_unix_s: 1e9, kind: Some(kind) };
        let request = v1::ReportRequest { lease: Some(self.lease), events: vec![event] };
        self.client.report(with_token(&self.token, request)?).await?;
        Ok(())
    }

    /// Renews and reports until the program ends.
    async fn live(
        mut self,
        phase: [Duration; 2],
        tally: &Tally,
        window: &Window,
    ) -> Result<(), Failure> {
        let mut number = 1_u32;
        let (mut renew_at, mut report_at) = (Instant::now() + phase[0], Instant::now() + phase[1]);
        loop {
            tokio::time::sleep_until(renew_at.min(report_at)).await;
            let is_renewal = renew_at <= report_at;
            let due = renew_at.min(report_at);
            if is_renewal {
                let position = v1::Position { epoch: number, batch: 32, ..v1::Position::default() };
                let request =
                    v1::RenewRequest { lease: Some(self.lease), position: Some(position) };
                self.client.renew(with_token(&self.token, request)?).await?;
                renew_at += RENEWAL;
            } else {
                number += 1;
                let done = v1::EpochDone {
                    epoch: number - 2,
                    batch: 32,
                    samples: 50_000,
                    duration_s: REPORT.as_secs_f64(),
                    ..v1::EpochDone::default()
                };
                self.report(u64::from(number), Kind::EpochDone(done)).await?;
                report_at += REPORT;
            }
            // From the moment at which it was due: a load that is late hides nothing.
            let took_ms = due.elapsed().as_secs_f64() * 1000.0;
            let counts = window.lock().await.is_some_and(|(from, to)| (from..to).contains(&due));
            if counts && is_renewal {
                tally.renewals_ms.lock().await.push(took_ms);
            } else if counts {
                tally.reports.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
