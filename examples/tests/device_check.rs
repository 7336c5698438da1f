//! The checks of a device, at their sizes for a CPU.
#![allow(clippy::unwrap_used)] // Tests.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_device_check"));
    command.args(["--out", folder.to_str().unwrap()]).args(args);
    command.env("OMP_NUM_THREADS", "1").stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_goal_that_a_cpu_can_meet_holds_and_all_rows_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--device", "cpu"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{printed}{told}");
    let text = std::fs::read_to_string(folder.path().join("device_check.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(kept["device"], "CPU");
    assert!(kept["libtorch"].as_str().unwrap().starts_with("2."), "{text}");
    let rows = kept["rows"].as_array().unwrap();
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(*rows, lines, "what is kept is what was printed");
    let find = |start: &str| {
        let name = |row: &&serde_json::Value| row["name"].as_str().unwrap().starts_with(start);
        rows.iter().find(name).unwrap_or_else(|| panic!("no row '{start}' in {text}"))
    };
    // The goal for what monitoring costs is one for GPUs.
    assert!(find("monitoring, B=16")["holds"].is_null());
    for start in
        ["host reads", "bf16: loss", "resume:", "micro-batch", "gloo: a worker that is gone"]
    {
        assert_eq!(find(start)["holds"], true, "{text}");
    }
    assert_eq!(find("micro-batch")["value"], 10.0);
    assert_eq!(find("gloo, one worker: largest difference")["value"], 0.0);
    // Only the results stay.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_gpu_that_is_not_there_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--device", "cuda:99"]);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.starts_with("error: cuda:99 is not there: libtorch 2."), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    let output = run(folder.path(), &["--device", "gpu"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("use cpu, cuda or cuda:NUMBER"));
    assert_eq!(run(folder.path(), &["no-such-check"]).status.code(), Some(2));
}
