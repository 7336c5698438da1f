//! The keeper of one lease's training processes: a small process of its own (`shockwave runner`)
//! between the agent and training.
//!
//! It outlives its agent: training goes on when the coordinator is killed, its output is still
//! captured, its exit code is still known, and a deadline that was set is still kept. Agent and
//! runner speak through files in the lease's folder ([`spec`]).
//!
//! Architecture invariant: no network, no async runtime, no decision. It starts, captures, signals
//! at the ordered moments and writes down how it ended.

mod attached;
pub mod log;
pub mod process;
pub mod spawn;
pub mod spec;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shockwave_proto::exit as code;

use crate::files::{FileLock, read_json, write_json};
use process::{descendants, monotonic_ms, signal, signal_group};
use spec::{Exit, LeaseFolder, Order, Running, Stop, VERSION};

/// What wakes the runner.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    /// A child was reaped: its number and wait status.
    Ended(i32, i32),
    /// No child is left.
    AllReaped,
    /// The stop order may have changed.
    Hangup,
}

/// Wakes that may wait: whoever finds them all waits too, and the children wait to be reaped.
const WAKES_MAX: usize = 64;

/// How often the end of the lease and its folder are looked at, milliseconds.
const LOOK_MS: u64 = 1_000;

/// How long processes that outlive the last rank may stay when no stop was ordered, milliseconds.
const LEFTOVER_MS: u64 = 5_000;

/// Runs one lease to its end.
///
/// # Errors
/// One sentence when the folder cannot be used; training's own failure is no error here.
pub fn run(folder: &Path) -> Result<(), String> {
    let folder = LeaseFolder::at(folder.to_owned());
    let text = |error: crate::files::FileError| error.to_string();
    let Some(_lock) = FileLock::try_take(&folder.lock()).map_err(text)? else {
        return Err(format!("{} has a runner already", folder.path().display()));
    };
    // The agent writes exit.json itself when it gives up on a runner that never came: too late.
    if read_json::<Exit>(&folder.exit()).map_err(text)?.is_some() {
        return Ok(());
    }
    let order: Order = read_json(&folder.order())
        .map_err(text)?
        .ok_or_else(|| format!("there is no order in {}", folder.path().display()))?;
    let wakes = prepare()?;
    if let Some(program) = order.attached {
        let exit = attached::keep(&folder, &order, program, &wakes.1);
        return write_json(&folder.exit(), &exit).map_err(text);
    }
    let exit = match keep(&folder, &order, wakes) {
        Ok(exit) => exit,
        Err(message) => Exit { refused: true, message, ..Exit::default() },
    };
    write_json(&folder.exit(), &Exit { version: VERSION, ..exit }).map_err(text)
}

/// Leaves the agent's session (so that its terminal's signals do not reach training), adopts
/// orphans, and turns signals into wakes.
fn prepare() -> Result<(SyncSender<Wake>, Receiver<Wake>), String> {
    // SAFETY: plain system calls on integers; a refusal (already a leader) changes nothing.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    }
    let signals = [libc::SIGHUP, libc::SIGTERM, libc::SIGINT];
    let mut signals = signal_hook::iterator::Signals::new(signals)
        .map_err(|error| format!("cannot catch signals: {error}"))?;
    let (sender, receiver) = sync_channel(WAKES_MAX);
    let wake = sender.clone();
    // SIGTERM and SIGINT to the runner itself are ignored: only a stop order ends training.
    std::thread::spawn(move || {
        for number in signals.forever() {
            if number == libc::SIGHUP && wake.send(Wake::Hangup).is_err() {
                return;
            }
        }
    });
    Ok((sender, receiver))
}

