//! Starts the test program itself again, once for each worker, with the test `worker` and a task.
#![allow(clippy::unwrap_used, dead_code)] // Tests; each test program uses a part of this.

use std::net::TcpListener;
use std::process::{Command, Stdio};

/// Names the task of a started worker; absent in the test program itself.
pub const TASK: &str = "SHOCKWAVE_TEST_TASK";

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs `size` workers with a task and further variables; whether each succeeded, and what it printed.
pub fn run(task: &str, size: usize, variables: &[(&str, &str)]) -> Vec<(bool, String)> {
    let port = free_port().to_string();
    let start = |rank: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture"])
            .env(TASK, task)
            .envs([("RANK", rank.to_string()), ("WORLD_SIZE", size.to_string())])
            .envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port.as_str())])
            .envs([("SHOCKWAVE_WORKER_TIMEOUT_S", "60"), ("OMP_NUM_THREADS", "1")])
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..size).map(start).collect();
    let finish = |child: std::process::Child| {
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    children.into_iter().map(finish).collect()
}

/// Runs workers that must all succeed; what each printed.
pub fn run_all(task: &str, size: usize, variables: &[(&str, &str)]) -> Vec<String> {
    let told = run(task, size, variables).into_iter().enumerate();
    told.map(|(rank, (succeeded, text))| {
        assert!(succeeded && text.contains("task done"), "rank {rank}: {text}");
        text
    })
    .collect()
}
