//! Rounds: who gets devices when.

use super::*;

#[test]
fn idle_devices_are_given_at_once() {
    let mut world = World::new(&[2]);
    world.submit(1, 1);
    world.submit(2, 1);
    world.submit(3, 1);
    assert_eq!(world.orders(), ["start 1.1 on a0", "start 2.1 on a1"]);
    world.started(1, 1);
    world.now_s = 30.0;
    world.tell(Event::Finished { job: JobId(1), lease_epoch: 1, step: 7 });
    assert_eq!(world.orders(), ["end 1: Finished { step: Some(7) }"]);
    world.gone(1, 1, "a", ReleaseReason::Exited { code: 0 });
    assert_eq!(world.orders(), ["start 3.1 on a0"], "within the round");
}

#[test]
fn the_least_served_takes_over_at_the_boundary() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    world.submit(2, 1);
    world.started(1, 1);
    assert_eq!(world.orders(), ["start 1.1 on a0"]);
    world.train_until(90.0);
    assert_eq!(world.orders(), ["yield 1.1 by 120"], "ten seconds before the boundary");
    world.now_s = 93.0;
    world.checkpoint(1, 1, 4.5);
    world.gone(1, 1, "a", ReleaseReason::Yielded);
    assert_eq!(world.orders(), ["start 2.1 on a0"], "as soon as the device is free");
    world.started(2, 1);
    world.train_until(187.0);
    assert_eq!(world.orders(), [""; 0], "the lease was extended at 100");
    world.train_until(190.0);
    assert_eq!(world.orders(), ["yield 2.1 by 220"]);
    world.gone(2, 1, "a", ReleaseReason::Yielded);
    assert_eq!(world.orders(), ["start 1.2 on a0 from 4.5"]);
}

#[test]
fn a_lease_is_not_taken_back_before_it_has_trained() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    world.submit(2, 1);
    assert_eq!(world.orders(), ["start 1.1 on a0"]);
    // A start as long as a round.
    world.train_until(95.0);
    assert_eq!(world.orders(), [""; 0]);
    world.started(1, 1);
    // Its shortest run, 20 s, lies within the second round.
    world.train_until(190.0);
    assert_eq!(world.orders(), ["yield 1.1 by 220"]);
}

#[test]
fn a_measured_yield_is_asked_for_later() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    world.submit(2, 1);
    let mut lease = [0, 0];
    for round in 1..=3_u64 {
        let job = 2 - round % 2;
        lease[job as usize - 1] += 1;
        world.started(job, lease[job as usize - 1]);
        world.train_until(100.0 * round as f64 - 10.1);
        world.orders();
        world.train_until(100.0 * round as f64 - if round > 2 { 2.5 } else { 10.0 });
        assert!(world.orders()[0].starts_with("yield"), "round {round}");
        world.now_s += 2.0;
        world.gone(job, lease[job as usize - 1], "a", ReleaseReason::Yielded);
        world.orders();
    }
}

#[test]
fn a_gang_is_started_whole_and_waits_for_its_last_device() {
    let mut world = World::new(&[2]);
    world.submit(1, 1);
    world.submit(2, 1);
    world.started(1, 1);
    world.started(2, 1);
    world.submit(3, 2);
    world.orders();
    world.train_until(95.0);
    assert_eq!(world.orders(), ["yield 1.1 by 120", "yield 2.1 by 120"]);
    world.gone(1, 1, "a", ReleaseReason::Yielded);
    assert_eq!(world.orders(), [""; 0], "its device is kept for the gang");
    world.until(104.0);
    world.gone(2, 1, "a", ReleaseReason::Yielded);
    assert_eq!(world.orders(), ["start 3.1 on a0+1"]);
}

#[test]
fn what_just_started_is_not_stopped() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.train_until(85.0);
    world.tell(Event::Finished { job: JobId(1), lease_epoch: 1, step: 1 });
    world.submit(2, 1);
    world.submit(3, 1);
    world.gone(1, 1, "a", ReleaseReason::Exited { code: 0 });
    world.orders();
    // Both have had nothing; 2 started at 85 and is within its shortest run of 20 s at 100.
    world.train_until(150.0);
    assert_eq!(world.orders(), [""; 0]);
    world.started(2, 1);
    world.train_until(190.0);
    assert_eq!(world.orders(), ["yield 2.1 by 220"]);
}

