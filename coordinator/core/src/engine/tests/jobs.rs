//! Jobs: failures, limits, dependencies, bad input.

use super::*;

fn submit(world: &mut World, change: impl FnOnce(&mut Submission)) {
    let mut submission = World::submission(1, 1);
    change(&mut submission);
    world.tell(Event::JobSubmitted(Box::new(submission)));
}

#[test]
fn retries_are_bounded_and_back_off() {
    let mut world = World::new(&[1]);
    submit(&mut world, |submission| submission.terms.retries = Some(2));
    let mut waits = Vec::new();
    for lease_epoch in 1..=3 {
        let before_s = world.now_s;
        world.gone(1, lease_epoch, "a", ReleaseReason::Exited { code: 3 });
        world.until(before_s + 60.0);
        let orders = world.orders();
        waits.push(orders.iter().find(|o| !o.starts_with("start")).unwrap().clone());
    }
    assert_eq!(waits[0], "retry 1 at 5: it exited with code 3");
    assert_eq!(waits[1], "retry 1 at 70: it exited with code 3");
    assert!(waits[2].contains("3 failures without a checkpoint between them, last: it exited"));
}

#[test]
fn a_checkpoint_clears_the_count() {
    let mut world = World::new(&[1]);
    submit(&mut world, |submission| submission.terms.retries = Some(1));
    for lease_epoch in 1..=5 {
        world.started(1, lease_epoch);
        world.checkpoint(1, lease_epoch, lease_epoch as f64);
        world.gone(1, lease_epoch, "a", ReleaseReason::Signalled { signal: 9 });
        world.until(world.now_s + 6.0);
    }
    assert!(world.orders().iter().all(|order| !order.starts_with("end")));
}

/// Whoever stops a program by hand gives it back as often as it gets on in between.
#[test]
fn to_yield_unasked_is_a_failure_unless_it_got_on() {
    for advances in [true, false] {
        let mut world = World::new(&[1]);
        submit(&mut world, |submission| submission.terms.retries = Some(0));
        for lease_epoch in 1..=10 {
            world.started(1, lease_epoch);
            world.checkpoint(1, lease_epoch, if advances { lease_epoch as f64 } else { 1.0 });
            world.gone(1, lease_epoch, "a", ReleaseReason::Yielded);
            let until_s = world.now_s + 400.0;
            while world.engine.lease(JobId(1)).is_none() && world.now_s < until_s {
                world.until(world.now_s + 1.0);
            }
        }
        let orders = world.orders();
        let starts = orders.iter().filter(|order| order.starts_with("start")).count();
        // The first one got on; then there are as many retries as for what is lost.
        let expected = if advances { 11 } else { 1 + 1 + settings().retries as usize };
        assert_eq!(starts, expected, "{orders:?}");
        let over = orders.iter().any(|order| order.contains("was not") && order.contains("end 1"));
        assert_eq!(over, !advances, "{orders:?}");
    }
}

/// Its program runs, and is taken for a plain command, before it says what it is.
#[test]
fn a_batch_size_that_is_declared_late_is_the_first_one() {
    let mut world = World::new(&[1]);
    submit(&mut world, |submission| {
        submission.terms.exit_zero_finishes = true;
        submission.spec.initial_batch = 1;
    });
    world.started(1, 1);
    let declared = Declaration { initial_batch: Some(16), ..Declaration::default() };
    world.tell(Event::JobDeclared { job: JobId(1), declaration: Box::new(declared) });
    world.started(1, 1);
    let batches: Vec<u32> =
        world.engine.progress(JobId(1)).unwrap().regimes.iter().map(|it| it.batch).collect();
    assert_eq!(batches, [16]);
    // A later start of a job that has trained begins no other regime.
    world.tell(Event::EpochDone {
        job: JobId(1),
        lease_epoch: 1,
        epochs: 1,
        batch: 32,
        duration_s: 9.0,
    });
    world.started(1, 1);
    assert_eq!(world.engine.progress(JobId(1)).unwrap().regimes.last().unwrap().batch, 32);
}

/// Its runner ended it with its lease, while its machine was cut off.
#[test]
fn a_plain_command_that_yields_is_not_blamed() {
    let mut world = World::new(&[1]);
    submit(&mut world, |submission| {
        submission.terms.exit_zero_finishes = true;
        submission.terms.retries = Some(0);
    });
    world.started(1, 1);
    world.gone(1, 1, "a", ReleaseReason::Yielded);
    assert_eq!(world.orders(), ["start 1.1 on a0", "start 1.2 on a0"]);
}

