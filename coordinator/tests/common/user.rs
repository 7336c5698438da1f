//! A user with a home of its own, who runs the program's commands.

#![allow(dead_code)] // each test file uses its part
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A process that ends with the test.
pub struct Process {
    pub child: Child,
    /// Its first line as JSON, where it prints one.
    pub ready: Value,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A user with a home of its own.
pub struct User {
    pub home: TempDir,
}

impl User {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shockwave"));
        command
            .args(arguments)
            .env("HOME", self.home.path())
            .env("USER", "ada")
            .env_remove("XDG_STATE_HOME")
            .env_remove("SHOCKWAVE_COORDINATOR")
            .env_remove("SHOCKWAVE_TOKEN")
            .current_dir(self.home.path());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, error) = texts(&output);
        assert!(output.status.success(), "{arguments:?}: {out}{error}");
        out
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.insert(1, "--json");
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// Exit code and message of a command that must fail.
    pub fn fail(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        (output.status.code().unwrap(), texts(&output).1)
    }

    pub fn state(&self, id: &str) -> String {
        self.json(&["show", id])["job"]["state"].as_str().unwrap().to_owned()
    }

    /// A coordinator; `more` are options.
    pub fn serve(&self, devices: &str, more: &[&str]) -> Process {
        let mut arguments =
            vec!["serve", "--json", "--listen", "127.0.0.1:0", "--devices", devices];
        arguments.extend(["--round-s", "2", "--grace-s", "2", "--node", "here"]);
        arguments.extend(more);
        let mut command = self.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Process { child, ready: serde_json::from_str(&line).unwrap() }
    }
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < give_up_at, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
