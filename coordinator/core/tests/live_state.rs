//! Budgets are paid out in GPU time, and a live engine can be played on.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

use shockwave_core::engine::{
    Demand, Engine, Event, Outcome as JobEnd, Planning, Settings, Submission, Terms,
};
use shockwave_core::policies;
use shockwave_core::predictor::{self, Profile};
use shockwave_core::simulator::product::{
    Costs, Fork, ForkOutcome, Setting, expected, play_on, simulate,
};
use shockwave_core::simulator::workload::Adapts;
use shockwave_core::simulator::{Observer, Outcome, Workload, WorkloadJob};
use shockwave_core::types::{Adaptation, DeviceInfo, JobId, JobSpec, NodeId, NodeInfo};

const SAMPLES: u64 = 1000;
const BATCH: u32 = 100;

/// A job of `epochs` epochs of `epoch_s` seconds.
fn job(id: u64, weight: f64, epochs: u32, epoch_s: f64) -> WorkloadJob {
    let steps = SAMPLES as f64 / f64::from(BATCH);
    WorkloadJob {
        spec: JobSpec {
            id: JobId(id),
            gpus: 1,
            weight,
            arrival_s: 0.0,
            epochs_total: epochs,
            samples_per_epoch: SAMPLES,
            initial_batch: BATCH,
            adaptation: Adaptation::Static,
            family: "one".into(),
        },
        model: String::new(),
        steps_total: 0,
        speeds: [(BATCH, steps / epoch_s)].into(),
        adapts: Adapts::Never,
        schedule: vec![(0, BATCH)],
        exclusive_s: f64::from(epochs) * epoch_s,
        slo_s: None,
    }
}

/// Plays jobs on one GPU.
fn play(workload: &Workload, policy: &str) -> Outcome {
    let mut policy = policies::by_name(policy).unwrap();
    let predictor = predictor::by_name(predictor::DEFAULT, Profile::default()).unwrap();
    simulate(workload, &Setting::of(1), policy.as_mut(), predictor, &mut ()).unwrap()
}

/// Jobs of 200 rounds each, of these weights.
fn long(weights: [f64; 3]) -> Workload {
    let job = |(id, weight): (u64, f64)| job(id, weight, 400, 60.0);
    Workload { jobs: (1..).zip(weights).map(job).collect() }
}

/// Under weighted proportional sharing the job of weight 2 has half of the GPU and ends after 400
/// rounds, the others share the rest and end after 600. No job may end later than that by more than
/// what starts and yields cost, whichever of them came first.
#[test]
fn a_job_of_weight_two_ends_as_with_its_share() {
    let round_s = 120.0;
    for heavy in 0..3 {
        let mut weights = [1.0; 3];
        weights[heavy] = 2.0;
        let outcome = play(&long(weights), "shockwave");
        for (place, job) in outcome.jobs.iter().enumerate() {
            let fair_s = if place == heavy { 400.0 } else { 600.0 } * round_s;
            let restarts: u32 = outcome.jobs.iter().map(|job| job.restarts + 1).sum();
            let limit_s = fair_s * 1.02 + f64::from(restarts) * 20.0;
            assert!(job.jct_s <= limit_s, "{weights:?}: {job:?} of {fair_s} s");
        }
        let others = outcome.jobs.iter().enumerate().filter(|(place, _)| *place != heavy);
        let first_other_s = others.map(|(_, job)| job.jct_s).fold(f64::INFINITY, f64::min);
        assert!(outcome.jobs[heavy].jct_s <= first_other_s, "{weights:?}: {:?}", outcome.jobs);
    }
}

/// A policy of shares pays budgets out round by round.
#[test]
fn a_policy_of_shares_gives_weight_two_half_of_the_rounds() {
    let outcome = play(&long([1.0, 2.0, 1.0]), "gavel");
    let rounds = &outcome.rounds[..120];
    let had = |id| rounds.iter().filter(|round| round.jobs.contains(&JobId(id))).count();
    let shares = [had(1), had(2), had(3)].map(|rounds| rounds as f64 / 120.0);
    for (share, due) in shares.iter().zip([0.25, 0.5, 0.25]) {
        assert!((share - due).abs() <= 0.05, "{shares:?}");
    }
}

