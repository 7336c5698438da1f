//! Properties of the published semantics and the round mechanism over random traces, for every
//! policy: no job lost, capacity kept, gangs whole, work conserved, same seed same result.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;

use common::{recipes, workload};
use proptest::prelude::*;
use shockwave_core::policies::{self, REGISTRY};
use shockwave_core::predictor::{self, Profile};
use shockwave_core::simulator::generate::Recipe;
use shockwave_core::simulator::{Outcome, Workload, published};

fn play(workload: &Workload, gpus: u32, policy: &str) -> Outcome {
    let mut policy = policies::by_name(policy).unwrap();
    let mut predictor = predictor::by_name("restatement", Profile::default()).unwrap();
    published::simulate(workload, gpus, policy.as_mut(), predictor.as_mut(), &mut ())
}

fn check(workload: &Workload, gpus: u32, policy: &str) {
    let outcome = play(workload, gpus, policy);
    assert_eq!(outcome.jobs.len(), workload.jobs.len());
    let gangs: HashMap<_, _> =
        workload.jobs.iter().map(|job| (job.spec.id, job.spec.gpus)).collect();
    for (job, plan) in outcome.jobs.iter().zip(&workload.jobs) {
        assert!(job.jct_s > 0.0, "{policy}: job {} never ended", job.id);
        // Credited epochs are the only work that is not done.
        assert!(job.attained_s > 0.0 && job.attained_s <= 2.0 * plan.exclusive_s + 240.0);
    }
    for round in &outcome.rounds {
        let mut ids = round.jobs.clone();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), round.jobs.len(), "{policy}: a job ran twice in a round");
        let used: u32 = round.jobs.iter().map(|id| gangs[id]).sum();
        assert!(used <= gpus, "{policy}: {used} of {gpus} GPUs");
        assert!(round.end_s - round.start_s <= 120.0 + 1e-6);
    }
    assert_eq!(play(workload, gpus, policy), outcome, "{policy}: same input, other result");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_policy_keeps_the_rules((recipe, gpus) in recipes()) {
        let workload = workload(&recipe);
        for (policy, _) in REGISTRY {
            check(&workload, gpus, policy);
        }
    }

    #[test]
    fn orders_leave_no_gpu_idle_that_a_waiting_gang_fits((recipe, gpus) in recipes()) {
        let workload = workload(&recipe);
        let outcome = play(&workload, gpus, "fifo");
        let gangs: HashMap<_, _> =
            workload.jobs.iter().map(|job| (job.spec.id, job.spec.gpus)).collect();
        for round in &outcome.rounds {
            let used: u32 = round.jobs.iter().map(|id| gangs[id]).sum();
            let waiting = outcome.jobs.iter().filter(|job| {
                let ends_s = job.arrival_s + job.jct_s;
                job.arrival_s <= round.start_s
                    && ends_s > round.end_s + 1.0
                    && !round.jobs.contains(&job.id)
            });
            for job in waiting {
                prop_assert!(job.gpus > gpus - used, "job {} could have run", job.id);
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_traces_and_others_do_not() {
    let recipe = Recipe::published(40, 7);
    assert_eq!(workload(&recipe), workload(&recipe));
    assert_ne!(workload(&recipe), workload(&Recipe { seed: 8, ..recipe }));
}
