//! A working day of a team, time scaled: four users hand in jobs of the SDK on one machine while a
//! gang is cancelled, training crashes, the coordinator is killed, finds its disk full and is
//! upgraded. In the end every job has come to what its user was told, every sample of every
//! finished job was trained once, and the report of who got what adds up.

mod disk;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::job::{self, count};
use super::{Run, Scenario, Tally};
use crate::coordinator::Coordinator;
use crate::samples;
use crate::training::Training;
use disk::SmallDisk;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "team-day",
    what: "four users, 30 SDK jobs: a cancelled gang, crashes, a full disk, an upgrade",
    counts: "jobs whose end was checked",
    runs: 1,
    ci_runs: 1,
    prepare,
};

/// The team, and each one's budget.
const TEAM: [(&str, f64); 4] = [("ada", 2.0), ("bob", 1.0), ("cy", 1.0), ("dee", 1.0)];
/// Jobs of a day, and of a short one (in tests), without those that are cancelled.
const JOBS: (usize, usize) = (30, 6);
/// Samples of a job's data.
const SAMPLES: u64 = 256;
/// Devices of the machine.
const DEVICES: u32 = 2;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(600);

fn prepare(_runs: u64) -> Result<Run> {
    Ok(Box::new(|seed, tally| {
        let jobs = if tally.is_timed { JOBS.0 } else { JOBS.1 };
        let folder = tempfile::tempdir()?;
        let mut day = Day::begin(folder.path(), seed)?;
        let result = day.work(jobs, tally);
        result.with_context(|| day.coordinator.output())
    }))
}

/// A job that was acknowledged.
pub(super) struct Handed {
    id: u64,
    user: &'static str,
    epochs: u64,
    training: Training,
}

struct Day {
    folder: PathBuf,
    random: ChaCha8Rng,
    coordinator: Coordinator,
    /// None where this account cannot have one.
    disk: Option<SmallDisk>,
    tokens: BTreeMap<&'static str, String>,
    handed: Vec<Handed>,
    began: Instant,
}

