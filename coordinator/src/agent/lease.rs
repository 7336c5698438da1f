//! One lease on this machine: reserved, running under its runner, ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shockwave_proto::env;
use shockwave_proto::v1::{Assignment, LeaseRef, StopOrder, WorkerState, WorkerStatus};

use super::AgentConfig;
use crate::files::{FileLock, make_folder, read_json, write_json};
use crate::runner::process::{self, monotonic_ms};
use crate::runner::spec::{Exit, LeaseFolder, Order, Running, Stop, VERSION};

/// Job and epoch: names a lease on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// Number of the job.
    pub job_id: u64,
    /// Epoch of the lease.
    pub lease_epoch: u64,
}

impl From<LeaseRef> for LeaseKey {
    fn from(lease: LeaseRef) -> Self {
        Self { job_id: lease.job_id, lease_epoch: lease.lease_epoch }
    }
}

/// Where a lease stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// Devices are kept; nothing runs.
    Reserved,
    /// Its runner lives.
    Running,
    /// Nothing of it is left.
    Ended(Exit),
}

/// One lease on this machine.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) key: LeaseKey,
    pub(super) nonce: String,
    pub(super) devices: Vec<u32>,
    pub(super) phase: Phase,
    /// Port for the gang's rendezvous, where its first process runs here.
    pub(super) master_port: u32,
    folder: LeaseFolder,
    stop: Option<Stop>,
    /// What comes into force unless the lease is renewed.
    lapse: Option<Stop>,
    /// End of the lease as the last exchange has it, milliseconds on the monotonic clock.
    ends_mono_ms: u64,
    since: Instant,
}

/// How long a runner may take from its start to its first sign of life.
const START_WAIT: Duration = Duration::from_secs(10);

/// How long after its deadline a runner may take to report, before the agent does its work.
const RUNNER_LATE_MS: u64 = 3_000;

impl Lease {
    pub(super) fn reserve(agent: &Path, assignment: &Assignment) -> Self {
        let key = LeaseKey::from(assignment.lease.unwrap_or_default());
        Self {
            key,
            nonce: assignment.nonce.clone(),
            devices: assignment.devices.clone(),
            phase: Phase::Reserved,
            master_port: 0,
            folder: LeaseFolder::new(agent, key.job_id, key.lease_epoch),
            stop: None,
            lapse: None,
            ends_mono_ms: 0,
            since: Instant::now(),
        }
    }

    /// Finds a lease that an earlier agent has left; `None` for a folder that is none.
    pub(super) fn adopt(path: PathBuf) -> Option<Self> {
        let folder = LeaseFolder::at(path);
        let order: Order = read_json(&folder.order()).ok()??;
        let running: Option<Running> = read_json(&folder.running()).ok()?;
        let age_ms = running.map_or(0, |it| monotonic_ms().saturating_sub(it.started_mono_ms));
        let now = Instant::now();
        Some(Self {
            key: LeaseKey { job_id: order.job_id, lease_epoch: order.lease_epoch },
            nonce: order.nonce,
            devices: order.devices,
            phase: Phase::Running,
            master_port: 0,
            stop: read_json(&folder.stop()).ok()?,
            lapse: read_json(&folder.lapse()).ok()?,
            ends_mono_ms: 0,
            since: now.checked_sub(Duration::from_millis(age_ms)).unwrap_or(now),
            folder,
        })
    }

    /// Writes the order down and starts the runner.
    pub(super) fn start(
        &mut self,
        order: &Order,
        config: &AgentConfig,
    ) -> Option<tokio::process::Child> {
        match self.try_start(order, config) {
            Ok(child) => {
                self.phase = Phase::Running;
                self.since = Instant::now();
                Some(child)
            }
            Err(message) => {
                self.refuse(message);
                None
            }
        }
    }

    /// Ends a lease of which nothing was started.
    pub(super) fn refuse(&mut self, message: String) {
        let exit = Exit { version: VERSION, refused: true, message, ..Exit::default() };
        self.phase = Phase::Ended(exit);
    }

