//! ETAs: by the plan as far as it reaches.

use super::*;
use crate::types::RoundPlan;

/// Has job 2 in the second and third of every five rounds to come, and job 1 in the rest.
struct Fixed;

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let rounds = (0..5).map(|round| vec![JobId(if matches!(round, 1 | 2) { 2 } else { 1 })]);
        let backfill = view.jobs.iter().map(|job| job.id).collect();
        let rounds = rounds.collect();
        Decision::Plan(RoundPlan { first_round: view.round, rounds, backfill, appraisal: None })
    }
}

/// Job 1 trains on the only device in rounds of 100 s, job 2 waits; a plan is in force.
fn world(epochs_of_two: u32) -> World {
    let engine = Engine::new(settings(), Box::new(Fixed), Box::new(Same)).unwrap();
    let mut world = World { engine, now_s: 0.0, said: Vec::new() };
    world.join("a", 1, Vec::new());
    world.submit(1, 1);
    world.started(1, 1);
    let mut second = World::submission(2, 1);
    second.spec.epochs_total = epochs_of_two;
    world.tell(Event::JobSubmitted(Box::new(second)));
    world.train_until(150.0);
    let (epochs, batch, duration_s) = (15, 32, 10.0);
    world.tell(Event::EpochDone { job: JobId(1), lease_epoch: 1, epochs, batch, duration_s });
    let Some(Decision::Plan(plan)) = world.engine.state.mechanism.decision() else {
        panic!("no plan")
    };
    assert_eq!(plan.first_round, 1, "made for the round that goes on");
    world
}

#[test]
fn a_planned_job_ends_in_a_planned_round() {
    // Rounds 2 and 3 begin at 200 and at 300; an epoch is expected to take 10 s.
    for (epochs, end_s) in [(4, 240.0), (10, 300.0), (15, 350.0), (20, 400.0)] {
        let eta = world(epochs).engine.eta(JobId(2)).unwrap();
        assert!((eta.expected_s - end_s).abs() < 1e-6, "{epochs} epochs: {eta:?}");
        assert!(eta.earliest_s <= eta.expected_s && eta.expected_s <= eta.latest_s, "{eta:?}");
    }
}

#[test]
fn what_the_plan_leaves_over_is_slowed_down_by_contention() {
    // 50 s are left when its rounds end at 400; two jobs share one device.
    let eta = world(25).engine.eta(JobId(2)).unwrap();
    assert!((eta.expected_s - (400.0 + 50.0 * 2.0)).abs() < 1e-6, "{eta:?}");
}

#[test]
fn a_running_job_counts_what_is_left_of_its_round() {
    // 100 epochs of 10 s, of which 150 s are done: 50 s in this round, then rounds 4 and 5, and the
    // rest at half speed from 600 on.
    let eta = world(4).engine.eta(JobId(1)).unwrap();
    assert!((eta.expected_s - (600.0 + (850.0 - 50.0 - 200.0) * 2.0)).abs() < 1e-6, "{eta:?}");
}

#[test]
fn a_job_that_the_plan_passes_over_ends_after_it() {
    let mut world = world(4);
    world.submit(3, 1);
    world.train_until(295.0);
    // Planned anew, for round 3 on and up to 800, without job 3, which it knows.
    let eta = world.engine.eta(JobId(3)).unwrap();
    assert!(eta.expected_s > 700.0 + 1000.0, "{eta:?}");
}