impl Day {
    fn begin(folder: &Path, seed: u64) -> Result<Self> {
        let disk = SmallDisk::mount(&folder.join("serve/state"))?;
        let arguments = format!(
            "--devices cpu:{DEVICES} --node desk --round-s 6 --ttl-s 60 --grace-s 30 --min-run-s 2 \
             --jobs {}",
            folder.join("jobs").display()
        );
        let coordinator = Coordinator::start(&folder.join("serve"), &arguments)?;
        let mut tokens = BTreeMap::new();
        for (user, weight) in TEAM {
            let made = coordinator.json(&["token", "create", user])?;
            let secret = made["token"]["secret"].as_str().context("a secret")?.to_owned();
            tokens.insert(user, secret);
            coordinator.json(&["user", user, "--weight", &weight.to_string()])?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            random: ChaCha8Rng::seed_from_u64(seed),
            coordinator,
            disk,
            tokens,
            handed: Vec::new(),
            began: Instant::now(),
        })
    }

    /// The day's incidents, with a fifth of the jobs handed in before each.
    fn work(&mut self, jobs: usize, tally: &mut Tally) -> Result<()> {
        let shares = (1..=5).map(|part| jobs * part / 5);
        let [first, second, third, fourth, all]: [usize; 5] =
            shares.collect::<Vec<_>>().try_into().unwrap_or([jobs; 5]);
        let gang = self.hand_in_gang()?;
        self.hand_in_up_to(first)?;
        self.cancel_gang(&gang)?;
        self.hand_in_up_to(second)?;
        self.crash_training()?;
        self.hand_in_up_to(third)?;
        self.crash_coordinator()?;
        self.hand_in_up_to(fourth)?;
        self.fill_disk(tally)?;
        self.hand_in_up_to(all)?;
        self.upgrade()?;
        self.see_all_end(tally)?;
        report::check(&self.coordinator, &self.handed, &gang, self.began.elapsed(), tally)
    }

    fn hand_in_up_to(&mut self, jobs: usize) -> Result<()> {
        while self.handed.len() < jobs {
            let user = TEAM[self.handed.len() % TEAM.len()].0;
            let epochs = self.random.random_range(8..24);
            let job = self.job(&format!("{user}-{}", self.handed.len()), epochs)?;
            let id = self.submit(user, &job, &[])?;
            self.handed.push(Handed { id, user, epochs, training: job });
            let pause_ms = self.random.random_range(100..1500);
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
        Ok(())
    }

    fn job(&self, name: &str, epochs: u64) -> Result<Training> {
        let training = job::training(&self.folder.join("work").join(name), epochs);
        std::fs::create_dir_all(training.checkpoints())?;
        Ok(training)
    }

    fn submit(&self, user: &str, training: &Training, more: &[&str]) -> Result<u64> {
        let command = training.command();
        // A crash is a failure of the job's, unless it may be tried again.
        let mut arguments = vec!["submit", "--retries", "5"];
        arguments.extend(more);
        arguments.push("--");
        arguments.extend(command.iter().map(String::as_str));
        let reply = self.coordinator.json_as(&self.tokens[user], &arguments)?;
        reply["job"]["id"].as_u64().with_context(|| format!("no job in {reply}"))
    }

    /// A gang of both devices, which would train all day.
    fn hand_in_gang(&self) -> Result<Handed> {
        let (user, epochs) = ("dee", 100_000);
        let training = self.job("gang", epochs)?;
        let wanted = DEVICES.to_string();
        let id = self.submit(user, &training, &["--gpus", &wanted, "--workers", &wanted])?;
        Ok(Handed { id, user, epochs, training })
    }

    /// Its user has seen enough: nothing of it is left, and others get its devices.
    fn cancel_gang(&self, gang: &Handed) -> Result<()> {
        let workers = || job::processes(&gang.training);
        job::until(PATIENCE, "the gang trains", || workers().len() == DEVICES as usize)?;
        let others = TEAM.iter().filter(|(user, _)| *user != gang.user);
        for (user, _) in others {
            let number = gang.id.to_string();
            let refused = self.coordinator.command_as(&self.tokens[user], &["cancel", &number])?;
            ensure!(!refused.status.success(), "{user} has cancelled another's gang");
        }
        let cancel = ["cancel", &gang.id.to_string()];
        self.coordinator.json_as(&self.tokens[gang.user], &cancel)?;
        job::until(PATIENCE, "the gang is gone", || workers().is_empty())?;
        let ended = self.coordinator.ended(gang.id, PATIENCE)?;
        ensure!(ended["state"] == "cancelled", "{ended}");
        Ok(())
    }

    /// kill -9 of one job's process: it is started again, and goes on.
    fn crash_training(&self) -> Result<()> {
        let victim = training_now(&self.handed)?;
        job::signal(&job::processes(&victim.training), libc::SIGKILL);
        let number = victim.id.to_string();
        let again = || {
            let job = self.coordinator.json(&["show", &number]);
            job.is_ok_and(|job| count(&job["job"], "leases") >= 2)
        };
        job::until(PATIENCE, "the crashed job has another lease", again)
    }

    /// kill -9 of the coordinator: what trains goes on under the next one.
    fn crash_coordinator(&mut self) -> Result<()> {
        let trains = training_now(&self.handed)?;
        let (before, training) = (job::processes(&trains.training), &trains.training);
        let (lines, id) = (job::lines(training, "batch "), trains.id);
        self.coordinator.kill()?;
        std::thread::sleep(Duration::from_secs(1));
        let trained_on = job::lines(training, "batch ") > lines;
        let ended = job::processes(training) != before;
        ensure!(trained_on || ended, "job {id} stands still without a coordinator");
        self.coordinator.start_again()
    }

    /// The coordinator's disk is full: nothing is acknowledged, nobody is stopped, and with room
    /// again the same request is one job.
    fn fill_disk(&mut self, tally: &mut Tally) -> Result<()> {
        let user = TEAM[self.handed.len() % TEAM.len()].0;
        let training = self.job(&format!("{user}-{}", self.handed.len()), 8)?;
        let key = ["--key", "from-a-full-disk"];
        if let Some(disk) = &self.disk {
            let filled = disk.fill()?;
            self.train_on_a_full_disk(user, &training, &key)?;
            drop(filled);
            tally.note_sum("full disks", 1.0);
        } else {
            tally.note_sum("full disks", 0.0);
        }
        let mut ids = Vec::new();
        let taken = || {
            if let Ok(id) = self.submit(user, &training, &key) {
                ids.push(id);
            }
            ids.len() == 2
        };
        job::until(PATIENCE, "jobs are taken again", taken)?;
        tally.double += u64::from(ids[0] != ids[1]);
        ensure!(ids[0] == ids[1], "one key became jobs {ids:?}");
        self.handed.push(Handed { id: ids[0], user, epochs: 8, training });
        Ok(())
    }

    fn train_on_a_full_disk(&self, user: &str, training: &Training, key: &[&str]) -> Result<()> {
        let trains = training_now(&self.handed)?;
        let (lines, before) = (job::lines(&trains.training, "batch "), Instant::now());
        let refused = self.submit(user, training, key);
        let said = refused.err().context("a job was taken on a full disk")?.to_string();
        ensure!(said.contains("nothing is accepted for now"), "{said}");
        let goes_on = || {
            let over = before.elapsed() > Duration::from_secs(5);
            over || job::lines(&trains.training, "batch ") > lines
        };
        job::until(PATIENCE, "it trains on", goes_on)?;
        let ended = job::processes(&trains.training).is_empty();
        ensure!(ended || job::lines(&trains.training, "batch ") > lines, "it has stopped");
        Ok(())
    }

    /// Stopped in good order and started again on the same store: training goes on meanwhile.
    fn upgrade(&mut self) -> Result<()> {
        let trains = training_now(&self.handed)?;
        let (before, training) = (job::processes(&trains.training), &trains.training);
        self.coordinator.stop(PATIENCE)?;
        let now = job::processes(training);
        ensure!(now == before || now.is_empty(), "{before:?} became {now:?} without an agent");
        self.coordinator.start_again()
    }

    /// Every job ends as its user wanted, and no sample is lost or trained twice.
    fn see_all_end(&self, tally: &mut Tally) -> Result<()> {
        for it in &self.handed {
            let ended = self.coordinator.ended(it.id, PATIENCE)?;
            let said = || format!("{ended}\n{}", self.coordinator.logs(it.id));
            ensure!(ended["state"] == "finished", "{}", said());
            let once = samples::check_once_each(&it.training.sample_log(), it.epochs, SAMPLES);
            tally.lost += u64::from(once.is_err());
            once.with_context(said)?;
            tally.checked += 1;
            tally.note_sum("preemptions", count(&ended, "preemptions") as f64);
        }
        Ok(())
    }
}

/// The job that trains now and has come least far.
fn training_now(handed: &[Handed]) -> Result<&Handed> {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        let trains = handed.iter().filter(|it| {
            job::lines(&it.training, "batch ") > 0 && job::processes(&it.training).len() == 1
        });
        if let Some(found) = trains.min_by_key(|it| job::lines(&it.training, "batch ")) {
            return Ok(found);
        }
        ensure!(Instant::now() < give_up_at, "never: a job trains");
        std::thread::sleep(Duration::from_millis(20));
    }
}
