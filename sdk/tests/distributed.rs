//! Several processes on loopback: what the workers say to each other, and what happens when one is gone.
//!
//! Each test starts this very program again for each worker.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use std::time::Duration;

use common::workers::{TASK, free_port, run, run_all};
use shockwave_sdk::Error;
use shockwave_sdk::distributed::{Backend, Group, Rendezvous};
use tch::{Device, Kind, Tensor};

/// Not a test by itself: what a started worker does.
#[test]
fn worker() {
    let Ok(task) = std::env::var(TASK) else { return };
    let meeting = Rendezvous::from_env().unwrap().unwrap();
    match task.as_str() {
        "talk" => talk(&Group::join(&meeting).unwrap()),
        "die" => die(&Group::join(&meeting).unwrap()),
        "fall silent" => fall_silent(&Group::join(&meeting).unwrap()),
        "never come" => never_come(&meeting),
        "ask for nccl" => ask_for_nccl(&meeting),
        other => panic!("unknown task {other}"),
    }
    println!("task done");
}

fn floats(value: f64) -> Tensor {
    Tensor::full([10_007], value, (Kind::Float, Device::Cpu))
}

fn is_all(tensor: &Tensor, value: f64) -> bool {
    tensor.equal(&tensor.full_like(value))
}

fn talk(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    assert_eq!(group.is_chief(), rank == 0);
    let mut sum = floats(rank as f64 + 1.0);
    group.sum(&mut sum).unwrap();
    assert!(is_all(&sum, (size * (size + 1) / 2) as f64));

    assert!(group.any(rank == size - 1).unwrap());
    assert!(!group.any(false).unwrap());

    let mut from_chief = floats(rank as f64 + 5.0);
    group.broadcast(&mut from_chief).unwrap();
    assert!(is_all(&from_chief, 5.0));

    let own = if rank == 0 { "from rank 0".to_owned() } else { "x".repeat(rank) };
    assert_eq!(group.broadcast_bytes(own.as_bytes()).unwrap(), b"from rank 0");
    assert_eq!(group.broadcast_bytes(b"").unwrap(), b"");
    group.barrier().unwrap();
}

/// The last worker ends without a word: the others get an error, not a hang.
fn die(group: &Group) {
    if group.rank() == group.size() - 1 {
        std::process::exit(0);
    }
    let error = group.sum(&mut floats(1.0)).unwrap_err();
    assert!(matches!(error, Error::Workers { what: "all-reduce", .. }), "{error}");
    println!("{error}");
}

/// The last worker lives but does not come: the others get an error after the timeout.
fn fall_silent(group: &Group) {
    if group.rank() == group.size() - 1 {
        std::thread::sleep(Duration::from_secs(20));
        return;
    }
    let error = group.barrier().unwrap_err();
    assert!(matches!(error, Error::Workers { what: "barrier", .. }), "{error}");
}

/// The last worker never joins: the others' rendezvous ends with an error.
fn never_come(meeting: &Rendezvous) {
    if meeting.rank == meeting.size - 1 {
        return;
    }
    let error = Group::join(meeting).unwrap_err();
    assert!(error.to_string().starts_with("the rendezvous failed on rank"), "{error}");
}

/// NCCL is asked for where there is none: an error at once, not a wait for the others.
fn ask_for_nccl(meeting: &Rendezvous) {
    let error = Group::join_on(meeting, Device::Cuda(0)).unwrap_err().to_string();
    let expected = "the workers' backend (SHOCKWAVE_BACKEND) is nccl; expected gloo or auto";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn nccl_that_cannot_be_had_is_one_clear_error() {
    if tch::Cuda::device_count() > 0 {
        return;
    }
    run_all("ask for nccl", 2, &[("SHOCKWAVE_BACKEND", "nccl")]);
}

#[test]
fn on_a_cpu_gloo_carries_the_sums_of_one_worker_too() {
    let meeting = Rendezvous::new(0, 1, "127.0.0.1", free_port());
    let group = Group::join_on(&meeting, Device::Cpu).unwrap();
    assert_eq!(group.backend(), Backend::Gloo);
    talk(&group);
}

#[test]
fn two_and_four_workers_talk() {
    run_all("talk", 2, &[]);
    run_all("talk", 4, &[]);
}

#[test]
fn dead_worker_is_an_error_on_the_others() {
    let told = run("die", 3, &[("SHOCKWAVE_WORKER_TIMEOUT_S", "10")]);
    for (rank, (succeeded, text)) in told.iter().take(2).enumerate() {
        assert!(succeeded, "rank {rank}: {text}");
        assert!(text.contains("A worker has ended or cannot be reached"), "{text}");
    }
}

#[test]
fn silent_worker_is_an_error_on_the_others() {
    for (succeeded, text) in run("fall silent", 2, &[("SHOCKWAVE_WORKER_TIMEOUT_S", "2")]) {
        assert!(succeeded, "{text}");
    }
}

#[test]
fn absent_worker_is_an_error_in_the_rendezvous() {
    for (succeeded, text) in run("never come", 2, &[("SHOCKWAVE_WORKER_TIMEOUT_S", "2")]) {
        assert!(succeeded, "{text}");
    }
}

#[test]
fn absent_store_is_an_error() {
    let mut meeting = Rendezvous::new(1, 2, "127.0.0.1", free_port());
    meeting.timeout = Duration::from_secs(1);
    let error = Group::join(&meeting).unwrap_err().to_string();
    assert!(error.starts_with("the rendezvous failed on rank 1 of 2 workers"), "{error}");
}
