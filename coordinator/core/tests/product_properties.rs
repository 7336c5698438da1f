//! Properties of the product semantics over random traces and faults, seen from outside the
//! engine: what its processes really did.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, HashMap};

use common::{recipes, workload};
use proptest::prelude::*;
use shockwave_core::engine::{Action, Outcome as JobEnd};
use shockwave_core::policies::{self, REGISTRY};
use shockwave_core::predictor::{self, Profile};
use shockwave_core::simulator::generate::Recipe;
use shockwave_core::simulator::product::{Setting, simulate};
use shockwave_core::simulator::{Faults, Observer, Outcome, Workload};
use shockwave_core::types::{JobId, NodeId, NodeShare};

/// Follows the virtual processes and checks what they do.
#[derive(Default)]
struct Auditor {
    gangs: HashMap<JobId, u32>,
    epochs: HashMap<JobId, f64>,
    /// Who has processes on which device.
    holders: BTreeMap<(NodeId, u32), (JobId, u64)>,
    /// Epochs of the newest committed checkpoint.
    committed: HashMap<JobId, f64>,
    /// Epochs from which and to which a lease has trained.
    trained: HashMap<(JobId, u64), (f64, f64)>,
    ended: HashMap<JobId, f64>,
    leases: u32,
}

impl Auditor {
    fn of(workload: &Workload) -> Self {
        let specs = || workload.jobs.iter().map(|job| &job.spec);
        Self {
            gangs: specs().map(|spec| (spec.id, spec.gpus)).collect(),
            epochs: specs().map(|spec| (spec.id, f64::from(spec.epochs_total))).collect(),
            ..Self::default()
        }
    }
}

impl Observer for Auditor {
    fn round_ended(&mut self, _now_s: f64, _done: usize, _jobs: usize) {}

    fn process(&mut self, now_s: f64, lease: (JobId, u64), share: &NodeShare, alive: bool) {
        for slot in &share.slots {
            let device = (share.node.clone(), *slot);
            if alive {
                let other = self.holders.insert(device, lease);
                assert_eq!(other, None, "two gangs on {}.{slot} at {now_s}", share.node);
            } else {
                assert_eq!(self.holders.remove(&device), Some(lease), "at {now_s}");
            }
        }
    }

    fn trained(&mut self, now_s: f64, lease: (JobId, u64), from: f64, to: f64) {
        let held = self.holders.values().filter(|holder| **holder == lease).count();
        assert_eq!(held, self.gangs[&lease.0] as usize, "a gang in part trains at {now_s}");
        let resumed = self.committed.get(&lease.0).copied().unwrap_or(0.0);
        let span = self.trained.entry(lease).or_insert((resumed, resumed));
        assert_eq!(span.1, from, "{lease:?} skips or repeats epochs at {now_s}");
        assert!(to > from && to <= self.epochs[&lease.0], "{lease:?} at {now_s}");
        span.1 = to;
    }

    fn ordered(&mut self, now_s: f64, action: &Action) {
        match action {
            Action::StartLease { lease, resume } => {
                self.leases += 1;
                assert_eq!(lease.placement.gpus(), self.gangs[&lease.job], "gang in part");
                assert!(!self.ended.contains_key(&lease.job), "job {} has ended", lease.job);
                let resumed = resume.as_ref().map(|checkpoint| checkpoint.epochs_done);
                assert_eq!(resumed, self.committed.get(&lease.job).copied(), "at {now_s}");
            }
            Action::CheckpointCommitted { job, checkpoint } => {
                let to = self.trained.get(&(*job, checkpoint.lease_epoch)).map(|span| span.1);
                let before = self.committed.insert(*job, checkpoint.epochs_done).unwrap_or(0.0);
                assert!(checkpoint.epochs_done >= before, "job {job} goes back at {now_s}");
                assert!(to.unwrap_or(before) >= checkpoint.epochs_done, "untrained epochs");
            }
            Action::JobEnded { job, outcome, .. } => {
                assert!(matches!(outcome, JobEnd::Finished { .. }), "{job}: {outcome:?}");
                let reached = self.trained.iter().filter(|(lease, _)| lease.0 == *job);
                let reached = reached.max_by_key(|(lease, _)| lease.1).unwrap().1.1;
                assert_eq!(reached, self.epochs[job], "job {job} ends early");
                assert_eq!(self.ended.insert(*job, now_s), None, "job {job} ends twice");
            }
            _ => {}
        }
    }
}

