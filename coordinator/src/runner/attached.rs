//! A program that was started by hand: it takes its lease itself, and is only watched.
//!
//! It takes the lease by executing itself with the lease's nonce in its environment, and gives it
//! back by executing itself without it. Only processes that carry the nonce are ever signalled:
//! whoever names another's process number cannot harm it.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use shockwave_proto::{env, exit};

use super::Wake;
use super::process::{self, monotonic_ms, signal};
use super::spec::{Exit, LeaseFolder, Order, Running, Stop, VERSION};
use crate::files::{read_json, write_json};

/// How long a program may take to take its lease, milliseconds.
const TAKE_MS: u64 = 20_000;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Watches one lease of a program to its end.
pub(super) fn keep(
    folder: &LeaseFolder,
    order: &Order,
    (pid, start_ticks): (i32, u64),
    wakes: &Receiver<Wake>,
) -> Exit {
    let exit = |detached: bool, message: &str| Exit {
        version: VERSION,
        exit_code: (!detached).then_some(exit::YIELDED),
        detached,
        message: message.to_owned(),
        ..Exit::default()
    };
    let own = std::process::id().cast_signed();
    let running = Running {
        version: VERSION,
        nonce: order.nonce.clone(),
        runner_pid: own,
        runner_start_ticks: process::stat(own).map_or(0, |stat| stat.start_ticks),
        pids: vec![pid],
        started_mono_ms: monotonic_ms(),
    };
    if let Err(error) = write_json(&folder.running(), &running) {
        return exit(true, &error.to_string());
    }
    let lives = || process::is_alive(pid, start_ticks);
    // One that is about to end shows no environment any more and lives still: then nobody knows.
    let carries = || process::carries(pid, env::NONCE, &order.nonce);
    let holds = || lives() && carries() == Some(true);
    let gone = || !lives() || carries() == Some(false);
    let mut watch = Watch { folder, order, pid, stop: None, term_sent: false };
    let began = monotonic_ms();
    let taken = loop {
        if holds() {
            break true;
        }
        let stopped = watch.reread().is_some();
        if !lives() || stopped || monotonic_ms() > began + TAKE_MS {
            break false;
        }
        pause(wakes);
    };
    if !taken {
        // Whoever asked for the devices meanwhile gets them: the program waits on.
        let asked = lives() && watch.stop.is_some();
        return exit(!asked, "it did not take its lease");
    }
    while !gone() {
        watch.act();
        pause(wakes);
    }
    // Helpers that it has started (loaders of data) may hold the device still.
    watch.sweep_until_gone(wakes);
    if lives() { exit(false, "") } else { exit(true, "its program is gone") }
}

fn pause(wakes: &Receiver<Wake>) {
    // A hang-up says that there may be a stop order; without its sender this is a plain pause.
    if wakes.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
        std::thread::sleep(LOOK);
    }
}

struct Watch<'a> {
    folder: &'a LeaseFolder,
    order: &'a Order,
    pid: i32,
    stop: Option<Stop>,
    term_sent: bool,
}

impl Watch<'_> {
    fn reread(&mut self) -> Option<Stop> {
        if let Ok(Some(stop)) = read_json::<Stop>(&self.folder.stop()) {
            self.stop = Some(stop);
        }
        self.stop
    }

    /// Sends what is due. Only while the program holds the lease.
    fn act(&mut self) {
        let Some(stop) = self.reread() else { return };
        let now = monotonic_ms();
        if now >= stop.kill_mono_ms {
            self.sweep();
        } else if now >= stop.term_mono_ms && !self.term_sent {
            // Not while it executes itself without the lease: that image has no handler yet.
            if process::carries(self.pid, env::NONCE, &self.order.nonce) == Some(true) {
                self.term_sent = true;
                let _ = signal(self.pid, libc::SIGTERM);
            }
        }
    }

    fn sweep(&self) -> bool {
        let left = process::with_environment(env::NONCE, &self.order.nonce);
        for pid in &left {
            let _ = signal(*pid, libc::SIGKILL);
        }
        left.is_empty()
    }

    fn sweep_until_gone(&self, wakes: &Receiver<Wake>) {
        while !self.sweep() {
            pause(wakes);
        }
    }
}
