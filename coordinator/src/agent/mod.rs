//! The agent of one machine: the only thing that starts training processes.
//!
//! It brings the machine from its observed state to the wanted one, over and over, and believes no
//! single message: a lost or repeated exchange changes nothing. It owns no training process itself
//! (each lease has a [`runner`](crate::runner)), so it can be killed and started again while
//! training goes on.
//!
//! Architecture invariant: the agent decides nothing about who runs. It refuses only what would put
//! two leases on one device.

mod lease;
pub mod link;
pub mod mark;
mod pilot;
pub mod remote;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shockwave_proto::v1::{Assignment, Device, JoinRequest, SyncRequest, WorkerStatus};
use shockwave_proto::{PROTOCOL_VERSION, env};
use tokio::sync::{mpsc, watch};
use tonic::Code;

use crate::files::make_folder;
use crate::runner::process::monotonic_ms;
use crate::runner::spec::{Order, VERSION};
pub use lease::LeaseKey;
use lease::{Lease, Phase};
use link::Link;
pub use pilot::Left;

/// What an agent is told at its start.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Name of the machine, unique in the cluster.
    pub node: String,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Where it keeps the leases' folders.
    pub leases_dir: PathBuf,
    /// Where each job has a folder with its log, its unacknowledged events and its checkpoints.
    pub jobs_dir: PathBuf,
    /// The program that has the command `runner`: this one.
    pub program: PathBuf,
    /// Host at which other machines reach this one.
    pub address: String,
    /// Authority that signed the coordinator's certificate: training checks it with this.
    pub authority: Option<PathBuf>,
    /// When this machine is taken away.
    pub until: Option<Instant>,
    /// Whether training is to end with the agent: where a batch system gives the machine to others
    /// then.
    pub is_pilot: bool,
}

/// How long a Sync may be held open.
const SYNC_WAIT: Duration = Duration::from_secs(10);
/// How often running deadlines and adopted runners are looked at.
const TICK: Duration = Duration::from_millis(100);
/// Waiting time after a failed exchange: from .. to ..
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How long a word of farewell may take.
const LEAVE: Duration = Duration::from_secs(2);

/// The agent of one machine.
pub struct Agent<L> {
    config: AgentConfig,
    link: Arc<L>,
    instance: String,
    leases: BTreeMap<LeaseKey, Lease>,
    /// Assignments as last wanted; a lease that waits for a device starts from here.
    wanted: BTreeMap<LeaseKey, Assignment>,
    generation: u64,
    /// Number of the newest join that was answered.
    join_number: u64,
    exits: (mpsc::Sender<LeaseKey>, mpsc::Receiver<LeaseKey>),
    /// Nothing new starts here.
    leaving: bool,
    /// The coordinator wants the machine to be given back.
    told_to_leave: bool,
}

impl<L: Link> Agent<L> {
    /// An agent that has looked for what an earlier one left running.
    ///
    /// # Errors
    /// When its folder cannot be made or read.
    pub fn new(config: AgentConfig, link: Arc<L>) -> Result<Self, crate::files::FileError> {
        make_folder(&config.leases_dir)?;
        let entries = std::fs::read_dir(&config.leases_dir);
        let entries = crate::files::at("list", &config.leases_dir, entries)?;
        let found = entries.flatten().filter_map(|entry| Lease::adopt(entry.path()));
        let mut leases: BTreeMap<_, _> = found.map(|lease| (lease.key, lease)).collect();
        for lease in leases.values_mut() {
            lease.check(false);
        }
        Ok(Self {
            config,
            link,
            instance: crate::secrets::random_hex(16),
            leases,
            wanted: BTreeMap::new(),
            generation: 0,
            join_number: 0,
            exits: mpsc::channel(64),
            leaving: false,
            told_to_leave: false,
        })
    }

