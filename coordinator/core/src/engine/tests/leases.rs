//! Leases: fencing, renewal, taking back.

use super::*;

fn running() -> World {
    let mut world = World::new(&[2]);
    world.submit(1, 1);
    world.started(1, 1);
    world.said();
    world
}

#[test]
fn a_renewal_gets_exactly_one_answer() {
    let mut world = running();
    let renew = |lease_epoch| Event::LeaseRenewed { job: JobId(1), lease_epoch, epochs_done: None };
    let answers = |world: &mut World, event| {
        world.tell(event);
        let said = world.said();
        let answer = |action: &&Action| {
            matches!(
                action,
                Action::ExtendLease { .. } | Action::YieldBy { .. } | Action::RevokeLease { .. }
            )
        };
        said.iter().filter(answer).cloned().collect::<Vec<_>>()
    };
    let job = JobId(1);
    let extend = Action::ExtendLease { job, lease_epoch: 1, ttl_s: 130.0 };
    assert_eq!(answers(&mut world, renew(1)), [extend]);
    let revoke = Action::RevokeLease { job, lease_epoch: 0 };
    assert_eq!(answers(&mut world, renew(0)), [revoke]);
    world.tell(Event::JobHeld { job });
    world.said();
    let yielding = answers(&mut world, renew(1));
    assert!(matches!(yielding[..], [Action::YieldBy { deadline_s: 30.0, .. }]), "{yielding:?}");
    let unknown = Event::LeaseRenewed { job: JobId(9), lease_epoch: 1, epochs_done: None };
    assert_eq!(answers(&mut world, unknown).len(), 1);
}

#[test]
fn an_older_lease_commits_nothing() {
    let mut world = running();
    world.checkpoint(1, 1, 2.0);
    world.tell(Event::JobHeld { job: JobId(1) });
    world.gone(1, 1, "a", ReleaseReason::Yielded);
    world.tell(Event::JobReleased { job: JobId(1) });
    assert_eq!(world.orders(), ["yield 1.1 by 30", "start 1.2 on a0 from 2"]);
    world.checkpoint(1, 1, 3.0);
    world.tell(Event::Finished { job: JobId(1), lease_epoch: 1, step: 9 });
    let epoch =
        Event::EpochDone { job: JobId(1), lease_epoch: 1, epochs: 9, batch: 32, duration_s: 1.0 };
    world.tell(epoch);
    let refused = "refuse 1: lease 1 is not valid, the job's is 2";
    assert_eq!(world.orders(), [refused; 3]);
    assert_eq!(world.engine.explain(JobId(1)).unwrap().checkpoint.unwrap().epochs_done, 2.0);
    world.checkpoint(1, 2, 1.0);
    assert_eq!(world.orders(), ["refuse 1: step 1000 is before the committed step 2000"]);
}

#[test]
fn completion_is_explicit_and_idempotent() {
    let mut world = running();
    let finished = Event::Finished { job: JobId(1), lease_epoch: 1, step: 5 };
    world.tell(finished.clone());
    world.tell(finished);
    assert_eq!(world.orders(), ["end 1: Finished { step: Some(5) }"]);
    world.gone(1, 1, "a", ReleaseReason::Exited { code: 0 });
    world.checkpoint(1, 1, 3.0);
    assert_eq!(world.orders(), ["refuse 1: the job has ended"]);
}

#[test]
fn who_does_not_yield_is_killed_at_the_deadline() {
    let mut world = running();
    world.now_s = 40.0;
    world.tell(Event::JobHeld { job: JobId(1) });
    world.until(69.9);
    assert_eq!(world.orders(), ["yield 1.1 by 70"]);
    world.until(70.0);
    assert_eq!(world.orders(), ["kill 1.1: Deadline"]);
    world.until(80.0);
    assert_eq!(world.orders(), ["kill 1.1: Deadline"], "repeated while nobody confirms it");
    world.gone(1, 1, "a", ReleaseReason::Killed);
    world.until(500.0);
    assert_eq!(world.orders(), [""; 0], "no failure of the job's, and it is on hold");
}

