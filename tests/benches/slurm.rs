//! Where the time goes from a lease to its first step, and from one job to the next on the same
//! device: with pilots, and with a Slurm job for every lease.
//!
//! A real Slurm on this machine; needs the built programs (`cargo build --workspace --bins
//! --examples`). Prints one JSON object per result row. `--runs N` (default 7).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::slurm::{Slurm, missing};
use shockwave_tests::torture::job;
use shockwave_tests::training::Training;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often processes and files are looked at.
const LOOK: Duration = Duration::from_millis(2);

fn main() -> Result<()> {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        println!("{}", serde_json::json!({ "name": "skipped", "value": what, "unit": "" }));
        return Ok(());
    }
    let runs = runs();
    let by_hand = start_by_hand(runs)?;
    let pilots = "idle_s = 600\ngres = 'gpu:4'\noptions = ['--exclusive']";
    let each = "mode = 'job'\noptions = ['--exclusive']";
    for (mode, pool) in [("pilots", pilots), ("a Slurm job each", each)] {
        let site = Site::start(pool)?;
        site.lease_to_step(mode, runs, by_hand)?;
        site.hand_over(mode, runs, by_hand)?;
    }
    Ok(())
}

fn runs() -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--runs").skip(1);
    arguments.next().and_then(|text| text.parse().ok()).unwrap_or(7)
}

fn row(name: &str, mut values_s: Vec<f64>, goal_ms: Option<f64>, against: &str) {
    values_s.sort_by(f64::total_cmp);
    let value = values_s.get(values_s.len() / 2).map_or(f64::NAN, |value| value * 1e3);
    let most = values_s.last().map_or(f64::NAN, |value| value * 1e3);
    let against = format!("most {most:.0} ms of {}; {against}", values_s.len());
    let row = serde_json::json!({
        "name": name, "value": value, "unit": "ms", "goal": goal_ms,
        "holds": goal_ms.map(|goal| value <= goal), "against": against.trim_end_matches("; "),
    });
    println!("{row}");
}

/// Long enough that it never ends by itself.
fn training(folder: &Path) -> Result<Training> {
    let training = job::training(folder, 100_000);
    std::fs::create_dir_all(training.checkpoints())?;
    Ok(training)
}

/// Seconds since 1970.
fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<f64> {
    let give_up_at = Instant::now() + PATIENCE;
    while !is_so() {
        ensure!(Instant::now() < give_up_at, "never: {what}");
        std::thread::sleep(LOOK);
    }
    Ok(now_unix_s())
}

/// When the job has trained a batch more than it had.
fn steps(training: &Training) -> usize {
    job::lines(training, "batch ")
}

/// From the start of the process to its first step, without anybody between; the median, seconds.
fn start_by_hand(runs: usize) -> Result<f64> {
    let mut times_s = Vec::new();
    for _ in 0..runs {
        let folder = tempfile::tempdir()?;
        let training = training(folder.path())?;
        let began = now_unix_s();
        let mut process = training.start()?;
        times_s.push(until("a step by hand", || steps(&training) > 0)? - began);
        process.kill()?;
    }
    times_s.sort_by(f64::total_cmp);
    let median = times_s[times_s.len() / 2];
    row("process by hand to its first step", times_s, None, "");
    Ok(median)
}

/// One coordinator on one Slurm.
struct Site {
    coordinator: Coordinator,
    _slurm: Slurm,
    folder: tempfile::TempDir,
}

impl Site {
    fn start(pool: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let slurm = Slurm::start(&folder.path().join("slurm"), 2, 4)?.context("no Slurm")?;
        let config = folder.path().join("serve.toml");
        let text = format!(
            "devices = 'none'\nround_s = 8\nttl_s = 40\nlead_s = 1\nplan_budget_s = 1\n\
             min_run_s = 1\ngrace_s = 20\npolicy = 'gandiva-fair'\njobs = '{}'\n[[slurm]]\n\
             name = 'low'\npartition = 'low'\nnodes_max = 1\nwarning_s = 12\ndevices = 'cpu:1'\n\
             devices_per_node = 1\n{pool}\n",
            folder.path().join("jobs").display()
        );
        std::fs::write(&config, text)?;
        let conf = slurm.configuration().display().to_string();
        let coordinator = Coordinator::start_with(
            &folder.path().join("serve"),
            &format!("--config {}", config.display()),
            &[("SLURM_CONF", &conf)],
        )?;
        Ok(Self { coordinator, _slurm: slurm, folder })
    }

