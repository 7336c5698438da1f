//! The all-reduce of two processes on loopback, against PyTorch's own gloo from Python.

use std::process::{Command, Stdio};
use std::time::Instant;

use shockwave_sdk::distributed::{Group, Rendezvous};
use tch::{Device, Kind, Tensor};

use crate::{median, row};

/// Names a started worker.
pub const WORKER: &str = "SHOCKWAVE_BENCH_WORKER";

/// The python with PyTorch; `python3` without it.
const PYTHON: &str = "SHOCKWAVE_BENCH_PYTHON";

const ELEMENTS: i64 = 11_173_962;
const TURNS: usize = 15;
const ROUNDS: usize = 5;

/// One of two workers: sums, and rank 0 prints the median time.
pub fn sum_as_worker() {
    let meeting = Rendezvous::from_env().unwrap().unwrap();
    let group = Group::join(&meeting).unwrap();
    let mut buffer = Tensor::ones([ELEMENTS], (Kind::Float, Device::Cpu));
    let mut times = Vec::new();
    for turn in 0..=TURNS {
        group.barrier().unwrap();
        let start = Instant::now();
        group.sum(&mut buffer).unwrap();
        if turn > 0 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let _ = buffer.fill_(1.0);
    }
    if group.is_chief() {
        println!("{}", median(times));
    }
}

/// Starts two workers; what rank 0 printed, in milliseconds.
fn two(command: impl Fn() -> Command) -> f64 {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: usize| {
        command()
            .envs([("RANK", rank.to_string()), ("WORLD_SIZE", "2".into())])
            .envs([("MASTER_ADDR", "127.0.0.1".into()), ("MASTER_PORT", port.to_string())])
            .env("GLOO_SOCKET_IFNAME", "lo")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let workers = [start(0), start(1)].map(|child| child.wait_with_output().unwrap());
    assert!(workers.iter().all(|worker| worker.status.success()), "a worker failed");
    String::from_utf8_lossy(&workers[0].stdout).trim().parse().unwrap()
}

/// The version of PyTorch that the python has.
fn pytorch(python: &str) -> Option<String> {
    let mut command = Command::new(python);
    command.args(["-c", "import torch; print(torch.__version__)"]).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// In turns, so that a busy machine disturbs both alike.
pub fn all_reduce() {
    let ours = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(WORKER, "1");
        command
    };
    let python = std::env::var(PYTHON).unwrap_or_else(|_| "python3".into());
    let theirs = || {
        let mut command = Command::new(&python);
        command.args(["-c", include_str!("gloo.py")]);
        command.args([ELEMENTS.to_string(), TURNS.to_string()]);
        command
    };
    let version = pytorch(&python);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(two(ours));
        if version.is_some() {
            other.push(two(theirs));
        }
    }
    let name = "all-reduce of 11.17 M floats, 2 ranks";
    row(name, median(own.clone()), "ms", "none", None, "loopback");
    let Some(version) = version else {
        eprintln!("skipped: {python} has no torch to compare with; {PYTHON} names another python");
        return;
    };
    let against = format!("PyTorch {version}'s gloo from Python: {:.1} ms", median(other.clone()));
    let ratio = median(own.iter().zip(&other).map(|(own, other)| own / other).collect());
    row(name, ratio, "times", "<= 1.1", Some(ratio <= 1.1), &against);
}
