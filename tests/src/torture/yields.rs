//! A yield is ignored (P5, P3): training that is stopped (SIGSTOP) answers nothing; it is killed at
//! the end of its grace, and goes on from its last checkpoint as if nothing had been.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::job::{self, count};
use super::{Run, Scenario};
use crate::coordinator::Coordinator;
use crate::samples;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "yield-ignored",
    what: "P5, P3: a yield is ignored: killed at grace +- 1 s, resumed from the last checkpoint",
    counts: "kills",
    runs: 10,
    ci_runs: 1,
    prepare,
};

const EPOCHS: u64 = 6;
const GRACE_S: f64 = 4.0;

fn prepare(_runs: u64) -> Result<Run> {
    Ok(Box::new(|seed, tally| {
        let folder = tempfile::tempdir()?;
        let training = job::training(&folder.path().join("job"), EPOCHS);
        std::fs::create_dir_all(training.checkpoints())?;
        let serve = format!("--devices cpu:1 --round-s 30 --ttl-s 90 --grace-s {GRACE_S}");
        let coordinator = Coordinator::start(&folder.path().join("serve"), &serve)?;
        let id = coordinator.submit("deaf", &training.command())?;
        job::train_on(&training, 10 + seed as usize % 30, &coordinator)?;
        let process = job::processes(&training);
        job::signal(&process, libc::SIGSTOP);
        let number = id.to_string();
        let asked = Instant::now();
        coordinator.json(&["hold", &number])?;
        let answered_s = asked.elapsed().as_secs_f64();
        let gone = || job::processes(&training).is_empty();
        job::until(Duration::from_secs(20), "it is killed", gone)?;
        let took_s = asked.elapsed().as_secs_f64();
        tally.checked += 1;
        tally.note_max("killed after, s", took_s);
        // Asked at some moment of the command's run.
        let is_late = tally.is_timed && took_s - answered_s > GRACE_S + 1.0;
        ensure!(
            took_s >= GRACE_S - 1.0 && !is_late,
            "killed {took_s:.2} s after the command, which took {answered_s:.2} s"
        );
        coordinator.json(&["release", &number])?;
        let job = coordinator.ended(id, Duration::from_secs(240))?;
        let said = || format!("{job}\n{}", coordinator.logs(id));
        ensure!(job["state"] == "finished" && count(&job, "leases") == 2, "{}", said());
        tally.lost += u64::from(lost_samples(&training).is_err());
        lost_samples(&training)
    }))
}

/// Every sample of every epoch counts once, in effect.
fn lost_samples(training: &crate::training::Training) -> Result<()> {
    samples::check_once_each(&training.sample_log(), EPOCHS, 256)
}