#[test]
fn a_job_too_large_does_not_block_others() {
    let mut world = World::new(&[2]);
    world.submit(1, 3);
    world.submit(2, 2);
    assert_eq!(world.orders(), ["start 2.1 on a0+1"]);
    let standing = world.engine.explain(JobId(1)).unwrap().standing;
    assert_eq!(standing, Standing::TooLarge { gpus: 2 });
    world.join("b", 1, Vec::new());
    world.started(2, 1);
    world.train_until(95.0);
    assert_eq!(world.orders(), ["yield 2.1 by 120"]);
}

#[test]
fn weights_and_caps_count() {
    let mut world = World::new(&[2]);
    world.tell(Event::UserChanged { user: "u".into(), weight: 1.0, gpus_max: Some(1) });
    for id in [1, 2] {
        let mut submission = World::submission(id, 1);
        submission.user = "u".into();
        world.tell(Event::JobSubmitted(Box::new(submission)));
    }
    assert_eq!(world.orders(), ["start 1.1 on a0"], "the user's cap is 1");
    let standing = world.engine.explain(JobId(2)).unwrap().standing;
    assert!(matches!(standing, Standing::Queued { user_cap: true, .. }), "{standing:?}");
    world.tell(Event::UserChanged { user: "u".into(), weight: 1.0, gpus_max: None });
    assert_eq!(world.orders(), ["start 2.1 on a1"]);
}

#[test]
fn nothing_wakes_an_empty_cluster() {
    let mut world = World::new(&[1]);
    assert_eq!(world.engine.wake_s(), None);
    world.submit(1, 1);
    world.tell(Event::Finished { job: JobId(1), lease_epoch: 1, step: 1 });
    world.gone(1, 1, "a", ReleaseReason::Exited { code: 0 });
    world.until(1000.0);
    assert_eq!(world.engine.wake_s(), None);
    world.submit(2, 1);
    assert!(world.engine.wake_s().is_some_and(|wake_s| wake_s <= 1100.0));
}

#[test]
fn a_plan_beside_the_round_is_used_and_a_late_one_does_not_delay() {
    let settings = Settings { planning: Planning::Beside, plan_budget_s: 20.0, ..settings() };
    let mut world = World::with(settings, &[1]);
    world.submit(1, 1);
    world.submit(2, 1);
    world.started(1, 1);
    world.train_until(71.0);
    let requests = |said: Vec<Action>| -> Vec<PlanRequest> {
        let plans = said.into_iter().filter_map(|action| match action {
            Action::Plan(request) => Some(*request),
            _ => None,
        });
        plans.collect()
    };
    let asked = requests(world.said());
    // At once, for the first plan there is, and before the round is fixed.
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|it| (it.due_s, it.view.round) == (90.0, 1)), "{asked:?}");
    assert_eq!(asked[0].view.jobs.len(), 1);
    let late = asked[0].answer(&mut LeastServed).unwrap();
    world.tell(Event::Planned(Box::new(late)));
    assert_eq!(world.orders(), ["refuse -: plan 1 is not the one asked for"]);
    let answer = asked[1].answer(&mut LeastServed).unwrap();
    world.tell(Event::Planned(Box::new(answer.clone())));
    world.tell(Event::Planned(Box::new(answer)));
    assert_eq!(world.orders(), ["refuse -: plan 2 is not the one asked for"]);
    world.train_until(90.0);
    assert_eq!(world.orders(), ["yield 1.1 by 120"]);
    world.gone(1, 1, "a", ReleaseReason::Yielded);
    world.started(2, 1);
    world.orders();
    // No answer for the next round: it goes on with the order there is.
    world.train_until(201.0);
    assert_eq!(world.engine.round(), 2);
}