    /// Records of a job: kind and time.
    fn records(&self, id: u64) -> Result<Vec<(String, f64)>> {
        let output = self.coordinator.command(&["events", "--job", &id.to_string()])?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut records = Vec::new();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line)?;
            let event = &record["event"];
            let kind = event.as_object().and_then(|it| it.keys().next().cloned());
            records.push((kind.unwrap_or_default(), record["at_unix_s"].as_f64().unwrap_or(0.0)));
        }
        Ok(records)
    }

    /// When a job's first record of a kind at or after a time was taken.
    fn first(&self, id: u64, kind: &str, after_s: f64) -> Result<f64> {
        let records = self.records(id)?;
        let found = records.iter().find(|(it, at_s)| it == kind && *at_s >= after_s);
        found.map(|it| it.1).with_context(|| format!("no {kind} after {after_s} in {records:?}"))
    }

    fn cancel(&self, id: u64, training: &Training) -> Result<()> {
        self.coordinator.command(&["cancel", &id.to_string()])?;
        until("it is gone", || job::processes(training).is_empty())?;
        self.coordinator.ended(id, PATIENCE)?;
        Ok(())
    }

    /// A folder of Slurm jobs whose log has appeared after a time: Slurm has started the script.
    fn started_after(&self, after_s: f64) -> Option<f64> {
        let entries = std::fs::read_dir(self.folder.path().join("jobs/.slurm")).ok()?;
        let logs = entries.flatten().map(|entry| -> PathBuf { entry.path().join("log") });
        let times = logs.filter_map(|log| {
            let made = std::fs::metadata(log).ok()?.created().ok()?;
            made.duration_since(SystemTime::UNIX_EPOCH).ok().map(|time| time.as_secs_f64())
        });
        times.filter(|at_s| *at_s > after_s).min_by(f64::total_cmp)
    }

    /// A job on a free device.
    fn lease_to_step(&self, mode: &str, runs: usize, by_hand_s: f64) -> Result<()> {
        let mut parts: [Vec<f64>; 5] = Default::default();
        // The first brings the node where it is to stay.
        for run in 0..=runs {
            let training = training(&self.folder.path().join(format!("start{run}")))?;
            let id = self.coordinator.submit("start", &training.command())?;
            let stepped_s = until("its first step", || steps(&training) > 0)
                .map_err(|error| error.context(self.coordinator.output()))?;
            let granted_s = self.first(id, "submitted", 0.0)?;
            let running_s = self.first(id, "running", 0.0)?;
            let declared_s = self.first(id, "declared", 0.0)?;
            let started_s = self.started_after(granted_s);
            self.cancel(id, &training)?;
            if run == 0 {
                continue;
            }
            if let Some(started_s) = started_s {
                parts[0].push(started_s - granted_s);
                parts[1].push(running_s - started_s);
            } else {
                parts[1].push(running_s - granted_s);
            }
            parts[2].push(declared_s - running_s);
            parts[3].push(stepped_s - declared_s);
            parts[4].push(stepped_s - granted_s);
        }
        let [queue, agent, process, step, whole] = parts;
        if !queue.is_empty() {
            row(&format!("{mode}: lease granted to Slurm's start of the job"), queue, None, "");
        }
        row(&format!("{mode}: to its process there, as the log has it"), agent, None, "");
        row(&format!("{mode}: process there to its declaration"), process, None, "");
        row(&format!("{mode}: declaration to its first step"), step, None, "");
        let against = format!("process by hand to first step {:.0} ms", by_hand_s * 1e3);
        row(&format!("{mode}: lease granted to first step, whole"), whole, None, &against);
        Ok(())
    }

    /// Two jobs take turns on one device.
    fn hand_over(&self, mode: &str, runs: usize, by_hand_s: f64) -> Result<()> {
        let mut jobs = Vec::new();
        for name in ["one", "two"] {
            let training = training(&self.folder.path().join(name))?;
            jobs.push((self.coordinator.submit(name, &training.command())?, training));
        }
        let mut parts: [Vec<f64>; 2] = Default::default();
        until("one of them runs", || jobs.iter().any(|it| !job::processes(&it.1).is_empty()))?;
        for _ in 0..runs {
            let from = usize::from(job::processes(&jobs[0].1).is_empty());
            let (old, new) = (&jobs[from].1, &jobs[1 - from].1);
            let before = steps(new);
            let gone_s = until("its turn ends", || job::processes(old).is_empty())
                .map_err(|error| error.context(self.coordinator.output()))?;
            let there_s = until("the next is there", || !job::processes(new).is_empty())
                .map_err(|error| error.context(self.coordinator.output()))?;
            let stepped_s = until("the next trains", || steps(new) > before)?;
            parts[0].push(there_s - gone_s);
            parts[1].push(stepped_s - there_s);
        }
        for (id, training) in &jobs {
            self.cancel(*id, training)?;
        }
        let [between, start] = parts;
        let goal = (mode == "pilots").then_some(1000.0);
        let what = format!("{mode}: hand-over, old process gone to new process there");
        row(&what, between, goal, "all that is neither checkpoint nor process start");
        let against = format!("process by hand {:.0} ms; resumes a checkpoint", by_hand_s * 1e3);
        let what = format!("{mode}: hand-over, new process there to its first step");
        row(&what, start, None, &against);
        Ok(())
    }
}
