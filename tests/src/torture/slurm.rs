//! A real Slurm carries the agents, and is broken in turn: its controller, its nodes, its
//! partitions, its numbers. P1 to P3 hold: every job ends with each sample trained once, and never
//! runs twice at a time.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::job;
use super::{Run, Scenario, Tally};
use crate::coordinator::Coordinator;
use crate::netns::{Namespaces, forbidden};
use crate::programs::program;
use crate::samples;
use crate::slurm::{Slurm, missing};
use crate::training::Training;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "slurm",
    what: "P1 to P3: controller, node, drain, preemption, numbers, walltime, agent, freeze, cut",
    counts: "jobs that ended with each sample trained once",
    runs: 180,
    ci_runs: 0,
    prepare: |_| prepare("nodes_max = 1\nidle_s = 2\ngres = 'gpu:4'"),
};

/// The same where Slurm is asked anew for every lease.
pub const EACH_LEASE: Scenario = Scenario {
    name: "slurm-job",
    what: "as slurm, with a Slurm job for every lease",
    prepare: |_| prepare("nodes_max = 1\nmode = 'job'\noptions = ['--exclusive']"),
    ..SCENARIO
};

const NODES: usize = 3;
const EPOCHS: u64 = 40;
const SAMPLES: u64 = 256;
/// How long a job may take with everything that happens to it.
const PATIENCE: Duration = Duration::from_secs(400);

/// What is done to it; a run's seed chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// kill -9 of the controller right after a submission.
    Controller,
    /// kill -9 of a node's daemon with everything of its job.
    Node,
    /// The node is drained.
    Drain,
    /// A partition of higher priority takes the node.
    Preemption,
    /// The controller comes back with an old state: it has forgotten jobs and reuses their numbers.
    Numbers,
    /// The walltime ends.
    Walltime,
    /// kill -9 of the agent.
    Agent,
    /// Everything on the machine stands still past the lease, and goes on: as a cut that heals.
    Freeze,
    /// The node's cable is pulled past the lease, and plugged in again.
    Cut,
}

const FAULTS: [Fault; 9] = [
    Fault::Controller,
    Fault::Node,
    Fault::Drain,
    Fault::Preemption,
    Fault::Numbers,
    Fault::Walltime,
    Fault::Agent,
    Fault::Freeze,
    Fault::Cut,
];

/// How long a freeze or a cut takes: past the lease's time, its grace and the agent's silence.
const AWAY: Duration = Duration::from_secs(60);

/// One Slurm for all runs, and its folder.
struct Site {
    slurm: Slurm,
    folder: TempDir,
    /// What the pool says beside the rest.
    pool: &'static str,
}

fn prepare(pool: &'static str) -> Result<Run> {
    if let Some(what) = missing() {
        return Ok(Box::new(move |_, tally| {
            tally.note_max(&format!("skipped: {what}"), 1.0);
            Ok(())
        }));
    }
    let (mut site, mut apart): (Option<Site>, Option<Site>) = (None, None);
    Ok(Box::new(move |seed, tally| {
        if FAULTS[seed as usize % FAULTS.len()] != Fault::Cut {
            if site.is_none() {
                site = Site::start(pool, Slurm::start)?;
            }
            return site.as_mut().context("no Slurm")?.run(seed, tally);
        }
        if apart.is_none() {
            apart = Site::start(pool, Slurm::start_apart)?;
        }
        match &mut apart {
            Some(apart) => apart.run(seed, tally),
            None => {
                let why = forbidden().unwrap_or_default();
                tally.note_sum(&format!("Cut: skipped, no network namespaces: {why}"), 1.0);
                Ok(())
            }
        }
    }))
}

/// A pilot as Slurm has it.
#[derive(Clone, Debug)]
struct Pilot {
    node: usize,
    name: String,
}