    /// Works until `stop` is set. Training that runs then goes on running.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        self.work(&mut stop).await;
    }

    /// Works until `stop` is set or the coordinator wants the machine to be given back.
    async fn work(&mut self, stop: &mut watch::Receiver<bool>) {
        let mut pause = BACKOFF.0;
        let (mut joined, mut is_in) = (false, false);
        let mut told = String::new();
        while !*stop.borrow() && !self.told_to_leave {
            let step = async {
                if joined { self.exchange().await } else { self.join().await.map(|()| true) }
            };
            let result = tokio::select! {
                result = step => result,
                _ = stop.changed() => return self.leave().await,
            };
            match result {
                Ok(now_joined) => {
                    // The exchange after a join is what enters the machine.
                    let was_in = std::mem::replace(&mut is_in, joined && now_joined);
                    if is_in && !was_in {
                        let (node, devices) = (&self.config.node, self.config.devices.len());
                        tracing::info!(node, devices, "the machine has joined the coordinator");
                    }
                    (joined, pause) = (now_joined, BACKOFF.0);
                    told.clear();
                }
                Err(error) => {
                    self.tell_trouble(&error, &mut told);
                    self.look_after();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BACKOFF.1);
                }
            }
        }
    }

    /// Says what is wrong, once: the same trouble comes again with every attempt.
    fn tell_trouble(&self, error: &tonic::Status, told: &mut String) {
        if error.message() != told {
            error.message().clone_into(told);
            let node = &self.config.node;
            tracing::warn!(node, "the coordinator cannot be asked: {}", error.message());
        }
    }

    async fn join(&mut self) -> Result<(), tonic::Status> {
        let request = JoinRequest {
            protocol_version: PROTOCOL_VERSION,
            node: self.config.node.clone(),
            instance: self.instance.clone(),
            devices: self.config.devices.clone(),
            workers: self.statuses(),
            walltime_left_s: self
                .config
                .until
                .map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64()),
            address: self.config.address.clone(),
            jobs_folder: self.config.jobs_dir.display().to_string(),
            jobs_mark: mark::read(&self.config.jobs_dir),
            machine: crate::devices::machine(),
        };
        self.join_number = self.link.join(request).await?.join_number;
        Ok(())
    }

    /// Says that nobody will speak for the machine for a while. Whoever does not hear it notices
    /// the silence. A pilot goes on speaking until it has given the machine back.
    async fn leave(&self) {
        if self.config.is_pilot {
            return;
        }
        let request = SyncRequest {
            node: self.config.node.clone(),
            instance: self.instance.clone(),
            workers: self.statuses(),
            leaves: true,
            join_number: self.join_number,
            ..SyncRequest::default()
        };
        let _ = tokio::time::timeout(LEAVE, self.link.sync(request)).await;
    }

    /// One exchange, broken off as soon as something here has changed. Says whether the coordinator
    /// still knows this agent.
    async fn exchange(&mut self) -> Result<bool, tonic::Status> {
        let sent_mono_ms = monotonic_ms();
        let wait_ms = self.leases.values().filter_map(Lease::exchange_within_ms).min();
        let longest_ms = SYNC_WAIT.as_millis() as u64;
        let request = SyncRequest {
            node: self.config.node.clone(),
            instance: self.instance.clone(),
            workers: self.statuses(),
            generation: self.generation,
            wait_ms: wait_ms.map_or(longest_ms, |wait_ms| wait_ms.min(longest_ms)),
            leaving: self.leaving,
            join_number: self.join_number,
            ..SyncRequest::default()
        };
        let link = Arc::clone(&self.link);
        let exchange = link.sync(request);
        tokio::pin!(exchange);
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                reply = &mut exchange => return match reply {
                    Ok(reply) => {
                        self.generation = reply.generation;
                        self.told_to_leave |= reply.leave && self.config.is_pilot;
                        self.reconcile(reply.assignments, sent_mono_ms);
                        Ok(true)
                    }
                    Err(status) if status.code() == Code::NotFound => Ok(false),
                    Err(status) => Err(status),
                },
                Some(key) = self.exits.1.recv() => {
                    if self.leases.get_mut(&key).is_some_and(|lease| !lease.check(true)) {
                        self.start_waiting();
                        return Ok(true);
                    }
                }
                _ = tick.tick() => if self.look_after() { return Ok(true) },
            }
        }
    }

    /// Keeps deadlines and notices the end of runners that are not our children. Says whether a
    /// lease has ended.
    fn look_after(&mut self) -> bool {
        let mut ended = false;
        for lease in self.leases.values_mut().filter(|lease| lease.phase == Phase::Running) {
            ended |= !lease.check(false);
            lease.enforce();
        }
        if ended {
            self.start_waiting();
        }
        ended
    }

    fn statuses(&self) -> Vec<WorkerStatus> {
        self.leases.values().map(Lease::status).collect()
    }

    /// Brings the machine to the wanted state.
    fn reconcile(&mut self, assignments: Vec<Assignment>, sent_mono_ms: u64) {
        self.wanted =
            assignments.into_iter().map(|it| (it.lease.unwrap_or_default().into(), it)).collect();
        self.drop_unwanted();
        for (key, assignment) in &self.wanted {
            let lease = self
                .leases
                .entry(*key)
                .or_insert_with(|| reserve(&self.config.leases_dir, assignment));
            lease.keep(assignment, sent_mono_ms);
            if let Some(order) = assignment.stop {
                lease.stop(order);
            }
        }
        self.start_waiting();
    }

    fn drop_unwanted(&mut self) {
        let now = shockwave_proto::v1::StopOrder { term_in_ms: 0, kill_in_ms: 0 };
        let wanted = &self.wanted;
        self.leases.retain(|key, lease| {
            let is_wanted = wanted.get(key).is_some_and(|it| it.nonce == lease.nonce);
            if is_wanted {
                return true;
            }
            if lease.phase == Phase::Running {
                lease.stop(now);
                return true;
            }
            lease.forget();
            false
        });
    }

    /// Starts what may start: told to go, not told to stop, and every device free.
    fn start_waiting(&mut self) {
        if self.leaving {
            return self.refuse_waiting();
        }
        for (key, assignment) in &self.wanted {
            if !assignment.go || assignment.stop.is_some() {
                continue;
            }
            let busy = self.leases.iter().any(|(other, lease)| {
                other != key
                    && lease.phase == Phase::Running
                    && lease.devices.iter().any(|device| assignment.devices.contains(device))
            });
            let Some(lease) = self.leases.get_mut(key) else { continue };
            if busy || lease.phase != Phase::Reserved || lease.nonce != assignment.nonce {
                continue;
            }
            let own = (lease.master_port, lease.left_ms());
            let order = match order_of(&self.config, assignment, own) {
                Ok(order) => order,
                Err(message) => {
                    tracing::error!(job = key.job_id, %message, "cannot prepare a lease");
                    lease.refuse(message);
                    continue;
                }
            };
            if let Some(mut child) = lease.start(&order, &self.config) {
                let (exits, key) = (self.exits.0.clone(), *key);
                tokio::spawn(async move {
                    let _ = child.wait().await;
                    let _ = exits.send(key).await;
                });
            }
        }
    }
}