fn keep(
    folder: &LeaseFolder,
    order: &Order,
    (sender, receiver): (SyncSender<Wake>, Receiver<Wake>),
) -> Result<Exit, String> {
    let log = log::LogFile::open(&order.log, order.log_bytes_max)
        .map_err(|error| format!("cannot open the log {}: {error}", order.log.display()))?;
    let log = Arc::new(Mutex::new(log));
    let started = spawn::start(order, &log).inspect_err(|error| {
        // Who looks for its output finds why there is none.
        if let Ok(mut log) = log.lock() {
            log.write(format!("shockwave: {error}\n").as_bytes());
        }
    })?;
    std::thread::spawn(move || reap(&sender));
    let pid = std::process::id().cast_signed();
    let running = Running {
        version: VERSION,
        nonce: order.nonce.clone(),
        runner_pid: pid,
        runner_start_ticks: process::stat(pid).map_or(0, |stat| stat.start_ticks),
        pids: started.pids.clone(),
        started_mono_ms: monotonic_ms(),
    };
    let written = write_json(&folder.running(), &running);
    let mut watch = Watch::new(folder, order, started.pids);
    if let Err(error) = written {
        // Nobody could find these processes again: they must not stay.
        watch.message = error.to_string();
        watch.stop = Some(Stop { term_mono_ms: 0, kill_mono_ms: 0 });
    }
    watch.until_all_ended(&receiver);
    drain(started.pumps);
    Ok(watch.exit())
}

/// Reaps children, adopted ones included, until none is left.
fn reap(sender: &SyncSender<Wake>) {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a live integer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if pid > 0 {
            if sender.send(Wake::Ended(pid, status)).is_err() {
                return;
            }
        } else if std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            let _ = sender.send(Wake::AllReaped);
            return;
        }
    }
}

/// Waits for the rest of the output. Every writer is gone, so it is bounded by what is buffered.
fn drain(pumps: Vec<std::thread::JoinHandle<()>>) {
    for pump in pumps {
        let _ = pump.join();
    }
}

/// The processes and the orders about them.
struct Watch<'a> {
    folder: &'a LeaseFolder,
    order: &'a Order,
    pids: Vec<i32>,
    statuses: Vec<Option<i32>>,
    first_failed: Option<usize>,
    stop: Option<Stop>,
    /// The stop that comes into force unless the lease is renewed.
    lapse: Option<Stop>,
    has_lapsed: bool,
    is_removed: bool,
    term_sent: bool,
    message: String,
}

impl<'a> Watch<'a> {
    fn new(folder: &'a LeaseFolder, order: &'a Order, pids: Vec<i32>) -> Self {
        let statuses = vec![None; pids.len()];
        let stop = read_json(&folder.stop()).ok().flatten();
        Self {
            folder,
            order,
            pids,
            statuses,
            first_failed: None,
            stop,
            lapse: read_json(&folder.lapse()).ok().flatten(),
            has_lapsed: false,
            is_removed: false,
            term_sent: false,
            message: String::new(),
        }
    }