#[test]
fn what_was_killed_for_not_yielding_is_told() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    world.started(1, 1);
    world.tell(Event::JobHeld { job: JobId(1) });
    world.until(31.0);
    world.gone(1, 1, "a", ReleaseReason::Killed);
    let told = world.engine.explain(JobId(1)).unwrap().last_failure.unwrap();
    assert_eq!(told, "asked to yield, it did not within its grace of 30 s and was killed");
    assert_eq!(world.engine.explain(JobId(1)).unwrap().failures, 0);
}

#[test]
fn a_job_that_nothing_can_host_is_nobody_s_contention() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    world.submit(2, 1);
    let contention = |world: &World| world.engine.explain(JobId(1)).unwrap().contention;
    assert_eq!(contention(&world), 2.0);
    world.submit(3, 4);
    submit_other_kind(&mut world, 4);
    assert_eq!(contention(&world), 2.0);
    world.until(10.0);
    assert_eq!(world.engine.explain(JobId(1)).unwrap().contention_mean, 2.0);
    // With a machine for one of them it competes for five devices in all, of one kind.
    world.join("b", 4, Vec::new());
    assert_eq!(contention(&world), 3.0 / 5.0);
    world.tell(Event::JobCancelled { job: JobId(3), why: String::new() });
    assert_eq!(contention(&world), 2.0 / 5.0);
    // Without a machine, as after a start, no job is offered to a policy.
    world.tell(Event::Started);
    assert_eq!(world.engine.view_now().0.jobs, []);
    world.join("a", 1, Vec::new());
    assert_eq!(world.engine.view_now().0.jobs.len(), 2);
}

fn submit_other_kind(world: &mut World, id: u64) {
    let mut submission = World::submission(id, 1);
    submission.demand.kind = Some("other".into());
    world.tell(Event::JobSubmitted(Box::new(submission)));
}

#[test]
fn programs_that_fail_do_not_cost_the_node() {
    let mut world = World::new(&[1]);
    for id in 1..=5 {
        let mut submission = World::submission(id, 1);
        submission.terms.retries = Some(0);
        world.tell(Event::JobSubmitted(Box::new(submission)));
        world.gone(id, 1, "a", ReleaseReason::Exited { code: 127 });
    }
    assert!(world.orders().iter().all(|order| !order.starts_with("set aside")));
}

#[test]
fn a_node_that_starts_nothing_is_set_aside() {
    let mut world = World::new(&[1]);
    for id in 1..=3 {
        world.submit(id, 1);
        world.gone(id, 1, "a", ReleaseReason::StartFailed { why: "no space".into() });
    }
    assert!(world.orders().contains(&"set aside a".to_string()));
}

#[test]
fn exit_code_zero_finishes_only_plain_commands() {
    for (plain, expect) in [(true, "end 1: Finished { step: None }"), (false, "retry 1 at 5")] {
        let mut world = World::new(&[1]);
        submit(&mut world, |submission| submission.terms.exit_zero_finishes = plain);
        world.gone(1, 1, "a", ReleaseReason::Exited { code: 0 });
        assert!(world.orders()[1].starts_with(expect));
    }
}

/// Shorter than the time between two signs of life, and between two rounds.
#[test]
fn a_short_time_limit_is_kept_to_the_second() {
    let mut world = World::new(&[1]);
    submit(&mut world, |submission| submission.terms.time_limit_s = Some(3.0));
    world.orders();
    world.until(2.0);
    world.started(1, 1);
    world.until(4.9);
    assert_eq!(world.orders(), Vec::<String>::new());
    world.until(5.0);
    assert_eq!(world.orders(), ["yield 1.1 by 35", "end 1: TimeLimit"]);
}

