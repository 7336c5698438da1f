//! The coordinator of the demo: started, spoken to through its command line, stopped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::process;

/// A running `shockwave serve`; it ends with this value.
#[derive(Debug)]
pub(super) struct Coordinator {
    child: Child,
    url: String,
    log: PathBuf,
}

/// A job as `shockwave jobs --json` tells of it; more fields are ignored.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) state: String,
    #[serde(default)]
    pub(super) reason: String,
    pub(super) policy: Option<String>,
    pub(super) epochs: Option<u64>,
    #[serde(default)]
    pub(super) epochs_done: f64,
    pub(super) batch: Option<u64>,
    #[serde(default)]
    pub(super) regimes: Vec<Regime>,
    #[serde(default)]
    pub(super) preemptions: u64,
    pub(super) submitted_unix_s: f64,
    pub(super) ended_unix_s: Option<f64>,
    pub(super) jct_s: Option<f64>,
    pub(super) rho: Option<f64>,
    #[serde(default)]
    pub(super) metrics: BTreeMap<String, f64>,
    pub(super) checkpoint_sha256: Option<String>,
}

/// A phase of constant batch size.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
pub(super) struct Regime {
    pub(super) batch: u64,
    pub(super) epochs: f64,
    pub(super) epoch_s: Option<f64>,
}

impl Job {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "finished" | "failed" | "cancelled")
    }

    /// Share of the epochs that are done, 0..=1.
    pub(super) fn share_done(&self) -> f64 {
        if self.state == "finished" {
            return 1.0;
        }
        self.epochs.map_or(0.0, |epochs| (self.epochs_done / epochs.max(1) as f64).min(1.0))
    }

    /// What a progress bar says besides.
    pub(super) fn summary(&self) -> String {
        let batch = self.batch.map(|batch| format!(", batch {batch}")).unwrap_or_default();
        format!("{}{batch}, preempted {} times", self.state, self.preemptions)
    }
}

/// The built `shockwave` program.
fn program() -> PathBuf {
    super::target().join("debug/shockwave")
}

impl Coordinator {
    /// Starts it with its state in `folder`, on a free port.
    pub(super) fn start(folder: &Path, args: &super::Args) -> Result<Self> {
        let log = folder.join("coordinator.log");
        let mut child = Command::new(program())
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--devices", &args.devices])
            .args(["--round-s", &args.round_s.to_string(), "--policy", &args.policy])
            .args(["--window-t", &args.window_t.to_string()])
            .arg("--state")
            .arg(folder.join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("{} cannot be started", program().display()))?;
        let stdout = child.stdout.take().context("its output is not connected")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        #[derive(Deserialize)]
        struct Ready {
            coordinator: String,
        }
        match serde_json::from_str::<Ready>(&line) {
            Ok(ready) => Ok(Self { child, url: ready.coordinator, log }),
            Err(_) => {
                // It has said why on standard error, and ends by itself.
                let _ = child.wait();
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("the coordinator did not start: {}", said.trim())
            }
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// A command for this coordinator.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program());
        command.args([name, "--coordinator", &self.url]);
        command
    }

    /// Hands a job in, and gives its number.
    pub(super) fn submit(&self, name: &str, command: &[String]) -> Result<u64> {
        let mut submit = self.command("submit");
        submit.args(["--json", "--name", name, "--"]).args(command);
        #[derive(Deserialize)]
        struct Submitted {
            job: Job,
        }
        let text = process::stdout_of(&mut submit)?;
        Ok(serde_json::from_str::<Submitted>(&text).context("shockwave submit --json")?.job.id)
    }

    /// All jobs, ended ones too.
    pub(super) fn jobs(&self) -> Result<Vec<Job>> {
        #[derive(Deserialize)]
        struct Jobs {
            jobs: Vec<Job>,
        }
        let text = process::stdout_of(self.command("jobs").args(["--all", "--json"]))?;
        Ok(serde_json::from_str::<Jobs>(&text).context("shockwave jobs --json")?.jobs)
    }

    /// Draws the timeline.
    pub(super) fn draw(&self, svg: &Path) -> Result<()> {
        process::stdout_of(self.command("timeline").arg("--svg").arg(svg)).map(|_| ())
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Asked first, so that jobs of an interrupted demo are given back; killed if it does not.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        for _ in 0..100 {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
