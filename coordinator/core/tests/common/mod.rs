//! Small tables and random recipes for tests of the simulator.

use proptest::prelude::*;
use shockwave_core::simulator::Workload;
use shockwave_core::simulator::generate::{Recipe, Shape, generate};
use shockwave_core::simulator::profiles::{Profiles, Throughputs};

const DATASETS: &str = "model,dataset,samples_per_epoch,max_batch_size_sim\n\
                        Net,Pictures,2000,80\nText,Words,500,32\n";
const GNS: &str = "model,initial_batch_size,scale_factor,segments\n\
                   Net,10,1,0:10;3:20;6:40;9:80\nNet,20,2,0:20;5:40\nText,16,1,0:16;2:32\n";
const ACCORDION: &str = "model,initial_batch_size,max_batch_size,critical_epochs_profile,critical_epochs_simulated\n\
     Net,10,80,\"[0,4);[8,10)\",\"[0,4);[8,10)\"\nText,16,32,e%6<2 for e<60,e%6<2\n";
const SPEEDS: &str = "model,batch_size,scale_factor,steps_per_s\n\
    Net,10,1,9\nNet,20,1,7\nNet,40,1,4.5\nNet,80,1,2.6\nNet,10,2,13\nNet,20,2,11\nNet,40,2,8\n\
    Net,20,4,15\nText,16,1,3.3\nText,32,1,2.1\nText,16,2,5\nText,32,2,3.9\n";

/// The workload of a recipe, with the small tables.
pub fn workload(recipe: &Recipe) -> Workload {
    let profiles = Profiles::parse(DATASETS, GNS, ACCORDION).unwrap();
    let speeds = Throughputs::parse(SPEEDS).unwrap();
    let jobs = generate(recipe, &profiles, &speeds).unwrap();
    Workload::join(&jobs, &profiles, &speeds).unwrap()
}

/// Few jobs of some minutes to an hour, and a cluster of 4 to 11 GPUs.
pub fn recipes() -> impl Strategy<Value = (Recipe, u32)> {
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