/// Complete is complete: only its start was not used for what it did.
#[test]
fn what_a_finished_plain_command_has_run_is_not_wasted() {
    for (code, wasted_gpu_s) in [(0, 5.0), (1, 25.0)] {
        let mut world = World::new(&[1]);
        submit(&mut world, |submission| {
            submission.terms.exit_zero_finishes = true;
            submission.terms.retries = Some(0);
        });
        world.until(5.0);
        world.started(1, 1);
        world.until(25.0);
        world.gone(1, 1, "a", ReleaseReason::Exited { code });
        let ends: Vec<f64> = world
            .said()
            .iter()
            .filter_map(|action| match action {
                Action::JobEnded { summary, .. } => Some(summary.wasted_gpu_s),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [wasted_gpu_s], "exit code {code}");
    }
}

#[test]
fn a_time_limit_ends_a_job() {
    let mut world = World::new(&[1]);
    submit(&mut world, |submission| submission.terms.time_limit_s = Some(250.0));
    world.now_s = 10.0;
    world.started(1, 1);
    world.train_until(259.0);
    assert_eq!(world.orders(), ["start 1.1 on a0"]);
    world.train_until(260.0);
    assert_eq!(world.orders(), ["yield 1.1 by 290", "end 1: TimeLimit"]);
}

#[test]
fn jobs_wait_for_others_and_end_with_them() {
    let mut world = World::new(&[4]);
    world.submit(1, 1);
    for (id, on) in [(2, 1), (3, 2)] {
        let mut submission = World::submission(id, 1);
        submission.after = vec![JobId(on)];
        world.tell(Event::JobSubmitted(Box::new(submission)));
    }
    assert_eq!(world.orders(), ["start 1.1 on a0"]);
    world.tell(Event::Finished { job: JobId(1), lease_epoch: 1, step: 1 });
    assert_eq!(world.orders()[1..], ["start 2.1 on a1"]);
    world.tell(Event::JobCancelled { job: JobId(2), why: "by ann".into() });
    let expect = [
        "yield 2.1 by 30",
        "end 2: Cancelled { why: \"by ann\" }",
        "end 3: DependencyFailed { on: JobId(2) }",
    ];
    assert_eq!(world.orders(), expect);
    let mut late = World::submission(4, 1);
    late.after = vec![JobId(3)];
    world.tell(Event::JobSubmitted(Box::new(late)));
    assert_eq!(world.orders(), ["end 4: DependencyFailed { on: JobId(3) }"]);
}

#[test]
fn bad_input_is_refused_with_the_field() {
    let mut world = World::new(&[1]);
    submit(&mut world, |submission| submission.spec.gpus = 0);
    submit(&mut world, |submission| submission.terms.grace_s = Some(f64::NAN));
    submit(&mut world, |submission| submission.after = vec![JobId(7)]);
    submit(&mut world, |_| {});
    submit(&mut world, |_| {});
    world.started(8, 1);
    world.tell(Event::WeightChanged { job: JobId(1), weight: -1.0 });
    world.tell(Event::WorkerStarted { job: JobId(1), lease_epoch: 1, epochs_done: f64::NAN });
    world.tell(Event::WorkerStarted { job: JobId(1), lease_epoch: 1, epochs_done: 1e9 });
    let expect = [
        "refuse 1: gpus is 0, expected at least 1",
        "refuse 1: grace_s is NaN, expected a finite number, 0 or more",
        "refuse 1: after is 7, expected jobs that were submitted before",
        "start 1.1 on a0",
        "refuse 1: a job of this number exists",
        "refuse 8: there is no such job",
        "refuse 1: weight is -1, expected a finite number above 0",
        "refuse 1: epochs_done is NaN, expected 0 to 100 epochs",
        "refuse 1: epochs_done is 1000000000, expected 0 to 100 epochs",
    ];
    assert_eq!(world.orders(), expect);
}

#[test]
fn time_never_goes_back() {
    let mut world = World::new(&[1]);
    world.now_s = 50.0;
    world.submit(1, 1);
    let mut early = world.engine.handle(Event::Tick, 20.0);
    early.extend(world.engine.handle(Event::Tick, f64::NAN));
    assert_eq!(early, []);
    assert_eq!(world.engine.now_s(), 50.0);
}

#[test]
fn the_declaration_refines_the_spec() {
    let mut world = World::new(&[1]);
    world.submit(1, 1);
    let declaration = Declaration { epochs_total: Some(7), ..Declaration::default() };
    world.tell(Event::JobDeclared { job: JobId(1), declaration: Box::new(declaration) });
    assert_eq!(world.engine.spec(JobId(1)).unwrap().epochs_total, 7);
    let bad = Declaration { epochs_total: Some(0), ..Declaration::default() };
    world.tell(Event::JobDeclared { job: JobId(1), declaration: Box::new(bad) });
    assert_eq!(world.orders()[1], "refuse 1: epochs_total is 0, expected at least 1");
    assert_eq!(world.engine.spec(JobId(1)).unwrap().epochs_total, 7);
}
