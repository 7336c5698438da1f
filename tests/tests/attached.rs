//! Programs that are started by hand share devices with submitted jobs: they wait for their lease, take the devices that
//! they are given, and give them back in the same terminal.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::training::{Process, Training, newest_checkpoint_file};

const PATIENCE: Duration = Duration::from_secs(600);
/// A policy that hands the slot round.
const SERVE: &str = "--devices cpu:1 --round-s 4 --ttl-s 600 --grace-s 300 --min-run-s 1 \
                     --policy gandiva-fair";

fn training(folder: &Path, epochs: u32) -> Training {
    let arguments = format!(
        "--depth 8 --width 6 --dropout 0.2 --augment --seed 9 --epochs {epochs} --batch 16 \
         --train-samples 1024 --test-samples 128"
    );
    Training::new(folder, &arguments)
}

/// Starts the program as a user would in a terminal.
fn attach(coordinator: &Coordinator, training: &Training, mode: &str) -> Process {
    let token = coordinator.token().unwrap();
    let variables = [
        ("SHOCKWAVE_ATTACH", mode),
        ("SHOCKWAVE_COORDINATOR", coordinator.url()),
        ("SHOCKWAVE_TOKEN", &token),
    ];
    training.start_with(&variables).unwrap()
}

/// Waits until a job is as wanted.
fn until(coordinator: &Coordinator, id: u64, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        let job = coordinator.job(id);
        if let Ok(job) = job.as_ref().map(|job| job.clone())
            && wanted(&job)
        {
            return job;
        }
        assert!(Instant::now() < give_up_at, "{what}: {job:?}\n{}", coordinator.output());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_program_of_a_terminal_takes_turns_and_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("serve"), SERVE).unwrap();
    // Long enough for turns on a fast machine; the other one outlasts it on a slow one.
    let other = training(&folder.path().join("submitted"), 5000);
    std::fs::create_dir_all(other.checkpoints()).unwrap();
    let submitted = coordinator.submit("submitted", &other.command()).unwrap();
    until(&coordinator, submitted, "the slot is taken", |job| job["state"] == "running");

    let by_hand = training(&folder.path().join("by-hand"), 24);
    let mut process = attach(&coordinator, &by_hand, "wait");
    let status = process.wait().unwrap();
    let said = process.output();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("job 2 on"), "it says why it waits: {said}");

    let job = coordinator.job(2).unwrap();
    assert_eq!(job["state"], "finished", "{job}\n{said}");
    assert!(job["preemptions"].as_u64().unwrap() >= 1, "it gave its device back: {job}\n{said}");
    let turns = said.matches("job 2 has device 0").count() as u64;
    assert_eq!(turns, job["leases"].as_u64().unwrap(), "one turn a lease: {said}");
    let other = coordinator.job(submitted).unwrap();
    assert!(other["preemptions"].as_u64().unwrap() >= 1, "the other gave its back too: {other}");
    assert!(coordinator.command(&["cancel", "1"]).unwrap().status.success());

    let alone = training(&folder.path().join("alone"), 24);
    alone.finish().unwrap();
    for file in ["model.safetensors", "training.safetensors"] {
        let expected = newest_checkpoint_file(&alone.checkpoints(), file).unwrap();
        let bytes = newest_checkpoint_file(&by_hand.checkpoints(), file).unwrap();
        assert!(bytes == expected, "{file} differs: {said}");
    }
}

#[test]
fn it_exits_where_its_user_wants_that_and_goes_on_when_it_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("serve"), SERVE).unwrap();
    let by_hand = training(&folder.path().join("by-hand"), 8);
    let mut process = attach(&coordinator, &by_hand, "exit");
    until(&coordinator, 1, "it trains", |job| job["epochs_done"].as_f64() > Some(0.0));

    // Asked for its device, it ends with the documented code; its job is kept back.
    let output = coordinator.command(&["hold", "1"]).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(process.wait().unwrap().code(), Some(75), "{}", process.output());
    until(&coordinator, 1, "its job is on hold", |job| {
        job["state"] == "held" && job["devices"].as_array().is_some_and(Vec::is_empty)
    });
    let released = coordinator.command(&["release", "1"]).unwrap();
    assert!(released.status.success(), "{released:?}");
    let job = until(&coordinator, 1, "nothing to release yet", |job| {
        job["reason"].as_str().is_some_and(|why| why.contains("start it again"))
    });
    assert_eq!(job["state"], "held", "without its program it stays back: {job}");

    let mut again = attach(&coordinator, &by_hand, "exit");
    assert_eq!(again.wait().unwrap().code(), Some(0), "{}", again.output());
    let job = coordinator.job(1).unwrap();
    assert_eq!((&job["state"], &job["leases"]), (&"finished".into(), &2.into()), "{job}");
    assert!(again.output().contains("resumed at epoch"), "{}", again.output());
}

#[test]
fn one_that_is_killed_frees_its_device_and_two_do_not_carry_one_job() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("serve"), SERVE).unwrap();
    let by_hand = training(&folder.path().join("by-hand"), 8);
    let mut process = attach(&coordinator, &by_hand, "wait");
    until(&coordinator, 1, "it has a checkpoint", |job| !job["checkpoint"].is_null());

    let mut twin = attach(&coordinator, &by_hand, "wait");
    assert_eq!(twin.wait().unwrap().code(), Some(1), "{}", twin.output());
    assert!(twin.output().contains("carries job 1 already"), "{}", twin.output());

    process.kill().unwrap();
    until(&coordinator, 1, "its device is free", |job| {
        job["state"] == "held" && job["devices"].as_array().is_some_and(Vec::is_empty)
    });
    let other = coordinator.submit("other", &["true".to_owned()]).unwrap();
    assert_eq!(coordinator.ended(other, PATIENCE).unwrap()["state"], "finished");

    // A coordinator that is killed while it trains on does not end it.
    let mut coordinator = coordinator;
    let mut again = attach(&coordinator, &by_hand, "wait");
    until(&coordinator, 1, "it trains again", |job| job["state"] == "running");
    coordinator.kill().unwrap();
    coordinator.start_again().unwrap();
    assert_eq!(again.wait().unwrap().code(), Some(0), "{}", again.output());
    assert_eq!(coordinator.job(1).unwrap()["state"], "finished");
}

#[test]
fn a_cancelled_one_ends_and_one_without_an_agent_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("serve"), SERVE).unwrap();
    let by_hand = training(&folder.path().join("by-hand"), 50);
    let mut process = attach(&coordinator, &by_hand, "wait");
    until(&coordinator, 1, "it trains", |job| job["state"] == "running");
    assert!(coordinator.command(&["cancel", "1"]).unwrap().status.success());
    assert_eq!(process.wait().unwrap().code(), Some(1), "{}", process.output());
    assert!(process.output().contains("job 1 has ended: cancelled"), "{}", process.output());

    let lonely = Coordinator::start(&folder.path().join("lonely"), "--devices none").unwrap();
    let mut refused = attach(&lonely, &training(&folder.path().join("refused"), 1), "wait");
    assert_eq!(refused.wait().unwrap().code(), Some(1), "{}", refused.output());
    assert!(refused.output().contains("no agent of this machine"), "{}", refused.output());
}
