//! Speed of the simulator, one thread: the published 900-job trace on 256 GPUs and generated traces
//! of growing size, with the tables of `../shared/reference` or of the folder that is given as
//! `--reference DIR`.
//!
//! Prints one JSON object per result row; everything else goes to stderr.
#![allow(clippy::unwrap_used)] // A benchmark that cannot go on should stop.

mod growth;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use growth::{Curve, Panel, draw, peak_mib};
use shockwave_core::policies;
use shockwave_core::predictor::{self, Profile};
use shockwave_core::simulator::generate::{Recipe, generate};
use shockwave_core::simulator::profiles::{Profiles, Throughputs};
use shockwave_core::simulator::{Workload, product, published};

/// Policy, goal in seconds, and what the published code takes, CPU seconds.
const GOALS: [(&str, f64, f64); 7] = [
    ("gandiva-fair", 0.5, 13.53),
    ("gavel", 3.0, 12.94),
    ("themis", 3.0, 34.48),
    ("allox", 3.0, 16.11),
    ("ossp", 3.0, 17.55),
    ("mst", 3.0, 12.61),
    ("shockwave", 10.0, 355.74),
];
const RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = reference();
    if !folder.is_dir() {
        return Err(format!("{} is not there: --reference DIR", folder.display()).into());
    }
    let tables = Tables::read(&folder)?;
    let trace = fs::read_to_string(folder.join("trace_900_256gpu.csv"))?;
    let workload = Workload::parse(&trace, &tables.profiles, &tables.speeds)?;
    for (policy, goal_s, published_s) in GOALS {
        let Some(median_s) = median_s(&workload, 256, policy, RUNS) else { continue };
        row(
            &format!("900 jobs, 256 GPUs: {policy}"),
            median_s,
            Some((goal_s, median_s <= goal_s)),
            &format!("published code, CPU seconds: {published_s}"),
        );
    }
    row(
        "900 jobs, 256 GPUs: shockwave, product semantics",
        product_s(&workload, 256)?,
        None,
        "the service's engine in virtual time",
    );
    generated(&tables)?;
    Ok(())
}

/// Cost against size, on generated traces; drawn to `target/bench/simulator-growth.svg`.
fn generated(tables: &Tables) -> Result<(), Box<dyn Error>> {
    let policies = ["gandiva-fair", "gavel", "list-rule", "shockwave"];
    let mut curves: Vec<Curve> = policies.map(|name| (name.to_owned(), Vec::new())).to_vec();
    for jobs in [300, 1000, 3000, 10_000] {
        let gpus = jobs * 256 / 1000;
        let recipe = Recipe::published(jobs, 1);
        let trace = generate(&recipe, &tables.profiles, &tables.speeds)?;
        let workload = Workload::join(&trace, &tables.profiles, &tables.speeds)?;
        for (policy, points) in &mut curves {
            let Some(seconds) = median_s(&workload, gpus, policy, 1) else { continue };
            let goal = (jobs == 10_000).then_some((600.0, seconds <= 600.0));
            row(&format!("{jobs} jobs, {gpus} GPUs: {policy}"), seconds, goal, "");
            points.push((f64::from(jobs), seconds));
        }
    }
    let memory = serde_json::json!({"name": "peak memory of all of these", "value": peak_mib(),
        "unit": "MiB", "goal": null, "holds": null, "against": "resident, this process"});
    println!("{memory}");
    let title = "jobs, 256 GPUs for each 1000".to_owned();
    draw("simulator-growth", "s", &[Panel { title, curves }]);
    Ok(())
}

/// The folder with the public traces and tables.
fn reference() -> PathBuf {
    let given = std::env::args().skip_while(|arg| arg != "--reference").nth(1);
    given.map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference"),
        PathBuf::from,
    )
}

struct Tables {
    profiles: Profiles,
    speeds: Throughputs,
}

impl Tables {
    fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let read = |name: &str| fs::read_to_string(folder.join(name));
        let profiles = Profiles::parse(
            &read("datasets.csv")?,
            &read("gns_rules.csv")?,
            &read("accordion_rules.csv")?,
        )?;
        Ok(Self { profiles, speeds: Throughputs::parse(&read("throughput_v100_wisr.csv")?)? })
    }
}

/// Median time of some runs, seconds; `None` when the policy does not exist.
fn median_s(workload: &Workload, gpus: u32, policy: &str, runs: usize) -> Option<f64> {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let mut policy = policies::by_name(policy)?;
            let mut predictor = predictor::by_name(predictor::DEFAULT, Profile::default()).ok()?;
            let begun = Instant::now();
            published::simulate(workload, gpus, policy.as_mut(), predictor.as_mut(), &mut ());
            Some(begun.elapsed().as_secs_f64())
        })
        .collect::<Option<_>>()?;
    times.sort_by(f64::total_cmp);
    Some(times[times.len() / 2])
}

/// Time of a run of the service's own engine, seconds.
fn product_s(workload: &Workload, gpus: u32) -> Result<f64, Box<dyn Error>> {
    let mut policy = policies::by_name("shockwave").ok_or("there is no policy shockwave")?;
    let predictor = predictor::by_name(predictor::DEFAULT, Profile::default())?;
    let begun = Instant::now();
    let setting = product::Setting::of(gpus);
    product::simulate(workload, &setting, policy.as_mut(), predictor, &mut ())?;
    Ok(begun.elapsed().as_secs_f64())
}

fn row(name: &str, value: f64, goal: Option<(f64, bool)>, against: &str) {
    let row = serde_json::json!({
        "name": name,
        "value": value,
        "unit": "s",
        "goal": goal.map(|goal| format!("at most {} s", goal.0)),
        "holds": goal.map(|goal| goal.1),
        "against": against,
    });
    println!("{row}");
}
