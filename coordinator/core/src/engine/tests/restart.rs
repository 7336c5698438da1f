//! Snapshots, replay, and the coordinator's own absence.

use super::*;

fn busy() -> World {
    let mut world = World::new(&[1, 1]);
    for id in 1..=4 {
        world.submit(id, 1);
    }
    world.started(1, 1);
    world.started(2, 1);
    world.train_until(50.0);
    world.checkpoint(1, 1, 2.0);
    world.tell(Event::RegimeChanged { job: JobId(1), lease_epoch: 1, epochs_done: 2.0, batch: 64 });
    world
}

#[test]
fn a_snapshot_goes_on_as_the_original() {
    let mut world = busy();
    let text = serde_json::to_string(&world.engine.snapshot()).unwrap();
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(snapshot, world.engine.snapshot());
    let engine = Engine::restore(snapshot, Box::new(LeastServed), Box::new(Same)).unwrap();
    let mut copy = World { engine, now_s: world.now_s, said: Vec::new() };
    world.said();
    for world in [&mut world, &mut copy] {
        world.train_until(95.0);
        world.gone(1, 1, "a", ReleaseReason::Yielded);
        world.train_until(250.0);
    }
    assert_eq!(world.said(), copy.said());
    assert_eq!(world.engine.snapshot(), copy.engine.snapshot());
}

#[test]
fn a_snapshot_of_another_policy_is_refused() {
    struct Other;
    impl Policy for Other {
        fn name(&self) -> &'static str {
            "other"
        }
        fn decide(&mut self, _: &ClusterView) -> Decision {
            Decision::Order(Vec::new())
        }
    }
    let error = Engine::restore(busy().engine.snapshot(), Box::new(Other), Box::new(Same));
    let text = error.err().unwrap().to_string();
    assert_eq!(text, "snapshot was made with least-served, not with other");
}

#[test]
fn after_a_gap_nobody_is_blamed_and_training_goes_on() {
    let mut world = busy();
    world.said();
    world.now_s = 1000.0;
    world.tell(Event::Started);
    let kept = |job, name: &str| {
        (name.to_owned(), KeptWorker { job: JobId(job), lease_epoch: 1, slots: vec![0] })
    };
    for (name, worker) in [kept(1, "a"), kept(2, "b")] {
        world.join(&name, 1, vec![worker]);
    }
    assert_eq!(world.orders(), [""; 0], "no revocation, no kill, no second start");
    world.train_until(1059.0);
    assert!(world.engine.leases().all(|lease| lease.live));
    assert_eq!(world.engine.round(), 10);
}

#[test]
fn agents_that_do_not_come_back_lose_their_leases() {
    let mut world = busy();
    world.said();
    world.now_s = 1000.0;
    world.tell(Event::Started);
    world.join("b", 1, Vec::new());
    // What b carried is gone: its device is given to a job that waits.
    assert_eq!(world.orders().len(), 1);
    world.until(1089.0);
    assert!(world.orders().contains(&"revoke 1.1".to_string()));
    let standing = |world: &World| world.engine.explain(JobId(1)).unwrap().standing;
    // A worker that is there all the same stops by itself at 1090, and has 10 s for that.
    world.until(1099.0);
    assert!(matches!(standing(&world), Standing::OutOfReach { .. }));
    world.until(1101.0);
    assert!(matches!(standing(&world), Standing::Queued { .. }));
}

#[test]
fn a_late_call_does_not_play_missed_rounds() {
    let mut world = busy();
    world.said();
    world.now_s = 100_000.0;
    world.tell(Event::Tick);
    let begun = |said: &[Action]| {
        said.iter().filter(|action| matches!(action, Action::RoundStarted { .. })).count()
    };
    assert!(begun(&world.said()) <= 1);
    assert_eq!(world.engine.round(), 1000);
}

#[test]
fn an_eta_brackets_the_expectation() {
    let mut world = busy();
    world.tell(Event::EpochDone {
        job: JobId(1),
        lease_epoch: 1,
        epochs: 3,
        batch: 64,
        duration_s: 4.0,
    });
    let eta = world.engine.eta(JobId(1)).unwrap();
    // 97 epochs of 4 s; it has its device until 100, then contention 2 as throughout.
    assert!((eta.expected_s - (100.0 + (97.0 * 4.0 - 50.0) * 2.0)).abs() < 1e-6, "{eta:?}");
    assert!(eta.earliest_s < eta.expected_s && eta.expected_s < eta.latest_s);
    let rho_hat = world.engine.explain(JobId(1)).unwrap().rho_hat.unwrap();
    // (50 + 97 * 4 * 2) / ((50 + 97 * 4) * 2), eq. 9.
    assert!((rho_hat - (50.0 + 776.0) / (438.0 * 2.0)).abs() < 1e-9, "{rho_hat}");
}
