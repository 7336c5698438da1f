//! Bad input of the coordinator and its command line: each is answered with one clear sentence and
//! the documented exit code.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::process::Command;
use std::time::Duration;

use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::programs::program;

/// Checks a command's exit code and what it says on standard error.
fn check(coordinator: &Coordinator, arguments: &[&str], code: i32, expected: &[&str]) {
    let output = coordinator.command(arguments).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for text in expected {
        assert!(said.contains(text), "{arguments:?}: {text:?} is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn jobs_and_commands_that_do_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), "--devices cpu:1 --round-s 2").unwrap();
    for command in ["show", "logs", "cancel", "wait"] {
        check(&coordinator, &[command, "4711"], 1, &["4711"]);
    }
    check(&coordinator, &["submit"], 2, &["COMMAND"]);
    check(&coordinator, &["submit", "--workdir", "/nowhere", "--", "true"], 2, &["/nowhere"]);

    check(&coordinator, &["submit", "--", "/nowhere/program"], 2, &["/nowhere/program"]);

    // On the machine that runs it, where it was not looked for before.
    let submit = ["submit", "--unchecked", "--", "/nowhere/program"];
    let id = coordinator.json(&submit).unwrap()["job"]["id"].as_u64().unwrap();
    let job = coordinator.ended(id, Duration::from_secs(60)).unwrap();
    assert_eq!(job["state"], "failed");
    let reason = job["reason"].as_str().unwrap();
    assert!(reason.contains("/nowhere/program"), "{reason}");

    let id = coordinator.submit("fails", &["false".to_owned()]).unwrap();
    let job = coordinator.ended(id, Duration::from_secs(60)).unwrap();
    assert_eq!((&job["state"], &job["exit_code"]), (&"failed".into(), &1.into()), "{job}");
}

#[test]
fn a_port_that_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(program("shockwave"))
        .args(["serve", "--devices", "cpu:1", "--listen", &address, "--state"])
        .arg(folder.path().join("state"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn no_coordinator() {
    let output = Command::new(program("shockwave"))
        .args(["jobs", "--coordinator", "http://127.0.0.1:9"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("127.0.0.1:9") && said.contains("shockwave serve"), "{said}");
}
