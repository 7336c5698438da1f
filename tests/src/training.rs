//! Runs the example's training program, and kills it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::programs::program;

/// Longest time that one process may take; a process that hangs must not hang the tests.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A job of `resnet_cifar`: its arguments, and the folder for everything that it writes.
#[derive(Debug, Clone)]
pub struct Training {
    folder: PathBuf,
    arguments: Vec<String>,
}

impl Training {
    /// A job that writes into `folder`. `arguments` are separated by spaces.
    #[must_use]
    pub fn new(folder: &Path, arguments: &str) -> Self {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Self { folder: folder.to_owned(), arguments }
    }

    /// Where the job notes its samples.
    #[must_use]
    pub fn sample_log(&self) -> PathBuf {
        self.folder.join("samples.log")
    }

    /// Where the job keeps its checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    /// The job's command line, for a shell-less start by anybody. One thread, so that runs beside
    /// each other do not starve, and sums do not depend on the machine.
    #[must_use]
    pub fn command(&self) -> Vec<String> {
        let path = |path: PathBuf| path.display().to_string();
        let mut command = vec![path(program("resnet_cifar"))];
        command.extend(self.arguments.iter().cloned());
        let own = [
            ("--threads", "1".to_owned()),
            ("--checkpoint-dir", path(self.checkpoints())),
            ("--sample-log", path(self.sample_log())),
            ("--json", path(self.folder.join("results.json"))),
        ];
        command.extend(own.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        command
    }

    /// Starts a process of the job. What it says goes to `output.log`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self) -> Result<Process> {
        self.start_with(&[])
    }

    /// As [`Self::start`], with more variables.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_with(&self, variables: &[(&str, &str)]) -> Result<Process> {
        std::fs::create_dir_all(&self.folder)?;
        let log = self.folder.join("output.log");
        let output = std::fs::File::options().create(true).append(true).open(&log)?;
        let command = self.command();
        let child = Command::new(&command[0])
            .args(&command[1..])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| command[0].clone())?;
        Ok(Process { child, log })
    }

    /// Runs the job to its end without interruption, and reads its results.
    ///
    /// # Errors
    /// It fails; the message holds what it printed.
    pub fn finish(&self) -> Result<Value> {
        let mut process = self.start()?;
        let status = process.wait()?;
        ensure!(status.success(), "{status}; it said:\n{}", process.output());
        let file = self.folder.join("results.json");
        let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Waits for its end.
    ///
    /// # Errors
    /// It takes longer than [`PATIENCE`].
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < give_up_at, "it does not end; it said:\n{}", self.output());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// kill -9. Nothing happens to a process that has ended.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: i32) -> Result<()> {
        // SAFETY: kill(2) takes plain numbers; the child is not waited for, so its id is its own.
        let result = unsafe { libc::kill(self.child.id() as i32, signal) };
        ensure!(result == 0, "signal {signal}: {}", std::io::Error::last_os_error());
        Ok(())
    }

    /// What all processes of the job have printed.
    #[must_use]
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failed test leaves no process behind; an ended one cannot be killed, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes of the newest checkpoint's file `name`.
///
/// # Errors
/// There is no checkpoint, or no such file.
pub fn newest_checkpoint_file(checkpoints: &Path, name: &str) -> Result<Vec<u8>> {
    let mut folders = Vec::new();
    for entry in
        std::fs::read_dir(checkpoints).with_context(|| checkpoints.display().to_string())?
    {
        let path = entry?.path();
        let folder = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if folder.starts_with("ckpt-") && !folder.ends_with(".corrupt") {
            folders.push(path);
        }
    }
    folders.sort();
    let newest = folders.last().with_context(|| format!("no checkpoint in {checkpoints:?}"))?;
    let file = newest.join(name);
    std::fs::read(&file).with_context(|| file.display().to_string())
}