    fn try_start(
        &self,
        order: &Order,
        config: &AgentConfig,
    ) -> Result<tokio::process::Child, String> {
        make_folder(self.folder.path()).map_err(|error| error.to_string())?;
        write_json(&self.folder.order(), order).map_err(|error| error.to_string())?;
        let errors = self.folder.path().join("runner.err");
        let errors = fs::File::create(&errors).map_err(|error| error.to_string())?;
        let mut command = tokio::process::Command::new(&config.program);
        command
            .arg("runner")
            .arg(self.folder.path())
            .env_remove(env::TOKEN)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(errors);
        if config.is_pilot {
            // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
            unsafe { command.pre_exec(process::die_with_parent) };
        }
        let name = |error| format!("cannot start {}: {error}", config.program.display());
        command.spawn().map_err(name)
    }

    /// Whether the runner still lives. Once it does not, the lease has ended, however it did.
    ///
    /// A runner that was just started has not taken its lock yet: unless it is known to be `gone`,
    /// it is given [`START_WAIT`] to show up.
    pub(super) fn check(&mut self, gone: bool) -> bool {
        if self.phase != Phase::Running {
            return false;
        }
        let seen = self.folder.running().exists() || self.folder.exit().exists();
        if !gone && !seen && self.since.elapsed() < START_WAIT {
            return true;
        }
        let Ok(Some(_lock)) = FileLock::try_take(&self.folder.lock()) else { return true };
        self.phase = Phase::Ended(self.how_it_ended());
        false
    }

    /// Only to be called while the runner's lock is held here: a late runner then finds the verdict.
    fn how_it_ended(&self) -> Exit {
        if let Ok(Some(exit)) = read_json::<Exit>(&self.folder.exit()) {
            return exit;
        }
        let started = self.folder.running().exists();
        let message = if started {
            self.sweep();
            "its runner was killed; how training ended is unknown".to_owned()
        } else {
            let said = fs::read_to_string(self.folder.path().join("runner.err"));
            let said = said.unwrap_or_default();
            format!("its runner did not start: {}", said.trim().replace('\n', "; "))
        };
        let exit = Exit { version: VERSION, refused: !started, message, ..Exit::default() };
        if let Err(error) = write_json(&self.folder.exit(), &exit) {
            tracing::error!(%error, "the end of a lease could not be written down");
        }
        exit
    }

    /// Kills whatever carries the lease's nonce in its environment.
    fn sweep(&self) {
        for pid in process::with_environment(env::NONCE, &self.nonce) {
            let _ = process::signal(pid, libc::SIGKILL);
        }
    }

    /// Takes a stop order. One that was given can only come earlier.
    pub(super) fn stop(&mut self, order: StopOrder) {
        if self.phase == Phase::Reserved {
            // The order came before the start: without an end of its own it would be kept for good.
            self.phase = Phase::Ended(Exit {
                version: VERSION,
                exit_code: Some(shockwave_proto::exit::YIELDED),
                message: "it was to end before it had been started".to_owned(),
                ..Exit::default()
            });
        }
        if self.phase != Phase::Running {
            return;
        }
        let now = monotonic_ms();
        let wanted = Stop {
            term_mono_ms: now + order.term_in_ms.min(order.kill_in_ms),
            kill_mono_ms: now + order.kill_in_ms,
        };
        // The same order comes again with every exchange, a little shifted by the way it took.
        let moved = self.stop.is_none_or(|known| {
            wanted.kill_mono_ms + 200 < known.kill_mono_ms
                || wanted.term_mono_ms + 200 < known.term_mono_ms
        });
        if !moved {
            return;
        }
        if let Err(error) = write_json(&self.folder.stop(), &wanted) {
            // Without the file the runner knows nothing: the agent keeps the deadline itself.
            tracing::error!(%error, "a stop order could not be written down");
        }
        self.stop = Some(wanted);
        self.wake_runner();
    }

