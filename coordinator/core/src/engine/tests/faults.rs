//! Nodes that go away.

use super::*;

#[test]
fn a_lost_node_holds_its_job_until_the_lease_is_over() {
    let mut world = World::new(&[1, 1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.checkpoint(1, 1, 3.0);
    world.now_s = 50.0;
    let lost = Event::NodeLost { node: node("a"), processes_gone: false, why: "silent".into() };
    world.tell(lost);
    let standing = world.engine.explain(JobId(1)).unwrap().standing;
    assert!(matches!(standing, Standing::OutOfReach { over_s: 170.0, .. }), "{standing:?}");
    world.until(159.0);
    // Heard within a term before the boundary at 100: its lease was extended there, to 230.
    // It stops by itself 30 s later, with 10 s for its last checkpoint.
    world.until(269.0);
    assert!(world.orders().iter().all(|order| !order.starts_with("start 1.2")));
    world.until(270.0);
    assert!(world.orders().contains(&"start 1.2 on b0 from 3".to_string()));
}

#[test]
fn a_node_that_is_certainly_dead_frees_its_job_at_once() {
    let mut world = World::new(&[1, 1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.orders();
    let lost = Event::NodeLost { node: node("a"), processes_gone: true, why: "off".into() };
    world.tell(lost);
    assert_eq!(world.orders(), ["start 1.2 on b0"]);
}

#[test]
fn a_node_that_is_given_back_is_forgotten_with_its_drain() {
    let mut world = World::new(&[1, 1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.orders();
    world.tell(Event::NodeDrained { node: node("a"), why: "leaves".into() });
    world.tell(Event::NodeLeft { node: node("a") });
    assert_eq!(world.orders(), ["start 1.2 on b0"]);
    assert_eq!(world.engine.gpus(), 1);
    world.join("a", 1, Vec::new());
    world.submit(2, 1);
    assert_eq!(world.orders(), ["start 2.1 on a0"]);
}

#[test]
fn a_node_that_comes_back_keeps_its_valid_workers() {
    let mut world = World::new(&[2]);
    world.submit(1, 1);
    world.submit(2, 1);
    world.started(1, 1);
    world.started(2, 1);
    world.orders();
    let lost = Event::NodeLost { node: node("a"), processes_gone: false, why: "cut".into() };
    world.tell(lost);
    let kept =
        |job, lease_epoch, slot| KeptWorker { job: JobId(job), lease_epoch, slots: vec![slot] };
    world.join("a", 2, vec![kept(1, 1, 0), kept(7, 3, 1)]);
    // 1 goes on; 2 is not there any more; 7 is from another time, and its device is not given away.
    assert_eq!(world.orders(), ["kill 7.3: Stale"]);
    assert!(matches!(world.engine.explain(JobId(1)).unwrap().standing, Standing::Running { .. }));
    world.gone(7, 3, "a", ReleaseReason::Killed);
    assert_eq!(world.orders(), ["start 2.2 on a1"]);
}

#[test]
fn a_drained_node_is_left_at_the_boundary() {
    let mut world = World::new(&[1, 1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.orders();
    world.tell(Event::NodeDrained { node: node("a"), why: "service".into() });
    world.train_until(95.0);
    assert_eq!(world.orders(), ["yield 1.1 by 120"]);
    world.gone(1, 1, "a", ReleaseReason::Yielded);
    assert_eq!(world.orders(), ["start 1.2 on b0"]);
}

#[test]
fn a_node_about_to_leave_is_not_used() {
    let mut world = World::new(&[]);
    let device = DeviceInfo { slot: 0, kind: "gpu".into(), memory_bytes: 0 };
    let leaving = NodeInfo { node: node("z"), devices: vec![device], until_s: Some(250.0) };
    world.tell(Event::NodeJoined { node: leaving, keeps: Vec::new() });
    world.submit(1, 1);
    world.started(1, 1);
    assert_eq!(world.orders(), ["start 1.1 on z0"]);
    world.train_until(189.0);
    assert_eq!(world.orders(), [""; 0]);
    // The round from 200 to 300 would outlive the node.
    world.train_until(190.0);
    assert_eq!(world.orders(), ["yield 1.1 by 220"]);
}

#[test]
fn a_gang_moves_together_rather_than_being_split() {
    let mut world = World::new(&[2, 2]);
    world.submit(1, 2);
    world.submit(2, 1);
    world.submit(3, 1);
    assert_eq!(world.orders(), ["start 1.1 on a0+1", "start 2.1 on b0", "start 3.1 on b1"]);
}

/// A gang that allows no retry: a part on `b` is out of sight, the one on `a` fails for want of it.
/// Gives what follows once `b` has said `word`.
fn broken_by_its_machine(word: impl FnOnce(&mut World)) -> Vec<String> {
    let mut world = World::new(&[1, 1, 1]);
    let mut submission = World::submission(1, 2);
    submission.terms.retries = Some(0);
    world.tell(Event::JobSubmitted(Box::new(submission)));
    world.started(1, 1);
    world.gone(1, 1, "a", ReleaseReason::Exited { code: 1 });
    assert_eq!(world.orders(), ["start 1.1 on a0,b0", "kill 1.1: GangBroken"]);
    word(&mut world);
    let mut orders = world.orders();
    orders.retain(|order| !order.starts_with("kill"));
    orders
}

#[test]
fn a_gang_is_not_to_blame_for_a_machine_that_is_gone() {
    let lost =
        |processes_gone| Event::NodeLost { node: node("b"), processes_gone, why: "silent".into() };
    let given_up = broken_by_its_machine(|world| {
        world.tell(lost(false));
        world.until(170.0);
    });
    let unknown = "retry 1 at 165: how it ended is unknown";
    assert_eq!(given_up, [unknown, "start 1.2 on a0,c0"]);
    // Out of sight as well, and not held for lost yet.
    let does_not_answer = broken_by_its_machine(|world| world.until(170.0));
    assert_eq!(does_not_answer, ["set aside b", unknown, "start 1.2 on a0,c0"]);
    let dead = broken_by_its_machine(|world| world.tell(lost(true)));
    assert_eq!(dead, ["start 1.2 on a0,c0"]);
    let back_without_it = broken_by_its_machine(|world| {
        world.tell(lost(false));
        world.join("b", 1, Vec::new());
    });
    assert_eq!(back_without_it, ["start 1.2 on a0,b0"]);
    let taken_away = broken_by_its_machine(|world| {
        world.tell(Event::NodeDrained { node: node("b"), why: "leaves".into() });
        world.gone(1, 1, "b", ReleaseReason::NodeLeaving);
    });
    assert_eq!(taken_away, ["start 1.2 on a0,c0"]);
}

#[test]
fn a_gang_is_to_blame_for_what_fails_while_its_machines_are_there() {
    let failed = "end 1: Failed { why: \"it exited with code 1\" }";
    let killed = broken_by_its_machine(|world| world.gone(1, 1, "b", ReleaseReason::Killed));
    assert_eq!(killed, [failed]);
}
