//! The client against a coordinator in this process.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::{Duration, Instant};

use tonic::Status;

use super::fake::{Coordinator, TTL_MS, extended, revoked, yield_by};
use super::*;

const S: Duration = Duration::from_secs(1);

fn config(coordinator: &Coordinator, spool: &Path, lease_epoch: u64) -> ClientConfig {
    ClientConfig {
        coordinator: format!("http://{}", coordinator.address),
        job_id: 5,
        lease_epoch,
        ttl: Duration::from_millis(TTL_MS),
        grace: 10 * S,
        started_at: Instant::now(),
        token: Secret("s3cret".into()),
        spool_dir: spool.to_owned(),
        ca_file: None,
    }
}

fn declaration() -> Declaration {
    let policy = DeclaredPolicy::Gns { initial: 32, max: 256 };
    let family = "resnet8/cifar10".to_owned();
    Declaration { epochs: 30, samples_per_epoch: 10_000, initial_batch: 32, family, policy }
}

fn epoch_done(epoch: u64) -> Event {
    Event::EpochDone {
        epoch,
        step: epoch * 10,
        batch: 32,
        samples: 320,
        duration_s: 1.5,
        loss: Some(2.0),
        metrics: Default::default(),
        grad_norm: None,
        noise_scale: None,
    }
}