fn node(name: &str, gpus: u32) -> NodeInfo {
    let device = |slot| DeviceInfo { slot, kind: "gpu".into(), memory_bytes: 0 };
    NodeInfo { node: NodeId(name.into()), devices: (0..gpus).map(device).collect(), until_s: None }
}

fn submission(spec: JobSpec, held: bool) -> Event {
    let (demand, terms) = (Demand::default(), Terms::default());
    Event::JobSubmitted(Box::new(Submission {
        spec,
        user: "ada".into(),
        demand,
        terms,
        after: Vec::new(),
        held,
    }))
}

/// An engine in which job 1 trains since a while, job 2 waits, and job 3 is on hold.
fn live(epochs: u32) -> Engine {
    let settings = Settings { planning: Planning::Beside, ..Settings::default() };
    let policy = policies::by_name("shockwave").unwrap();
    let predictor = predictor::by_name(predictor::DEFAULT, Profile::default()).unwrap();
    let mut engine = Engine::new(settings, policy, predictor).unwrap();
    engine.handle(Event::Started, 0.0);
    engine.handle(Event::NodeJoined { node: node("n", 1), keeps: Vec::new() }, 0.0);
    engine.handle(submission(job(1, 1.0, epochs, 60.0).spec, false), 0.0);
    engine.handle(Event::WorkerStarted { job: JobId(1), lease_epoch: 1, epochs_done: 0.0 }, 5.0);
    for done in 1..=5_u32 {
        let told = Event::EpochDone {
            job: JobId(1),
            lease_epoch: 1,
            epochs: done,
            batch: BATCH,
            duration_s: 60.0,
        };
        let at_s = 5.0 + 60.0 * f64::from(done);
        engine.handle(told, at_s);
        engine
            .handle(Event::LeaseRenewed { job: JobId(1), lease_epoch: 1, epochs_done: None }, at_s);
    }
    engine.handle(submission(job(2, 1.0, epochs, 60.0).spec, false), 310.0);
    engine.handle(submission(job(3, 1.0, 20, 60.0).spec, true), 311.0);
    engine
}

fn fork(changes: Vec<Event>, more: Vec<WorkloadJob>, observer: &mut dyn Observer) -> ForkOutcome {
    fork_of(live(20), changes, more, observer)
}

fn fork_of(
    engine: Engine,
    changes: Vec<Event>,
    more: Vec<WorkloadJob>,
    observer: &mut dyn Observer,
) -> ForkOutcome {
    let mut workload = expected(&engine);
    workload.jobs.extend(more);
    let costs = Costs { start_s: 5.0, save_s: 1.0, ..Costs::default() };
    let fork = Fork { engine, now_s: 312.0, changes, costs, horizon_s: 1e7 };
    let mut policy = policies::by_name("shockwave").unwrap();
    let predictor = predictor::by_name(predictor::DEFAULT, Profile::default()).unwrap();
    play_on(fork, &workload, policy.as_mut(), predictor, observer).unwrap()
}