impl Site {
    fn start(
        pool: &'static str,
        start: impl Fn(&Path, usize, usize) -> Result<Option<Slurm>>,
    ) -> Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let slurm = start(&folder.path().join("slurm"), NODES, 4)?;
        Ok(slurm.map(|slurm| Self { slurm, folder, pool }))
    }

    fn run(&mut self, seed: u64, tally: &mut Tally) -> Result<()> {
        let fault = FAULTS[seed as usize % FAULTS.len()];
        let folder = self.folder.path().join(format!("run{seed}"));
        let training = job::training(&folder.join("job"), EPOCHS);
        std::fs::create_dir_all(training.checkpoints())?;
        // A run that failed may have left its pilot; this one must not be taken for ours.
        self.slurm.run("scancel", &["--me"])?;
        self.slurm
            .wait_for("nothing runs", |slurm| slurm.jobs().is_ok_and(|jobs| jobs.is_empty()))?;
        let state = self.folder.path().join("slurm/state");
        let old = folder.join("old-state");
        copy_folder(&state, &old)?;
        let coordinator = self.coordinator(&folder)?;
        let id = coordinator.submit("tortured", &training.command())?;
        if fault == Fault::Controller {
            let asked = || coordinator.output().contains("Slurm is asked for a node");
            job::until(Duration::from_secs(30), "a node is asked for", asked)?;
            self.restart_controller(None)?;
        } else {
            job::train_on(&training, 20, &coordinator)?;
            self.strike(fault, &training, &old)?;
        }
        let ended = self.watch(&coordinator, id, &training, tally);
        self.mend()?;
        let ended = ended?;
        let said =
            || format!("{fault:?}: {ended}\n{}\n{}", coordinator.logs(id), coordinator.output());
        ensure!(ended["state"] == "finished", "{}", said());
        samples::check_once_each(&training.sample_log(), EPOCHS, SAMPLES).with_context(said)?;
        tally.checked += 1;
        tally.note_sum(&format!("{fault:?}: leases"), job::count(&ended, "leases") as f64);
        self.empty(&coordinator)
    }

    fn coordinator(&self, folder: &Path) -> Result<Coordinator> {
        std::fs::create_dir_all(folder)?;
        let config = folder.join("serve.toml");
        let text = format!(
            "devices = 'none'\nround_s = 6\nttl_s = 12\nlead_s = 2\nplan_budget_s = 1\n\
             min_run_s = 1\ngrace_s = 6\njobs = '{}'\n{}[[slurm]]\nname = 'low'\n\
             partition = 'low'\nwarning_s = 12\njoin_s = 60\ndevices = 'cpu:1'\n\
             devices_per_node = 1\n{}\n",
            folder.join("jobs").display(),
            self.certificates(folder)?,
            self.pool,
        );
        std::fs::write(&config, text)?;
        let slurm_conf = self.slurm.configuration().display().to_string();
        let arguments = format!("--config {}", config.display());
        let host = self.slurm.apart().map_or(Ipv4Addr::LOCALHOST, Namespaces::host);
        let listen = format!("{host}:0");
        let variables = [("SLURM_CONF", slurm_conf.as_str())];
        Coordinator::start_at(&folder.join("serve"), &listen, &arguments, &variables)
    }

    /// Settings for the certificates that a coordinator needs whom other machines reach.
    fn certificates(&self, folder: &Path) -> Result<String> {
        let Some(apart) = self.slurm.apart() else { return Ok(String::new()) };
        let at = folder.join("certs");
        let host = apart.host().to_string();
        let mut command = Command::new(program("shockwave"));
        let made = command.arg("certificate").arg(&at).args(["--host", &host]).output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let at = at.display();
        Ok(format!(
            "tls_certificate = '{at}/coordinator.pem'\ntls_key = '{at}/coordinator.key'\n\
             tls_authority = '{at}/ca.pem'\n"
        ))
    }

    /// The pilot that runs now.
    fn pilot(&self) -> Result<Pilot> {
        for [state, node, name] in self.slurm.jobs()? {
            let number = node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
            if let (true, true, Some(number)) = (state == "RUNNING", name.starts_with("sw"), number)
            {
                return Ok(Pilot { node: number - 1, name });
            }
        }
        bail!("no pilot runs: {:?}", self.slurm.jobs()?)
    }

    fn strike(&mut self, fault: Fault, training: &Training, old: &Path) -> Result<()> {
        let pilot = self.pilot()?;
        let node = format!("n{}", pilot.node + 1);
        let agent = job::with_argument(&format!(".{}", pilot.name), "shockwave");
        let mut all = job::with_argument(&pilot.name, "shockwave");
        all.extend(job::processes(training));
        match fault {
            Fault::Controller => {}
            Fault::Node => {
                self.slurm.kill_node(pilot.node)?;
                job::signal(&all, libc::SIGKILL);
                std::thread::sleep(Duration::from_secs(12));
                self.slurm.start_node(pilot.node)?;
            }
            Fault::Drain => {
                let (name, state) = (format!("nodename={node}"), "state=drain");
                self.slurm.run("scontrol", &["update", &name, state, "reason=service"])?;
                self.slurm.run("scancel", &[&format!("--name={}", pilot.name)])?;
            }
            Fault::Preemption => {
                let node = format!("--nodelist={node}");
                let wrap = ["--gres=gpu:4", "--output=/dev/null", "--wrap=sleep 20"];
                self.slurm.run("sbatch", &[&["-p", "high", &node][..], &wrap].concat())?;
            }
            Fault::Numbers => self.restart_controller(Some(old))?,
            Fault::Walltime => {
                let name = format!("jobname={}", pilot.name);
                self.slurm.run("scontrol", &["update", &name, "timelimit=1"])?;
            }
            Fault::Agent => job::signal(&agent, libc::SIGKILL),
            Fault::Freeze => {
                job::signal(&all, libc::SIGSTOP);
                std::thread::sleep(AWAY);
                job::signal(&all, libc::SIGCONT);
            }
            Fault::Cut => {
                let apart = self.slurm.apart().context("no namespaces")?;
                apart.cut(pilot.node)?;
                self.see_single(training, AWAY)?;
                apart.heal(pilot.node)?;
            }
        }
        Ok(())
    }

    /// Looks all the while whether the job runs twice: on the machine that is cut off, and elsewhere.
    fn see_single(&self, training: &Training, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let running = job::processes(training);
            ensure!(running.len() <= 1, "it runs as {running:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// kill -9 of the controller; another comes up after a while, perhaps with an old state.
    fn restart_controller(&mut self, old: Option<&Path>) -> Result<()> {
        self.slurm.kill_controller()?;
        std::thread::sleep(Duration::from_secs(2));
        if let Some(old) = old {
            let state = self.folder.path().join("slurm/state");
            std::fs::remove_dir_all(&state)?;
            copy_folder(old, &state)?;
        }
        self.slurm.start_controller()
    }

    /// Waits for the job's end, and looks all the while whether it runs twice.
    fn watch(
        &self,
        coordinator: &Coordinator,
        id: u64,
        training: &Training,
        tally: &mut Tally,
    ) -> Result<serde_json::Value> {
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            let running = job::processes(training);
            if running.len() > 1 {
                tally.double += 1;
                bail!("it runs as {running:?}\n{}", coordinator.output());
            }
            let found = coordinator.job(id)?;
            let state = found["state"].as_str().unwrap_or_default();
            if matches!(state, "finished" | "failed" | "cancelled") {
                tally.lost += u64::from(state != "finished");
                return Ok(found);
            }
            ensure!(Instant::now() < give_up_at, "{found}\n{}", coordinator.output());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Undoes what a fault may have left.
    fn mend(&self) -> Result<()> {
        self.slurm.wait_for("the controller answers", |slurm| slurm.jobs().is_ok())?;
        for node in 1..=NODES {
            // Refused where there is nothing to undo.
            let name = format!("nodename=n{node}");
            let _ = self.slurm.run("scontrol", &["update", &name, "state=resume"]);
        }
        Ok(())
    }

    /// Everything that was asked for is given back, and nothing is left that nobody wants.
    fn empty(&self, coordinator: &Coordinator) -> Result<()> {
        let ours = |slurm: &Slurm| {
            let jobs = slurm.jobs().unwrap_or_default();
            jobs.iter().filter(|job| job[2].starts_with("sw")).count()
        };
        let given_back = self.slurm.wait_for("nodes are given back", |slurm| ours(slurm) == 0);
        given_back.with_context(|| coordinator.output())
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if let Err(error) = std::fs::copy(entry.path(), &target) {
            // The controller replaces its files while it runs.
            ensure!(error.kind() == std::io::ErrorKind::NotFound, "{}", entry.path().display());
        }
    }
    Ok(())
}