/// Waits until something holds: the coordinator runs on threads of its own.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + 30 * S;
    while !holds() {
        assert!(Instant::now() < give_up_at, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A coordinator of another protocol: the job must end with an error, not as if its lease were over.
#[test]
fn a_protocol_that_is_refused_is_no_revocation() {
    let coordinator = Coordinator::start();
    let folder = tempfile::tempdir().unwrap();
    let sentence = "the job's SDK speaks protocol version 1, this coordinator speaks 3";
    coordinator.state.lock().unwrap().refusal = Some(Status::unimplemented(sentence));
    let client = Client::start(config(&coordinator, folder.path(), 2)).unwrap();
    assert_eq!(client.refusal(), None);
    client.declare(declaration());
    eventually("it is refused", || client.refusal().is_some());
    assert_eq!(client.refusal().as_deref(), Some(sentence));
    assert_eq!(client.directive(), Directive::Run);
    // An upgrade of the coordinator mends it.
    coordinator.state.lock().unwrap().refusal = None;
    eventually("it is understood", || client.refusal().is_none());
    client.close(S);
}

fn numbers(coordinator: &Coordinator) -> Vec<u64> {
    coordinator.state.lock().unwrap().events.keys().copied().collect()
}

#[test]
fn events_arrive_in_order_with_the_jobs_token() {
    let (coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let client = Client::start(config(&coordinator, spool.path(), 2)).unwrap();
    client.report(epoch_done(0));
    client.declare(declaration());
    client.report(epoch_done(1));
    client.set_position(Position { epoch: 2, step: 20, ..Default::default() });
    assert_eq!(client.directive(), Directive::Run);
    assert!(client.close(30 * S));

    let state = coordinator.state.lock().unwrap();
    assert_eq!(state.declared[0].epochs_total, 30);
    assert_eq!(state.events.keys().collect::<Vec<_>>(), [&1, &2]);
    assert_eq!(state.events[&1].lease_epoch, 2);
    assert!(state.tokens.iter().all(|token| token == "Bearer s3cret"));
}

#[test]
fn a_lost_coordinator_stops_nothing_and_loses_nothing() {
    let (mut coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
    client.declare(declaration());
    client.report(epoch_done(0));
    eventually("the first event arrives", || numbers(&coordinator) == [1]);

    coordinator.stop();
    for epoch in 1..50 {
        client.report(epoch_done(epoch));
    }
    assert_eq!(client.directive(), Directive::Run);
    eventually("the first is forgotten", || client.unacknowledged() == 49);

    coordinator.start_again();
    eventually("the rest arrives", || numbers(&coordinator) == (1..=50).collect::<Vec<_>>());
    eventually("nothing is left", || client.unacknowledged() == 0);
    assert_eq!(client.directive(), Directive::Run);
}

#[test]
fn a_lost_reply_makes_repeats_and_no_doubles() {
    let (coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    coordinator.state.lock().unwrap().lose_reply = true;
    let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
    client.report(epoch_done(0));
    client.declare(declaration());
    assert!(client.close(30 * S));
    let state = coordinator.state.lock().unwrap();
    assert_eq!(state.received, [1, 1]);
    assert_eq!(state.events.len(), 1);
}

#[test]
fn what_one_process_could_not_hand_over_the_next_does() {
    let (mut coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    coordinator.stop();
    let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
    client.declare(declaration());
    client.report(epoch_done(0));
    let before = Instant::now();
    assert!(!client.close(Duration::from_millis(50)));
    assert!(before.elapsed() < 20 * S, "closing does not wait for the network beyond its time");

    coordinator.start_again();
    let client = Client::start(config(&coordinator, spool.path(), 2)).unwrap();
    client.declare(declaration());
    client.report(epoch_done(1));
    assert!(client.close(30 * S));
    let state = coordinator.state.lock().unwrap();
    let leases: Vec<u64> = state.events.values().map(|event| event.lease_epoch).collect();
    assert_eq!(leases, [1, 2]);
}

#[test]
fn a_yield_comes_by_the_stream_and_by_renewal() {
    let (coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
    eventually("the stream is open", || coordinator.say(yield_by(8000)));
    eventually("the yield is heard", || client.directive() != Directive::Run);
    let Directive::Yield { deadline, reason } = client.directive() else { panic!("not a yield") };
    assert_eq!(reason, "another job's turn");
    assert!(deadline <= Instant::now() + 8 * S);
    drop(client);

    coordinator.state.lock().unwrap().answer = Some(yield_by(8000));
    let client = Client::start(config(&coordinator, spool.path(), 2)).unwrap();
    eventually("heard at a renewal", || matches!(client.directive(), Directive::Yield { .. }));
}

#[test]
fn a_revoked_lease_ends_the_job_and_is_renewed_no_more() {
    let (coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    coordinator.state.lock().unwrap().answer = Some(revoked());
    let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
    let expected = Directive::Revoked { reason: "lease 9 exists".into() };
    eventually("the answer is heard", || client.directive() == expected);
    client.report(epoch_done(0));
    assert!(!client.close(30 * S), "a revoked job does not wait to hand over its events");
    assert_eq!(coordinator.state.lock().unwrap().renewals.len(), 1);

    // The other way to hear it: a newer lease makes every call fail.
    let stale = Status::failed_precondition("lease 9 of job 5 exists");
    coordinator.state.lock().unwrap().refusal = Some(stale);
    let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
    eventually("the failure is heard", || matches!(client.directive(), Directive::Revoked { .. }));
}

#[test]
fn other_refusals_say_nothing_about_the_lease() {
    for status in [Status::unauthenticated("token"), Status::not_found("job"), Status::internal("")]
    {
        let (coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
        coordinator.state.lock().unwrap().refusal = Some(status);
        let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
        let calls = || coordinator.state.lock().unwrap().tokens.len();
        eventually("three calls were refused", || calls() > 3);
        assert_eq!(client.directive(), Directive::Run);
    }
}

#[test]
fn silence_parks_the_job_when_lease_and_grace_are_over_and_renewals_put_it_off() {
    let (mut coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    coordinator.state.lock().unwrap().answer = Some(extended(600));
    let mut short = config(&coordinator, spool.path(), 1);
    (short.ttl, short.grace) = (Duration::from_millis(600), Duration::from_millis(400));
    let client = Client::start(short).unwrap();
    std::thread::sleep(2 * S);
    assert_eq!(client.directive(), Directive::Run, "renewed every 200 ms");
    let renewals = coordinator.state.lock().unwrap().renewals.len();
    assert!(renewals >= 3, "{renewals} renewals");

    coordinator.stop();
    eventually("the job parks", || client.directive() == Directive::Park);
    assert_eq!(client.lease().unwrap().ends_in, Duration::ZERO);
    // Found again before the process has ended: it may go on.
    coordinator.start_again();
    eventually("the lease is renewed", || client.directive() == Directive::Run);
}

#[test]
fn an_event_that_is_never_taken_does_not_hold_back_the_rest() {
    let (coordinator, spool) = (Coordinator::start(), tempfile::tempdir().unwrap());
    coordinator.state.lock().unwrap().poison = Some(2);
    let client = Client::start(config(&coordinator, spool.path(), 1)).unwrap();
    for epoch in 0..4 {
        client.report(epoch_done(epoch));
    }
    client.declare(declaration());
    assert!(client.close(30 * S));
    let state = coordinator.state.lock().unwrap();
    let steps: Vec<u64> = state
        .events
        .values()
        .map(|event| match &event.kind {
            Some(shockwave_proto::v1::event::Kind::EpochDone(done)) => done.step,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(steps, [0, 20, 30]);
}
