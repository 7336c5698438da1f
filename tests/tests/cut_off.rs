//! A plain command on a machine that is cut off: nothing renews its lease, so its own runner ends it
//! before the coordinator may start it elsewhere (P2); it is no failure of the job's.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::programs::program;
use shockwave_tests::torture::job::{is_alive, until};

/// An agent in a process of its own; it is killed with this value.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn agent(coordinator: &Coordinator, folder: &Path) -> Agent {
    let child = Command::new(program("shockwave"))
        .args(["agent", "--devices", "cpu:1", "--node", "edge", "--address", "127.0.0.1"])
        .args(["--coordinator", coordinator.url()])
        .arg("--folder")
        .arg(folder.join("edge"))
        .arg("--jobs")
        .arg(coordinator.state().join("jobs"))
        .env("SHOCKWAVE_TOKEN", coordinator.token().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Agent(child.unwrap())
}

#[test]
fn a_plain_command_ends_with_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let serve = "--devices none --round-s 6 --ttl-s 8 --grace-s 4";
    let coordinator = Coordinator::start(&folder.path().join("serve"), serve).unwrap();
    let first = agent(&coordinator, folder.path());
    let file = folder.path().join("pids");
    let script =
        format!("trap '' TERM; echo $$ >> {}; while :; do sleep 0.1; done", file.display());
    let id = coordinator.submit("cut off", &["sh".into(), "-c".into(), script]).unwrap();
    let pids = || -> Vec<i32> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let patience = Duration::from_secs(120);
    until(patience, "it starts", || pids().len() == 1).unwrap();
    // Kept by exchanges for longer than its lease would hold without them.
    std::thread::sleep(Duration::from_secs(14));
    assert!(is_alive(pids()[0]), "{}", coordinator.output());
    assert_eq!(coordinator.job(id).unwrap()["leases"], 1);

    drop(first);
    until(patience, "its runner ends it", || !is_alive(pids()[0])).unwrap();
    let _second = agent(&coordinator, folder.path());
    until(patience, "it is started again", || pids().len() == 2).unwrap();
    let job = coordinator.job(id).unwrap();
    assert_ne!(job["state"], "failed", "{job}");
    coordinator.command(&["cancel", &id.to_string()]).unwrap();
    until(patience, "it ends", || !is_alive(pids()[1])).unwrap();
}
