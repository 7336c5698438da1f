//! The example of a user's own policy, run as a user does.
#![allow(clippy::unwrap_used)] // Tests.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn command(folder: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own_policy"));
    command.args(folder).stdin(Stdio::null());
    command
}

/// What a run printed at its end.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_batch_grows_as_the_policy_says_and_a_stop_changes_nothing() {
    let whole = said(&command(None).output().unwrap());
    let accuracy = whole.lines().find_map(|line| line.strip_prefix("test accuracy ")).unwrap();
    assert!(accuracy.parse::<f64>().unwrap() > 0.8, "{whole}");
    assert!(whole.contains("batch 16 -> 32 from epoch"), "{whole}");
    assert!(whole.contains("the loss has not fallen for 2 epochs"), "{whole}");

    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    let mut stopped = command(Some(&checkpoints)).stdout(Stdio::piped()).spawn().unwrap();
    let saved = || std::fs::read_dir(&checkpoints).map_or(0, Iterator::count);
    while saved() < 2 && stopped.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    // SAFETY: kill(2) takes plain numbers; the child is not waited for, so its id is its own.
    unsafe { libc::kill(stopped.id() as i32, libc::SIGTERM) };
    assert_eq!(stopped.wait().unwrap().code(), Some(75), "it was asked to stop");
    let resumed = command(Some(&checkpoints)).output().unwrap();
    assert_eq!(said(&resumed), whole, "it goes on where it was, the policy too");
    let told = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(told.contains("resumed at epoch"), "{told}");
}

#[test]
fn wrong_usage_is_told() {
    let output = command(Some(Path::new("--epochs"))).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: own_policy"));
}