#[test]
fn a_live_state_is_played_on_as_it_is_forecast() {
    let now = fork(Vec::new(), Vec::new(), &mut ());
    assert!(now.complete);
    let ended: Vec<u64> = now.ends.keys().map(|id| id.0).collect();
    assert_eq!(ended, [1, 2], "what is on hold does not end");
    // 15 epochs are left of the first, 20 of the second, on one device.
    let last_s = now.ends.values().map(|end| end.after_s).fold(0.0, f64::max);
    assert!((2000.0..2600.0).contains(&last_s), "{now:?}");
    assert!(now.ends.values().all(|end| matches!(end.outcome, JobEnd::Finished { .. })));

    let join = Event::NodeJoined { node: node("more", 1), keeps: Vec::new() };
    let more = fork(vec![join], Vec::new(), &mut ());
    assert!(more.ends[&JobId(1)].after_s < 1000.0, "15 epochs without a break: {more:?}");
    assert!(more.ends[&JobId(2)].after_s < 1500.0, "{more:?}");

    let fourth = job(4, 1.0, 20, 60.0);
    let added = fork(vec![submission(fourth.spec.clone(), false)], vec![fourth], &mut ());
    assert_eq!(added.ends.len(), 3);
    assert!(added.ends[&JobId(2)].after_s > now.ends[&JobId(2)].after_s, "{added:?}");

    let cancelled = Event::JobCancelled { job: JobId(1), why: "what if".into() };
    let alone = fork(vec![cancelled], Vec::new(), &mut ());
    assert!(alone.ends[&JobId(2)].after_s < now.ends[&JobId(2)].after_s, "{alone:?}");
}

/// Jobs far longer than the planning window: within it, budgets decide who runs.
#[test]
fn a_weight_that_is_changed_counts_from_the_next_plan_on() {
    let now = fork_of(live(400), Vec::new(), Vec::new(), &mut ());
    let changed = Event::WeightChanged { job: JobId(2), weight: 8.0 };
    let heavier = fork_of(live(400), vec![changed], Vec::new(), &mut ());
    let ends_s = |outcome: &ForkOutcome| outcome.ends[&JobId(2)].after_s;
    assert!(ends_s(&heavier) < 0.75 * ends_s(&now), "{heavier:?}, {now:?}");
}

/// Rounds of two seconds, and a start that takes fifteen: whoever has started trains at least until
/// the next boundary, and in the end everybody is done.
#[test]
fn rounds_shorter_than_a_start_come_to_an_end() {
    let settings = Settings {
        round_s: 2.0,
        ttl_s: 32.0,
        lead_s: 2.0 / 12.0,
        plan_budget_s: 2.0 / 8.0,
        min_run_s: 0.5,
        grace_s: 2.0,
        planning: Planning::Beside,
        ..Settings::default()
    };
    let policy = policies::by_name("shockwave").unwrap();
    let predictor = predictor::by_name(predictor::DEFAULT, Profile::default()).unwrap();
    let mut engine = Engine::new(settings, policy, predictor).unwrap();
    engine.handle(Event::Started, 0.0);
    engine.handle(Event::NodeJoined { node: node("n", 1), keeps: Vec::new() }, 0.0);
    for id in 1..=2 {
        engine.handle(submission(job(id, 1.0, 10, 60.0).spec, false), 0.0);
    }
    let mut workload = expected(&engine);
    workload.jobs.sort_by_key(|job| job.spec.id);
    let costs = Costs { start_s: 15.0, save_s: 1.6, plan_s: 0.25, ..Costs::default() };
    let fork = Fork { engine, now_s: 0.5, changes: Vec::new(), costs, horizon_s: 1e6 };
    let mut policy = policies::by_name("shockwave").unwrap();
    let predictor = predictor::by_name(predictor::DEFAULT, Profile::default()).unwrap();
    let outcome = play_on(fork, &workload, policy.as_mut(), predictor, &mut ()).unwrap();
    assert!(outcome.complete && outcome.ends.len() == 2, "{outcome:?}");
    let last_s = outcome.ends.values().map(|end| end.after_s).fold(0.0, f64::max);
    assert!((1200.0..13_000.0).contains(&last_s), "{outcome:?}");
}

#[test]
fn it_stops_where_its_observer_has_had_enough() {
    struct Few(u32);
    impl Observer for Few {
        fn round_ended(&mut self, _now_s: f64, _done: usize, _jobs: usize) {}
        fn goes_on(&mut self) -> bool {
            self.0 -= 1;
            self.0 > 0
        }
    }
    let cut = fork(Vec::new(), Vec::new(), &mut Few(3));
    assert!(!cut.complete && cut.ends.is_empty(), "{cut:?}");
}
