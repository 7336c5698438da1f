//! The runner by itself, as an agent starts it.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{eventually, is_alive};
use shockwave::runner::process;
use shockwave::runner::spec::{LeaseFolder, Order, Running, Stop, VERSION};

/// A runner of a shell that does not end, and the shell's number.
async fn started(folder: &LeaseFolder, state: &Path) -> (Child, i32) {
    let order = Order {
        version: VERSION,
        job_id: 1,
        lease_epoch: 1,
        nonce: "n".into(),
        devices: vec![0],
        gpus: false,
        command: ["sh", "-c", "while :; do sleep 0.1; done"].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        working_dir: "/".into(),
        workers: 1,
        first_rank: 0,
        log: state.join("log"),
        log_bytes_max: 1 << 20,
        grace_ms: 1_000,
        attached: None,
    };
    std::fs::create_dir_all(folder.path()).unwrap();
    shockwave::files::write_json(&folder.order(), &order).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_shockwave"));
    command.arg("runner").arg(folder.path()).stdin(Stdio::null()).stderr(Stdio::null());
    let runner = command.spawn().unwrap();
    let mut pid = 0;
    eventually("training is started", || {
        let running = shockwave::files::read_json::<Running>(&folder.running()).unwrap();
        pid = running.map_or(0, |running| running.pids[0]);
        pid != 0
    })
    .await;
    (runner, pid)
}

#[tokio::test]
async fn what_no_agent_can_find_again_is_ended() {
    for is_asked_to_end in [false, true] {
        let state = tempfile::tempdir().unwrap();
        let folder = LeaseFolder::at(state.path().join("leases/1-1"));
        let (mut runner, pid) = started(&folder, state.path()).await;
        if is_asked_to_end {
            // By the end of a round that is far away.
            let late = process::monotonic_ms() + 600_000;
            let stop = Stop { term_mono_ms: late, kill_mono_ms: late };
            shockwave::files::write_json(&folder.stop(), &stop).unwrap();
            process::signal(runner.id().cast_signed(), libc::SIGHUP).unwrap();
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(runner.try_wait().unwrap().is_none(), "it runs while its folder is there");
        std::fs::remove_dir_all(state.path().join("leases")).unwrap();
        eventually("the runner ends", || runner.try_wait().unwrap().is_some()).await;
        assert!(!is_alive(pid), "with what it has started");
    }
}
