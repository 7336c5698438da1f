//! Properties of the published semantics and the round mechanism over random traces, for every
//! policy: no job lost, capacity kept, gangs whole, work conserved, same seed same result.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use proptest::prelude::*;
use shockwave_core::policies::{self, REGISTRY};
use shockwave_core::predictor::{self, Profile};
use shockwave_core::simulator::generate::{Recipe, Shape, generate};
use shockwave_core::simulator::profiles::{Profiles, Throughputs};
use shockwave_core::simulator::{Outcome, Workload, published};

const DATASETS: &str = "model,dataset,samples_per_epoch,max_batch_size_sim\n\
                        Net,Pictures,2000,80\nText,Words,500,32\n";
const GNS: &str = "model,initial_batch_size,scale_factor,segments\n\
                   Net,10,1,0:10;3:20;6:40;9:80\nNet,20,2,0:20;5:40\nText,16,1,0:16;2:32\n";
const ACCORDION: &str = "model,initial_batch_size,max_batch_size,critical_epochs_profile,critical_epochs_simulated\n\
     Net,10,80,\"[0,4);[8,10)\",\"[0,4);[8,10)\"\nText,16,32,e%6<2 for e<60,e%6<2\n";
const SPEEDS: &str = "model,batch_size,scale_factor,steps_per_s\n\
    Net,10,1,9\nNet,20,1,7\nNet,40,1,4.5\nNet,80,1,2.6\nNet,10,2,13\nNet,20,2,11\nNet,40,2,8\n\
    Net,20,4,15\nText,16,1,3.3\nText,32,1,2.1\nText,16,2,5\nText,32,2,3.9\n";

fn workload(recipe: &Recipe) -> Workload {
    let profiles = Profiles::parse(DATASETS, GNS, ACCORDION).unwrap();
    let speeds = Throughputs::parse(SPEEDS).unwrap();
    let jobs = generate(recipe, &profiles, &speeds).unwrap();
    Workload::join(&jobs, &profiles, &speeds).unwrap()
}

fn play(workload: &Workload, gpus: u32, policy: &str) -> Outcome {
    let mut policy = policies::by_name(policy).unwrap();
    let mut predictor = predictor::by_name("restatement", Profile::default()).unwrap();
    published::simulate(workload, gpus, policy.as_mut(), predictor.as_mut(), &mut ())
}

fn recipes() -> impl Strategy<Value = (Recipe, u32)> {
    (1_u32..14, 0.0_f64..2000.0, any::<u64>(), 4_u32..12, any::<bool>()).prop_map(
        |(jobs, gap_s, seed, gpus, pollux)| {
            let shape = if pollux {
                Shape::Pollux
            } else {
                Shape::Gavel { min_h: 0.02, max_h: 0.8, choices: 20 }
            };
            let gangs = [0.5, 0.3, 0.2, 0.0];
            (Recipe { gap_s, shape, gangs, ..Recipe::published(jobs, seed) }, gpus)
        },
    )
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
