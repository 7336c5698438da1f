//! Generated traces have the statistics that they are to have, and survive both formats.

// A test stops at the first thing that is not as it must be.
#![allow(clippy::unwrap_used)]

use shockwave_core::simulator::generate::{Recipe, Shape, generate};
use shockwave_core::simulator::profiles::{Profiles, Throughputs};
use shockwave_core::simulator::published_trace;
use shockwave_core::simulator::trace::{Mode, TraceJob, parse_trace, to_csv};

/// A model that is measured on every gang.
const SPEEDS: &str = "model,batch_size,scale_factor,steps_per_s\n\
                      Net,10,1,9\nNet,10,2,16\nNet,10,4,30\nNet,10,8,50\n";

fn jobs(recipe: &Recipe) -> Vec<TraceJob> {
    let profiles = Profiles::parse(
        "model,dataset,samples_per_epoch,max_batch_size_sim\nNet,Pictures,2000,80\n",
        "model,initial_batch_size,scale_factor,segments\n",
        "model,initial_batch_size,critical_epochs_profile,critical_epochs_simulated\n",
    )
    .unwrap();
    generate(recipe, &profiles, &Throughputs::parse(SPEEDS).unwrap()).unwrap()
}

/// Checks a share of `count` draws within five standard errors.
fn assert_share(got: usize, count: usize, expected: f64, what: &str) {
    let error = (expected * (1.0 - expected) / count as f64).sqrt();
    let share = got as f64 / count as f64;
    assert!((share - expected).abs() < 5.0 * error, "{what}: {share}, expected {expected}");
}

/// The published traces' names say 0.2 to 5 h, gangs 0.6 / 0.3 / 0.09 / 0.01.
#[test]
fn gavels_generator() {
    let count = 20_000;
    let jobs = jobs(&Recipe::published(count as u32, 11));
    let share = |holds: &dyn Fn(&TraceJob) -> bool| jobs.iter().filter(|job| holds(job)).count();
    for (gpus, expected) in [(1, 0.6), (2, 0.3), (4, 0.09), (8, 0.01)] {
        assert_share(share(&|job| job.gpus == gpus), count, expected, &format!("{gpus} GPUs"));
    }
    let hours = |job: &TraceJob| job.duration_s.unwrap() / 3600.0;
    assert!(jobs.iter().all(|job| (0.2 - 1e-3..=5.0 + 1e-3).contains(&hours(job))));
    // Durations are 100 even steps from 0.2 to 5 h: the shortest fifth ends below 0.2 + 20 x 4.8/99.
    let fifth_h = 0.2 + 20.0 * 4.8 / 99.0 - 0.02;
    assert_share(share(&|job| hours(job) < fifth_h), count, 0.72, "the shortest fifth");
    let half_h = 0.2 + 50.0 * 4.8 / 99.0 - 0.02;
    assert_share(share(&|job| hours(job) < half_h), count, 0.92, "the shorter half");
    assert_share(share(&|job| job.mode == Mode::Gns), count, 1.0 / 3.0, "GNS jobs");
    // Poisson arrivals: the mean gap, with the standard error of an exponential's mean.
    let gap_s = 5000.0 / count as f64;
    let mean_s = jobs.last().unwrap().arrival_s / (count - 1) as f64;
    assert!((mean_s / gap_s - 1.0).abs() < 5.0 / (count as f64).sqrt(), "{mean_s} {gap_s}");
}

/// Pollux's trace: 160 jobs in eight hours, the sixth of which has 42 of them; 56 are of its
/// shortest class, 6 of its longest.
#[test]
fn polluxs_workload() {
    let count = 16_000;
    let recipe =
        Recipe { shape: Shape::Pollux, gap_s: 180.0, ..Recipe::published(count as u32, 2) };
    let jobs = jobs(&recipe);
    let hour_s = 180.0 * count as f64 / 8.0;
    let sixth = |job: &&TraceJob| (5.0 * hour_s..6.0 * hour_s).contains(&job.arrival_s);
    assert_share(jobs.iter().filter(sixth).count(), count, 42.0 / 160.0, "the sixth hour");
    let short = jobs.iter().filter(|job| job.duration_s.unwrap() < 2000.0).count();
    assert_share(short, count, 56.0 / 160.0, "the shortest class");
}

#[test]
fn generated_traces_survive_both_formats() {
    let jobs = jobs(&Recipe::published(50, 1));
    let back = parse_trace(&to_csv(&jobs)).unwrap();
    assert_eq!(back, jobs);
    let tabs = published_trace::parse(&published_trace::write(&jobs)).unwrap();
    for (job, tab) in jobs.iter().zip(tabs) {
        let kept = TraceJob {
            line: tab.line,
            dataset: String::new(),
            num_epochs: None,
            exclusive_s: None,
            ..job.clone()
        };
        assert_eq!(tab, kept);
    }
}
