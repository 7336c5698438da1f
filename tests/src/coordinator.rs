//! Runs `shockwave serve`, speaks to it through the command line, and kills it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::programs::program;

/// A running coordinator with its state in a folder; it is killed with this value, and what it has
/// started with it.
#[derive(Debug)]
pub struct Coordinator {
    child: Child,
    url: String,
    web: Option<String>,
    folder: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Coordinator {
    /// Starts one on a free port. `arguments` are separated by spaces.
    ///
    /// # Errors
    /// It does not come up; the message holds what it said.
    pub fn start(folder: &Path, arguments: &str) -> Result<Self> {
        Self::start_with(folder, arguments, &[])
    }

    /// As [`Self::start`], with variables in its environment until it is started again.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> Result<Self> {
        Self::start_at(folder, "127.0.0.1:0", arguments, variables)
    }

    /// As [`Self::start_with`], on an address of the caller's.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_at(
        folder: &Path,
        listen: &str,
        arguments: &str,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let variables: Vec<(String, String)> = variables.collect();
        let (child, url, web) = serve(folder, &arguments, listen, &variables)?;
        Ok(Self { child, url, web, folder: folder.to_owned(), arguments, variables })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Folder of its state.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// The token of whoever has started it.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn token(&self) -> Result<String> {
        let file = self.state().join("coordinator.json");
        let known: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        Ok(known["token"].as_str().context("no token")?.to_owned())
    }

    /// Waits until its process has ended.
    ///
    /// # Errors
    /// It does not.
    pub fn gone(&mut self, patience: Duration) -> Result<()> {
        let give_up_at = Instant::now() + patience;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < give_up_at, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Its address, as a URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Address of its web page, where it has one.
    #[must_use]
    pub fn web(&self) -> Option<&str> {
        self.web.as_deref()
    }

    /// Asks it to end in good order, and waits until it has; what trains goes on.
    ///
    /// # Errors
    /// It does not.
    pub fn stop(&mut self, patience: Duration) -> Result<()> {
        // SAFETY: kill(2) takes plain numbers; the child is not waited for, so its id is its own.
        unsafe { libc::kill(self.pid(), libc::SIGTERM) };
        self.gone(patience)
    }

    /// kill -9 of the coordinator alone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again on the same state and at the same address.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_again(&mut self) -> Result<()> {
        let address = self.url.rsplit('/').next().unwrap_or_default().to_owned();
        // A moment to break at was for one start.
        self.variables.retain(|(name, _)| name != "SHOCKWAVE_FAIL_POINT");
        let variables = self.variables.clone();
        (self.child, self.url, self.web) =
            serve(&self.folder, &self.arguments, &address, &variables)?;
        Ok(())
    }

    /// Runs a command of the command line.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn command(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.prepared(arguments).output()?)
    }

    /// As [`Self::command`], for whoever has this token.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub fn command_as(&self, token: &str, arguments: &[&str]) -> Result<Output> {
        Ok(self.prepared(arguments).env("SHOCKWAVE_TOKEN", token).output()?)
    }

    fn prepared(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("shockwave"));
        command.arg(arguments[0]).args(["--coordinator", &self.url]).args(&arguments[1..]);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command with `--json` and gives what it printed.
    ///
    /// # Errors
    /// It fails.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        Self::read(arguments, self.command(&with_json(arguments))?)
    }

    /// As [`Self::json`], for whoever has this token.
    ///
    /// # Errors
    /// As [`Self::json`].
    pub fn json_as(&self, token: &str, arguments: &[&str]) -> Result<Value> {
        Self::read(arguments, self.command_as(token, &with_json(arguments))?)
    }

    fn read(arguments: &[&str], output: Output) -> Result<Value> {
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {}: {said}", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}"))
    }

    /// Hands a job in, and gives its number.
    ///
    /// # Errors
    /// It is refused.
    pub fn submit(&self, name: &str, command: &[String]) -> Result<u64> {
        let mut arguments = vec!["submit", "--name", name, "--"];
        arguments.extend(command.iter().map(String::as_str));
        let reply = self.json(&arguments)?;
        reply["job"]["id"].as_u64().with_context(|| format!("no job in {reply}"))
    }

    /// A job as it is now.
    ///
    /// # Errors
    /// There is no such job.
    pub fn job(&self, id: u64) -> Result<Value> {
        Ok(self.json(&["show", &id.to_string()])?["job"].clone())
    }

    /// Waits until a job has ended, and gives it.
    ///
    /// # Errors
    /// It does not end within `patience`; the message holds what it printed.
    pub fn ended(&self, id: u64, patience: Duration) -> Result<Value> {
        let give_up_at = Instant::now() + patience;
        loop {
            let job = self.job(id)?;
            let state = job["state"].as_str().unwrap_or_default();
            if matches!(state, "finished" | "failed" | "cancelled") {
                return Ok(job);
            }
            if Instant::now() > give_up_at {
                bail!("job {id} has not ended: {job}\n{}\n{}", self.logs(id), self.output());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What a job printed.
    #[must_use]
    pub fn logs(&self, id: u64) -> String {
        let output = self.command(&["logs", &id.to_string()]);
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default()
    }

    /// What the coordinator's processes printed.
    #[must_use]
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.folder.join("coordinator.log")).unwrap_or_default()
    }
}

fn with_json<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut with_json = vec![arguments[0], "--json"];
    with_json.extend(&arguments[1..]);
    with_json
}

/// Starts the program; its address is the first line that it prints.
fn serve(
    folder: &Path,
    arguments: &[String],
    listen: &str,
    variables: &[(String, String)],
) -> Result<(Child, String, Option<String>)> {
    let path = folder.join("coordinator.log");
    let log = std::fs::File::options().create(true).append(true).open(&path)?;
    let mut child = Command::new(program("shockwave"))
        .args(["serve", "--json", "--listen", listen, "--state"])
        .arg(folder.join("state"))
        .args(arguments)
        .env("USER", "ada")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.take().context("standard output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let ready: Value = serde_json::from_str(&line).unwrap_or_default();
    match ready["coordinator"].as_str() {
        Some(url) => Ok((child, url.to_owned(), ready["web"].as_str().map(str::to_owned))),
        None => {
            child.wait()?;
            bail!("the coordinator did not start: {}", std::fs::read_to_string(&path)?)
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Asked to end, it takes what it has started along; killed, it would leave that behind.
        // SAFETY: kill(2) takes plain numbers; the child is not waited for, so its id is its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        for _ in 0..200 {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