    fn until_all_ended(&mut self, wakes: &Receiver<Wake>) {
        loop {
            let wait = self.act();
            match wakes.recv_timeout(wait) {
                Ok(Wake::Ended(pid, status)) => self.ended(pid, status),
                Ok(Wake::Hangup) => self.reread(),
                Ok(Wake::AllReaped) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Takes the newest stop order; an order can be moved, but one that was given stays.
    fn reread(&mut self) {
        if let Ok(Some(stop)) = read_json::<Stop>(&self.folder.stop()) {
            self.stop = Some(stop);
        }
    }

    fn ended(&mut self, pid: i32, status: i32) {
        let Some(index) = self.pids.iter().position(|&known| known == pid) else { return };
        self.statuses[index] = Some(status);
        let code = libc::WEXITSTATUS(status);
        let fine = libc::WIFEXITED(status) && (code == code::FINISHED || code == code::YIELDED);
        if !fine && self.first_failed.is_none() {
            self.first_failed = Some(index);
            // A gang without one of its ranks would wait for ever in its next all-reduce.
            self.stop_within(self.order.grace_ms);
        }
        if self.statuses.iter().all(Option::is_some) && self.stop.is_none() {
            self.stop_within(LEFTOVER_MS.min(self.order.grace_ms));
        }
    }

    fn stop_within(&mut self, grace_ms: u64) {
        if self.stop.is_none() {
            let now = monotonic_ms();
            self.stop = Some(Stop { term_mono_ms: now, kill_mono_ms: now + grace_ms });
        }
    }

    /// Sends what is due and says how long to wait at most.
    fn act(&mut self) -> Duration {
        let now = monotonic_ms();
        self.notice_lapse(now);
        self.notice_removal(now);
        let Some(stop) = self.stop else {
            let next = self.lapse.map_or(u64::MAX, |lapse| lapse.term_mono_ms);
            return Duration::from_millis(next.saturating_sub(now).clamp(1, LOOK_MS));
        };
        if now >= stop.kill_mono_ms {
            self.kill();
            return Duration::from_millis(100);
        }
        if now >= stop.term_mono_ms && !self.term_sent {
            self.term_sent = true;
            self.term();
        }
        let next = if self.term_sent { stop.kill_mono_ms } else { stop.term_mono_ms };
        Duration::from_millis(next.min(stop.kill_mono_ms).saturating_sub(now).clamp(1, LOOK_MS))
    }

    /// The lease is over when the agent has not moved its end by then: the coordinator may start the
    /// job elsewhere, so nothing of it may stay here.
    fn notice_lapse(&mut self, now: u64) {
        let is_due = |lapse: &Stop| now >= lapse.term_mono_ms;
        if self.stop.is_some() {
            return;
        }
        // Written by the agent when it first hears how long the lease lasts; moved or removed later.
        self.lapse = read_json(&self.folder.lapse()).unwrap_or(self.lapse);
        if let Some(lapse) = self.lapse.filter(is_due) {
            self.has_lapsed = true;
            self.stop = Some(lapse);
        }
    }

    /// Without the lease's folder no agent finds these processes again, nor hears of their end: its
    /// devices would be taken for good, and by nobody.
    fn notice_removal(&mut self, now: u64) {
        // A folder that cannot be looked at (a server that is away) is not gone.
        let is_gone = || self.folder.path().try_exists().is_ok_and(|is_there| !is_there);
        if self.is_removed || !is_gone() {
            return;
        }
        self.is_removed = true;
        self.message = "the folder of its lease was removed".to_owned();
        // An order to end later, when a round does, has nobody any more who waits for it.
        let kill_mono_ms = self.stop.map_or(u64::MAX, |stop| stop.kill_mono_ms);
        let kill_mono_ms = kill_mono_ms.min(now + self.order.grace_ms);
        self.stop = Some(Stop { term_mono_ms: now, kill_mono_ms });
    }

    /// SIGTERM to the group, while one of ours is in it: the number of an empty group is free for
    /// others.
    fn term(&self) {
        let group = self.pids[0];
        let ours = descendants(std::process::id().cast_signed());
        if ours.iter().any(|&pid| process::stat(pid).is_some_and(|stat| stat.group == group)) {
            let _ = signal_group(group, libc::SIGTERM);
        }
    }

    /// SIGKILL to the group and to whatever left the group: all of it descends from the runner,
    /// which adopts orphans.
    fn kill(&self) {
        for pid in descendants(std::process::id().cast_signed()) {
            let _ = signal(pid, libc::SIGKILL);
        }
    }

    fn exit(&self) -> Exit {
        let status = self.statuses[self.first_failed.unwrap_or(0)].unwrap_or(0);
        let exited = libc::WIFEXITED(status);
        if self.has_lapsed && !(exited && libc::WEXITSTATUS(status) == code::FINISHED) {
            // As a job of the SDK parks itself: no fault of the program's.
            let message = "its lease was not renewed in time".to_owned();
            let exit_code = Some(code::YIELDED);
            return Exit { version: VERSION, exit_code, message, ..Exit::default() };
        }
        Exit {
            version: VERSION,
            exit_code: exited.then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            message: self.message.clone(),
            ..Exit::default()
        }
    }
}
