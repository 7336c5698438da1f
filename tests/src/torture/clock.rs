//! Jumps of the time of day (P4): nothing is ended early, whatever the clock shows when the
//! coordinator comes back; a time that cannot be is refused with a report.
//!
//! Machines' clocks cannot be set from here: the store's own beginning is moved the other way, which
//! is the same to a coordinator.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::job::{self, count};
use super::{Run, Scenario, Tally};
use crate::coordinator::Coordinator;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "clock-jumps",
    what: "P4: the time of day jumps by seconds to years while the coordinator is away",
    counts: "jumps",
    runs: 30,
    ci_runs: 2,
    prepare,
};

fn prepare(_runs: u64) -> Result<Run> {
    Ok(Box::new(|seed, tally| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let folder = tempfile::tempdir()?;
        let pid_file = folder.path().join("pid");
        let serve = "--devices cpu:1 --round-s 6 --ttl-s 20 --grace-s 5";
        let mut coordinator = Coordinator::start(&folder.path().join("serve"), serve)?;
        let script =
            format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", pid_file.display());
        let id = coordinator.submit("steady", &["sh".into(), "-c".into(), script])?;
        let read = || std::fs::read_to_string(&pid_file).ok()?.trim().parse::<i32>().ok();
        job::until(Duration::from_secs(60), "it starts", || read().is_some())?;
        let pid = read().context("a process number")?;
        for _ in 0..2 {
            let seconds = 10_f64.powf(random.random_range(0.0..8.5));
            let by_s = if random.random_bool(0.5) { seconds } else { -seconds };
            coordinator.kill()?;
            move_beginning(&coordinator, |made_s| (made_s - by_s).max(1.0))?;
            coordinator.start_again().with_context(|| format!("a jump by {by_s} s"))?;
            std::thread::sleep(Duration::from_millis(1500));
            let job = coordinator.job(id)?;
            ensure!(job::is_alive(pid), "ended by a jump of {by_s} s: {job}");
            ensure!(job["state"] == "running", "after {by_s} s: {job}");
            tally.double += u64::from(count(&job, "leases") != 1);
            ensure!(count(&job, "leases") == 1, "started again after {by_s} s: {job}");
            tally.checked += 1;
        }
        impossible(&mut coordinator, tally)?;
        job::signal(&[pid], libc::SIGKILL);
        Ok(())
    }))
}

/// Moves the moment at which the store was made; gives what it was.
fn move_beginning(coordinator: &Coordinator, to: impl Fn(f64) -> f64) -> Result<f64> {
    let database = rusqlite::Connection::open(coordinator.state().join("shockwave.db"))?;
    let made_s: f64 = database.query_row("SELECT made_unix_s FROM store", [], |row| row.get(0))?;
    database.execute("UPDATE store SET made_unix_s = ?1", [to(made_s)])?;
    Ok(made_s)
}

/// A store that was made at no time is refused, and opens again once that is mended.
fn impossible(coordinator: &mut Coordinator, tally: &mut Tally) -> Result<()> {
    coordinator.kill()?;
    let made_s = move_beginning(coordinator, |_| -1e300)?;
    let refusal = coordinator.start_again().err().context("a store made at -1e300 s is taken")?;
    let said = format!("{refusal:#}");
    ensure!(said.contains("which is no time") && !said.contains("panicked"), "{said}");
    move_beginning(coordinator, |_| made_s)?;
    tally.checked += 1;
    coordinator.start_again()
}