/// The order for a lease's runner; makes the job's folders.
fn order_of(
    config: &AgentConfig,
    assignment: &Assignment,
    (own_port, left_ms): (u32, u64),
) -> Result<Order, String> {
    let lease = assignment.lease.unwrap_or_default();
    let job_dir = config.jobs_dir.join(lease.job_id.to_string());
    let spool_dir = job_dir.join("spool");
    let checkpoint_dir = match assignment.checkpoint_dir.as_str() {
        "" => job_dir.join("checkpoints"),
        shared => PathBuf::from(shared),
    };
    for folder in [&spool_dir, &checkpoint_dir] {
        make_folder(folder).map_err(|error| error.to_string())?;
    }
    let mut variables = assignment.env.clone();
    let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
    set(env::SPOOL_DIR, spool_dir.display().to_string());
    set(env::CHECKPOINT_DIR, checkpoint_dir.display().to_string());
    if let Some(authority) = &config.authority {
        set(env::CA_FILE, authority.display().to_string());
    }
    // Counted from its grant, not from this start: the coordinator's reckoning is no later.
    set(env::LEASE_TTL_MS, left_ms.max(1).to_string());
    set(env::NONCE, assignment.nonce.clone());
    set(env::WORLD_SIZE, assignment.world_size.max(1).to_string());
    set(env::GROUP_RANK, assignment.group_rank.to_string());
    set(env::MASTER_ADDR, assignment.master_addr.clone());
    let port = if assignment.master_port == 0 { own_port } else { assignment.master_port };
    set(env::MASTER_PORT, port.to_string());
    Ok(Order {
        version: VERSION,
        job_id: lease.job_id,
        lease_epoch: lease.lease_epoch,
        nonce: assignment.nonce.clone(),
        devices: assignment.devices.clone(),
        gpus: config.devices.iter().any(|device| device.kind == "gpu"),
        command: assignment.command.clone(),
        env: variables,
        working_dir: PathBuf::from(&assignment.working_dir),
        workers: assignment.workers,
        first_rank: assignment.first_rank,
        log: job_dir.join("log"),
        log_bytes_max: assignment.log_bytes_max,
        grace_ms: assignment.grace_ms,
        attached: assignment.attached.as_ref().map(|program| (program.pid, program.start_ticks)),
    })
}

/// Keeps devices for a lease, and a port where the gang's first process is to run here.
fn reserve(leases_dir: &std::path::Path, assignment: &Assignment) -> Lease {
    let mut lease = Lease::reserve(leases_dir, assignment);
    if assignment.world_size > 1 && assignment.group_rank == 0 {
        match free_port() {
            Ok(port) => lease.master_port = port,
            Err(error) => lease.refuse(format!("no port is free for its rendezvous: {error}")),
        }
    }
    lease
}

/// A port that is free on this machine now.
fn free_port() -> std::io::Result<u32> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    Ok(listener.local_addr()?.port().into())
}
