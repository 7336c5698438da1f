//! What an agent and a runner leave for each other in a lease's folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Version of the files in a lease's folder.
pub const VERSION: u32 = 1;

/// `order.json`: what to run. Written durably by the agent before it starts the runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// [`VERSION`].
    pub version: u32,
    /// Number of the job.
    pub job_id: u64,
    /// Epoch of the lease.
    pub lease_epoch: u64,
    /// Names the lease's processes.
    pub nonce: String,
    /// Devices on this machine, by index.
    pub devices: Vec<u32>,
    /// Whether the devices are GPUs: then `CUDA_VISIBLE_DEVICES` is set.
    pub gpus: bool,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables added to the runner's own environment.
    pub env: BTreeMap<String, String>,
    /// Folder to start in.
    pub working_dir: PathBuf,
    /// Processes on this machine.
    pub workers: u32,
    /// Rank of the first of them.
    pub first_rank: u32,
    /// Where the output goes.
    pub log: PathBuf,
    /// Most bytes of log kept.
    pub log_bytes_max: u64,
    /// Time between SIGTERM and SIGKILL where no stop order sets another, milliseconds.
    pub grace_ms: u64,
    /// The program, where it was started by hand: number and start (clock ticks since boot).
    #[serde(default)]
    pub attached: Option<(i32, u64)>,
}

/// `running.json`: what runs. Written by the runner once every process has been started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// [`VERSION`].
    pub version: u32,
    /// As in the order.
    pub nonce: String,
    /// The runner.
    pub runner_pid: i32,
    /// Start of the runner in clock ticks since boot (field 22 of /proc/PID/stat): tells it from a
    /// later process with the same number.
    pub runner_start_ticks: u64,
    /// The processes by rank; the first leads their process group.
    pub pids: Vec<i32>,
    /// Start, milliseconds on the machine's monotonic clock.
    pub started_mono_ms: u64,
}

/// `stop.json`: an order to end, written by the agent (which then sends SIGHUP). Moments are on the
/// machine's monotonic clock, so that the order outlives the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// When SIGTERM goes to the group, milliseconds on the monotonic clock.
    pub term_mono_ms: u64,
    /// When SIGKILL goes to the group, milliseconds on the monotonic clock.
    pub kill_mono_ms: u64,
}

/// `exit.json`: how it ended. Written by the runner as its last act, when no process is left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// [`VERSION`].
    pub version: u32,
    /// Exit code: of the first process that failed, else of the first one.
    pub exit_code: Option<i32>,
    /// Signal that ended that process.
    pub signal: Option<i32>,
    /// Whether nothing was started at all.
    pub refused: bool,
    /// What there is to say about it.
    pub message: String,
    /// Whether a program that was started by hand is gone, or did not take its lease.
    #[serde(default)]
    pub detached: bool,
}

/// The files of one lease's folder.
#[derive(Clone, Debug)]
pub struct LeaseFolder(PathBuf);

impl LeaseFolder {
    /// The folder of a lease under an agent's folder.
    #[must_use]
    pub fn new(agent: &Path, job_id: u64, lease_epoch: u64) -> Self {
        Self(agent.join(format!("{job_id}-{lease_epoch}")))
    }

    /// A folder whose path is known.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The lock that the runner holds while it lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Where the [`Order`] lies.
    #[must_use]
    pub fn order(&self) -> PathBuf {
        self.0.join("order.json")
    }

    /// Where [`Running`] lies.
    #[must_use]
    pub fn running(&self) -> PathBuf {
        self.0.join("running.json")
    }

    /// Where [`Stop`] lies.
    #[must_use]
    pub fn stop(&self) -> PathBuf {
        self.0.join("stop.json")
    }

    /// Where the [`Stop`] lies that comes into force unless the lease is renewed. Only for a lease
    /// that its agent keeps; the agent moves it with every exchange.
    #[must_use]
    pub fn lapse(&self) -> PathBuf {
        self.0.join("lapse.json")
    }

    /// Where [`Exit`] lies.
    #[must_use]
    pub fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }
}
