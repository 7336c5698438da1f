//! A policy of one's own in the simulator, compared with two others.
//!
//! `cargo run --example own_policy -- TRACE PROFILES_DIR THROUGHPUTS GPUS`

use shockwave::simulation::{self, Setup, Source};
use shockwave_core::policies::{Policy, Replan};
use shockwave_core::types::{ClusterView, Decision};

/// Shortest remaining GPU time first: small gangs before large ones of equal length.
struct SmallestFirst;

impl Policy for SmallestFirst {
    fn name(&self) -> &'static str {
        "smallest-first"
    }

    fn replan(&self) -> Replan {
        Replan::EveryRound
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let mut jobs: Vec<_> = view.jobs.iter().collect();
        let gpu_s = |gpus: u32, left_s: f64| f64::from(gpus) * left_s;
        jobs.sort_by(|a, b| {
            gpu_s(a.gpus, a.forecast.left_s).total_cmp(&gpu_s(b.gpus, b.forecast.left_s))
        });
        Decision::Order(jobs.iter().map(|job| job.id).collect())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [trace, profiles, throughputs, gpus] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "usage: own_policy TRACE PROFILES_DIR THROUGHPUTS GPUS")?;
    let source =
        Source { trace: trace.into(), profiles: profiles.into(), throughputs: throughputs.into() };
    let (workload, gpus) = (source.load()?, gpus.parse()?);
    let setup = |policy: &str| Setup::published(gpus, policy);
    let own = simulation::run_policy(&workload, &setup("smallest-first"), &mut SmallestFirst)?;
    let srpt = simulation::run(&workload, &setup("srpt"))?;
    let gavel = simulation::run(&workload, &setup("gavel"))?;
    print!("{}", simulation::comparison(&[&own, &srpt, &gavel]));
    Ok(())
}