fn play(workload: &Workload, setting: &Setting, policy: &str) -> (Outcome, Auditor) {
    let mut auditor = Auditor::of(workload);
    let mut policy = policies::by_name(policy).unwrap();
    let predictor = predictor::by_name("restatement", Profile::default()).unwrap();
    let outcome = simulate(workload, setting, policy.as_mut(), predictor, &mut auditor).unwrap();
    assert_eq!(auditor.ended.len(), workload.jobs.len());
    assert!(auditor.holders.is_empty(), "devices are left held: {:?}", auditor.holders);
    for job in &outcome.jobs {
        let jct_s = auditor.ended[&job.id] - job.arrival_s;
        assert!((job.jct_s - jct_s).abs() < 1e-9);
    }
    (outcome, auditor)
}

fn setting(gpus: u32, per_node: u32, faults: Faults, seed: u64) -> Setting {
    Setting { gpus_per_node: per_node, faults, seed, ..Setting::of(gpus) }
}

fn faults() -> impl Strategy<Value = Faults> {
    let often = prop_oneof![Just(f64::INFINITY), 600.0..20_000.0_f64];
    (often.clone(), 5.0..2000.0_f64, often, 60.0..2000.0_f64, 1.0..4.0_f64, 0.0..60.0_f64).prop_map(
        |(loss_s, away_s, slow_s, spell_s, factor, late_s)| Faults {
            loss_s,
            away_s,
            slow_s,
            spell_s,
            factor,
            late_s,
            forecast: 0.0,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_policy_runs_the_service_to_the_end((recipe, gpus) in recipes(), per_node in 1_u32..5) {
        let workload = workload(&recipe);
        for (policy, _) in REGISTRY {
            let setting = setting(gpus, per_node, Faults::default(), 0);
            let (outcome, _) = play(&workload, &setting, policy);
            for (job, plan) in outcome.jobs.iter().zip(&workload.jobs) {
                // Nothing is trained twice, and nobody is faster than alone.
                prop_assert!((job.attained_s / plan.exclusive_s - 1.0).abs() < 1e-5);
                prop_assert!(job.jct_s >= plan.exclusive_s);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn faults_lose_no_job_and_no_epoch(
        (recipe, gpus) in recipes(),
        per_node in 1_u32..5,
        faults in faults(),
        seed: u64,
        policy in 0..REGISTRY.len(),
    ) {
        let workload = workload(&recipe);
        let setting = setting(gpus, per_node, faults, seed);
        let policy = REGISTRY[policy].0;
        let (outcome, _) = play(&workload, &setting, policy);
        let (again, _) = play(&workload, &setting, policy);
        prop_assert_eq!(outcome, again, "same seed, other result");
    }
}

/// A job that is alone comes up once and trains: its completion time is known.
#[test]
fn a_job_alone_takes_its_exclusive_time_and_one_start() {
    let workload = workload(&Recipe::published(1, 3));
    let (outcome, auditor) = play(&workload, &Setting::of(8), "shockwave");
    let expected_s = workload.jobs[0].exclusive_s + 15.0;
    let jct_s = outcome.jobs[0].jct_s;
    assert!((jct_s - expected_s).abs() < 1e-3, "{jct_s} s, {expected_s} s expected");
    assert_eq!((auditor.leases, outcome.jobs[0].restarts), (1, 0));
    assert!(
        (outcome.busy_gpu_s - workload.jobs[0].exclusive_s * f64::from(workload.jobs[0].spec.gpus))
            .abs()
            < 0.01
    );
}

#[test]
fn faults_cost_time_and_another_seed_is_another_run() {
    let workload = workload(&Recipe::published(12, 5));
    let faults = "loss=1,away=600,slow=1,factor=3,late=20".parse().unwrap();
    let calm = play(&workload, &setting(8, 2, Faults::default(), 1), "srpt").0;
    let first = play(&workload, &setting(8, 2, faults, 1), "srpt").0;
    let second = play(&workload, &setting(8, 2, faults, 2), "srpt").0;
    assert!(first.makespan_s > calm.makespan_s);
    assert_ne!(first, second);
    assert!(first.jobs.iter().map(|job| job.restarts).sum::<u32>() > 0);
}