    /// Takes what an exchange says of the lease's time: `sent_mono_ms` is when it was begun.
    pub(super) fn keep(&mut self, assignment: &Assignment, sent_mono_ms: u64) {
        let end = sent_mono_ms.saturating_add(assignment.ttl_ms);
        self.ends_mono_ms = self.ends_mono_ms.max(end);
        if !assignment.kept_by_agent {
            if self.lapse.take().is_some() {
                let _ = fs::remove_file(self.folder.lapse());
            }
            return;
        }
        let wanted = Stop {
            term_mono_ms: end.saturating_add(assignment.grace_ms / 2),
            kill_mono_ms: end.saturating_add(assignment.grace_ms),
        };
        // Written before the first start, and then only where it makes a difference.
        let step = assignment.ttl_ms / 20;
        let moved = self.lapse.is_none_or(|known| wanted.term_mono_ms > known.term_mono_ms + step);
        if !moved {
            return;
        }
        let written = make_folder(self.folder.path())
            .and_then(|()| write_json(&self.folder.lapse(), &wanted));
        match written {
            Ok(()) => self.lapse = Some(wanted),
            Err(error) => tracing::warn!(%error, "the end of a lease could not be written down"),
        }
    }

    /// Time left of the lease, milliseconds.
    pub(super) fn left_ms(&self) -> u64 {
        self.ends_mono_ms.saturating_sub(monotonic_ms())
    }

    /// Time from one exchange to the next that keeps the lease, milliseconds; none where others do.
    pub(super) fn exchange_within_ms(&self) -> Option<u64> {
        let is_up = matches!(self.phase, Phase::Running | Phase::Reserved);
        let lapse = self.lapse.filter(|_| is_up && self.stop.is_none())?;
        Some((lapse.term_mono_ms.saturating_sub(monotonic_ms()) / 4).max(100))
    }

    fn wake_runner(&self) {
        let running: Option<Running> = read_json(&self.folder.running()).ok().flatten();
        if let Some(it) = running
            && process::is_alive(it.runner_pid, it.runner_start_ticks)
        {
            let _ = process::signal(it.runner_pid, libc::SIGHUP);
        }
    }

    /// Does the runner's work when it is late: the deadline holds even if the runner hangs.
    pub(super) fn enforce(&mut self) {
        let (Phase::Running, Some(stop)) = (&self.phase, self.stop.or(self.lapse)) else { return };
        if monotonic_ms() < stop.kill_mono_ms + RUNNER_LATE_MS {
            return;
        }
        self.sweep();
        let running: Option<Running> = read_json(&self.folder.running()).ok().flatten();
        if let Some(it) = running
            && process::is_alive(it.runner_pid, it.runner_start_ticks)
        {
            let _ = process::signal(it.runner_pid, libc::SIGKILL);
        }
    }

    /// Removes its folder; only for a lease of which nothing runs.
    pub(super) fn forget(&self) {
        if let Err(error) = fs::remove_dir_all(self.folder.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, folder = %self.folder.path().display(), "cannot remove");
        }
    }

    pub(super) fn status(&self) -> WorkerStatus {
        let mut status = WorkerStatus {
            lease: Some(LeaseRef { job_id: self.key.job_id, lease_epoch: self.key.lease_epoch }),
            nonce: self.nonce.clone(),
            master_port: self.master_port,
            ..WorkerStatus::default()
        };
        let state = match &self.phase {
            Phase::Reserved => WorkerState::Reserved,
            Phase::Running => {
                let age_ms = self.since.elapsed().as_millis();
                status.running_ms = u64::try_from(age_ms).unwrap_or(u64::MAX).max(1);
                WorkerState::Running
            }
            Phase::Ended(exit) => {
                status.exit_code = exit.exit_code;
                status.signal = exit.signal;
                status.message.clone_from(&exit.message);
                match exit {
                    Exit { detached: true, .. } => WorkerState::Detached,
                    Exit { refused: true, .. } => WorkerState::Refused,
                    Exit { exit_code: None, signal: None, .. } => WorkerState::Lost,
                    _ => WorkerState::Exited,
                }
            }
        };
        status.set_state(state);
        status
    }
}
