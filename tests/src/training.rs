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
        self.sample_log_of(0)
    }

    /// Where the worker `rank` notes its samples.
    #[must_use]
    pub fn sample_log_of(&self, rank: usize) -> PathBuf {
        self.folder.join(if rank == 0 {
            "samples.log".into()
        } else {
            format!("samples-{rank}.log")
        })
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
        self.command_of(0)
    }

    fn command_of(&self, rank: usize) -> Vec<String> {
        let path = |path: PathBuf| path.display().to_string();
        let mut command = vec![path(program("resnet_cifar"))];
        command.extend(self.arguments.iter().cloned());
        let own = [
            ("--threads", "1".to_owned()),
            ("--checkpoint-dir", path(self.checkpoints())),
            ("--sample-log", path(self.sample_log_of(rank))),
            ("--json", path(self.results_of(rank))),
        ];
        command.extend(own.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        command
    }

    fn results_of(&self, rank: usize) -> PathBuf {
        self.folder.join(if rank == 0 {
            "results.json".into()
        } else {
            format!("results-{rank}.json")
        })
    }

    /// Starts a process of the job. What it says goes to `output.log`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self) -> Result<Process> {
        self.start_as(0, &[])
    }

    /// As [`Self::start`], with more variables.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_with(&self, variables: &[(&str, &str)]) -> Result<Process> {
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.start_as(0, &variables)
    }

    /// Starts the job as `size` workers on this machine.
    ///
    /// # Errors
    /// As [`Training::start`].
    pub fn start_workers(&self, size: usize) -> Result<Vec<Process>> {
        if size == 1 {
            return Ok(vec![self.start()?]);
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let start = |rank: usize| {
            let variables = [
                ("RANK", rank.to_string()),
                ("WORLD_SIZE", size.to_string()),
                ("MASTER_ADDR", "127.0.0.1".to_owned()),
                ("MASTER_PORT", free.to_string()),
            ];
            self.start_as(rank, &variables)
        };
        (0..size).map(start).collect()
    }

    fn start_as(&self, rank: usize, variables: &[(&str, String)]) -> Result<Process> {
        std::fs::create_dir_all(&self.folder)?;
        let log = self.folder.join("output.log");
        let output = std::fs::File::options().create(true).append(true).open(&log)?;
        let command = self.command_of(rank);
        let child = Command::new(&command[0])
            .args(&command[1..])
            .envs(variables.iter().map(|(name, value)| (name, value)))
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
        self.finish_with(1)
    }

    /// The same with `size` workers.
    ///
    /// # Errors
    /// As [`Training::finish`].
    pub fn finish_with(&self, size: usize) -> Result<Value> {
        for process in &mut self.start_workers(size)? {
            let status = process.wait()?;
            ensure!(status.success(), "{status}; it said:\n{}", process.output());
        }
        self.results()
    }

    /// What a finished job has left.
    ///
    /// # Errors
    /// It has not finished.
    pub fn results(&self) -> Result<Value> {
        let file = self.results_of(0);
        let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
        Ok(serde_json::from_slice(&text)?)
    }
}

impl Training {
    /// Runs the job to its end as so many processes with torchrun's variables, and reads rank 0's
    /// results.
    ///
    /// # Errors
    /// One of them fails.
    pub fn finish_by_hand(&self, workers: usize) -> Result<Value> {
        std::fs::create_dir_all(&self.folder)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port().to_string();
        drop(listener);
        let command = self.command();
        let result = |rank: usize| self.folder.join(format!("{rank}.json"));
        let ranks: Vec<Child> = (0..workers)
            .map(|rank| {
                let mut process = Command::new(&command[0]);
                // The last argument is where the results go; rank 0's have the digest.
                process.args(&command[1..command.len() - 1]).arg(result(rank));
                process.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
                process.env("WORLD_SIZE", workers.to_string()).env("MASTER_ADDR", "127.0.0.1");
                process.env("MASTER_PORT", &port).stdin(Stdio::null()).stdout(Stdio::null());
                process.stderr(Stdio::null()).spawn()
            })
            .collect::<std::io::Result<_>>()?;
        for mut rank in ranks {
            let status = rank.wait()?;
            ensure!(status.success(), "a worker by hand: {status}");
        }
        Ok(serde_json::from_slice(&std::fs::read(result(0))?)?)
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
