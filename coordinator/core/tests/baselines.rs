//! The five published baselines against the published results (`../shared/reference`): makespan and
//! mean completion time within 2 %, worst rho within 10 %.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

use std::fs;

#[path = "common/reference.rs"]
mod reference;

use reference::{TRACES, folder, workload};
use shockwave_core::policies;
use shockwave_core::simulator::report::Contention;
use shockwave_core::simulator::{Exact, published};

const BASELINES: [(&str, &str); 5] = [
    ("gavel", "max_min_fairness"),
    ("themis", "finish_time_fairness"),
    ("allox", "allox"),
    ("ossp", "min_total_duration"),
    ("mst", "max_sum_throughput_perf"),
];

#[test]
fn baselines_reach_the_published_metrics() {
    let Some(folder) = folder() else { return };
    let results = fs::read_to_string(folder.join("reference_results.csv")).unwrap();
    for (trace, gpus, table) in TRACES {
        let workload = workload(&folder, trace, table);
        for (name, published_name) in BASELINES {
            let mut policy = policies::by_name(name).unwrap();
            let outcome = published::simulate(
                &workload,
                gpus,
                policy.as_mut(),
                &mut Exact::new(&workload),
                &mut (),
            );
            let got = outcome.metrics(Contention::Trace);
            // The last rerun: by the same kind of solver where there are two.
            let row: Vec<&str> = results
                .lines()
                .map(|line| line.split(',').collect::<Vec<_>>())
                .rfind(|row| {
                    row[0] == trace
                        && row[3] == published_name
                        && row[4].starts_with("rerun")
                        && !row[4].contains("variant")
                })
                .unwrap();
            let off = |value: f64, column: usize| {
                (value / row[column].parse::<f64>().unwrap() - 1.0).abs()
            };
            assert!(off(got.makespan_s, 5) < 0.02, "{trace} {name}: makespan {}", got.makespan_s);
            assert!(off(got.mean_jct_s, 6) < 0.02, "{trace} {name}: JCT {}", got.mean_jct_s);
            assert!(off(got.worst_rho, 7) < 0.10, "{trace} {name}: rho {}", got.worst_rho);
        }
    }
}