#[test]
fn kills_are_bounded_and_the_devices_stay_fenced() {
    let mut world = World::new(&[1, 1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.tell(Event::JobHeld { job: JobId(1) });
    world.until(1000.0);
    let orders = world.orders();
    assert_eq!(orders.iter().filter(|order| order.starts_with("kill")).count(), 6);
    assert_eq!(orders.last().unwrap(), "set aside a");
    world.tell(Event::JobReleased { job: JobId(1) });
    assert_eq!(world.orders(), ["start 1.2 on b0"], "the old lease is long over");
    world.tell(Event::NodeResumed { node: node("a") });
    world.submit(2, 1);
    assert_eq!(world.orders(), [""; 0], "nobody knows what runs on a0");
    world.gone(1, 1, "a", ReleaseReason::Killed);
    assert_eq!(world.orders(), ["start 2.1 on a0"]);
}

#[test]
fn a_node_is_used_again_once_its_processes_are_accounted_for() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.tell(Event::JobHeld { job: JobId(1) });
    world.until(1000.0);
    assert_eq!(world.orders().last().unwrap(), "set aside a");
    world.submit(2, 1);
    assert_eq!(world.orders(), [""; 0], "nobody knows what runs on a0");
    world.gone(1, 1, "a", ReleaseReason::Killed);
    assert_eq!(world.orders(), ["start 2.1 on a0"]);
}

#[test]
fn a_silent_worker_loses_its_lease() {
    let mut world = running();
    // Heard of at 0, within a term of the boundary at 100, where it is extended to 230; not so at
    // 200.
    world.until(229.0);
    assert_eq!(world.orders(), [""; 0]);
    world.until(230.0);
    assert_eq!(world.orders(), ["revoke 1.1"]);
    world.until(260.0);
    assert_eq!(world.orders(), ["kill 1.1: Expired"]);
    world.gone(1, 1, "a", ReleaseReason::Killed);
    assert_eq!(world.orders(), ["retry 1 at 265: its lease was not renewed"]);
    world.until(265.0);
    assert_eq!(world.orders(), ["start 1.2 on a0"]);
}

#[test]
fn a_lost_lease_is_not_held_against_a_job_that_can_resume() {
    // Whether the job's user allows no retry, for a job of the SDK and for a plain command.
    for (plain, expected) in [
        (false, "retry 1 at 265: its lease was not renewed"),
        (true, "end 1: Failed { why: \"its lease was not renewed\" }"),
    ] {
        let mut world = World::new(&[1]);
        let mut submission = World::submission(1, 1);
        submission.terms.retries = Some(0);
        submission.terms.exit_zero_finishes = plain;
        world.tell(Event::JobSubmitted(Box::new(submission)));
        world.started(1, 1);
        world.until(260.0);
        world.orders();
        world.gone(1, 1, "a", ReleaseReason::Killed);
        assert_eq!(world.orders(), [expected]);
    }
}

/// A plain command of two workers, one of which was stopped from outside before its end.
#[test]
fn a_gang_of_which_a_part_has_stopped_is_not_complete() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut world = World::new(&[1, 1]);
        let mut submission = World::submission(1, 2);
        submission.terms.exit_zero_finishes = true;
        world.tell(Event::JobSubmitted(Box::new(submission)));
        world.started(1, 1);
        for node in order {
            let reason = match node {
                "a" => ReleaseReason::Yielded,
                _ => ReleaseReason::Exited { code: 0 },
            };
            world.gone(1, 1, node, reason);
        }
        let orders = world.orders();
        assert!(orders.iter().all(|order| !order.starts_with("end")), "{orders:?}");
    }
}

#[test]
fn a_broken_gang_is_killed_whole() {
    let mut world = World::new(&[1, 1]);
    world.submit(1, 2);
    world.started(1, 1);
    world.gone(1, 1, "b", ReleaseReason::Signalled { signal: 11 });
    assert_eq!(world.orders(), ["start 1.1 on a0,b0", "kill 1.1: GangBroken"]);
    world.gone(1, 1, "a", ReleaseReason::Killed);
    assert_eq!(world.orders(), ["retry 1 at 5: it was ended by signal 11"]);
}
