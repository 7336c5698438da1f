//! A zombie (P2): a whole machine stands still (SIGSTOP of agent, runner and training) past its
//! lease, its job is started elsewhere, and then it wakes up. What it still sends is refused.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use shockwave::service::record::Record;
use shockwave::store::LogReader;

use super::job;
use super::{Run, Scenario, Tally, log};
use crate::coordinator::Coordinator;
use crate::programs::program;
use crate::samples;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "zombie",
    what: "P2: a machine stands still past its lease, its job runs elsewhere, it wakes: refused",
    counts: "zombies",
    runs: 3,
    ci_runs: 1,
    prepare,
};

const EPOCHS: u64 = 120;

/// An agent; it ends with this value.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn agent(coordinator: &Coordinator, folder: &Path, name: &str) -> Result<Agent> {
    let log = std::fs::File::create(folder.join(format!("{name}.log")))?;
    let child = Command::new(program("shockwave"))
        .args(["agent", "--devices", "cpu:1", "--node", name, "--address", "127.0.0.1"])
        .args(["--coordinator", coordinator.url()])
        .arg("--folder")
        .arg(folder.join(name))
        .arg("--jobs")
        .arg(coordinator.state().join("jobs"))
        .env("SHOCKWAVE_TOKEN", coordinator.token()?)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    Ok(Agent(child))
}

fn prepare(_runs: u64) -> Result<Run> {
    Ok(Box::new(|_seed, tally| {
        let folder = tempfile::tempdir()?;
        let training = job::training(&folder.path().join("job"), EPOCHS);
        std::fs::create_dir_all(training.checkpoints())?;
        let serve = "--devices none --round-s 6 --ttl-s 6 --grace-s 3";
        let coordinator = Coordinator::start(&folder.path().join("serve"), serve)?;
        let one = agent(&coordinator, folder.path(), "one")?;
        let id = coordinator.submit("undead", &training.command())?;
        job::train_on(&training, 20, &coordinator)?;
        let old = job::processes(&training);
        let runner =
            job::with_argument(&folder.path().join("one").display().to_string(), "shockwave");
        let mut machine = vec![one.0.id().cast_signed()];
        machine.extend(runner);
        machine.extend(&old);
        job::signal(&machine, libc::SIGSTOP);
        let stopped = StandsStill(machine);
        let _two = agent(&coordinator, folder.path(), "two")?;
        let runs = || job::processes(&training).iter().any(|pid| !old.contains(pid));
        job::until(Duration::from_secs(240), "its job runs elsewhere", runs)?;
        job::train_on(&training, 5, &coordinator)?;
        let before = log_length(&coordinator)?;
        drop(stopped);
        let ends = || old.iter().all(|pid| !job::is_alive(*pid));
        job::until(Duration::from_secs(60), "the zombie ends", ends)?;
        tally.checked += 1;
        check_refused(&coordinator, before, tally)?;
        let job = coordinator.ended(id, Duration::from_secs(300))?;
        let said = || format!("{job}\n{}", coordinator.logs(id));
        ensure!(job["state"] == "finished", "{}", said());
        check_bytes(&folder.path().join("alone"), &job, &said())
    }))
}

/// Processes that go on when this value goes.
struct StandsStill(Vec<i32>);

impl Drop for StandsStill {
    fn drop(&mut self) {
        job::signal(&self.0, libc::SIGCONT);
    }
}

fn log_length(coordinator: &Coordinator) -> Result<u64> {
    Ok(LogReader::open(&coordinator.state().join("shockwave.db"))?.last_number()?)
}

/// After the new lease nothing of the old one is in the log.
fn check_refused(coordinator: &Coordinator, after: u64, tally: &mut Tally) -> Result<()> {
    let reader = LogReader::open(&coordinator.state().join("shockwave.db"))?;
    for stored in log::all(&reader)?.into_iter().filter(|stored| stored.number > after) {
        let stale = match Record::decode(stored.number, &stored.body)? {
            Record::Reported { lease_epoch, .. } | Record::Renewed { lease_epoch, .. } => {
                lease_epoch == 1
            }
            _ => false,
        };
        tally.double += u64::from(stale);
        ensure!(!stale, "record {} is of the old lease: {}", stored.number, stored.body);
    }
    Ok(())
}

/// The job has ended as one that was never disturbed.
fn check_bytes(alone: &Path, job: &Value, said: &str) -> Result<()> {
    let alone = job::training(alone, EPOCHS);
    let expected = alone.finish()?;
    ensure!(
        job["checkpoint_sha256"] == expected["checkpoint_sha256"],
        "it ends with other bytes than an undisturbed run: {said}"
    );
    samples::check_once_each(&alone.sample_log(), EPOCHS, 256)
}
