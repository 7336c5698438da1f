//! The planner's goals: time, gap and restarts against size, and against HiGHS.
//!
//! One JSON object per result on standard output; how cost grows is drawn to
//! `target/bench/solver-growth.svg`.
#![allow(clippy::unwrap_used)] // A benchmark that cannot go on should stop.

mod growth;
mod instances;

use std::time::Instant;

use growth::{Panel, draw, peak_mib};
use serde_json::{Value, json};
use shockwave_core::market::{Objective, market_report};
use shockwave_core::solver::{Effort, Placement, Plan, Program, Sides, polish, solve, solve_exact};

const RUNS: usize = 5;
const SEEDS: u64 = 3;

fn main() {
    for (jobs, gpus, limit_ms) in
        [(900, 256, 25.0), (2_000, 256, 75.0), (2_000, 1_024, 75.0), (10_000, 5_120, 250.0)]
    {
        for objective in [Objective::Progress, Objective::FinishTime] {
            size(jobs, gpus, objective, limit_ms);
        }
    }
    market();
    for (jobs, gpus, rounds) in [(12, 8, 6), (20, 8, 10), (40, 16, 12)] {
        against_highs(jobs, gpus, rounds);
    }
    largest();
    growth_with_size();
}

fn report(name: &str, value: f64, unit: &str, goal: Value, holds: Option<bool>, against: &str) {
    let row = json!({"name": name, "value": value, "unit": unit, "goal": goal, "holds": holds,
        "against": against});
    println!("{row}");
}

fn label(objective: Objective) -> &'static str {
    match objective {
        Objective::Progress => "progress",
        Objective::FinishTime => "finish-time",
    }
}

/// Processor time of this thread, milliseconds: what others on the machine take is not in it.
fn thread_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call fills in.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(done, 0, "the thread has a clock");
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Plans once: the plan and its processor time, milliseconds, from the window on.
fn timed(window: &shockwave_core::market::Window, objective: Objective) -> (Program, Plan, f64) {
    let start_ms = thread_ms();
    let program = objective.program(window);
    let plan = solve(&program, &Effort::default(), Placement::FewStarts, &|| false);
    (program, plan, thread_ms() - start_ms)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One row of the goals: median and longest time over seeds and runs, worst gap, restarts over
/// their bound.
fn size(jobs: usize, gpus: u32, objective: Objective, limit_ms: f64) {
    let name = format!("{} {jobs}/{gpus}", label(objective));
    let (mut times, mut gap, mut restarts, mut lost) = (vec![], 0.0_f64, 0.0_f64, 0);
    for seed in 0..SEEDS {
        let window = instances::window(jobs, gpus, 30, objective, seed);
        for _ in 0..RUNS {
            let (_, plan, ms) = timed(&window, objective);
            times.push(ms);
            let certificate = plan.certificate;
            gap = gap.max(certificate.gap);
            let ratio = certificate.restarts as f64 / certificate.restarts_bound.max(1) as f64;
            restarts = restarts.max(ratio);
            lost = lost.max(certificate.rounds_lost);
        }
    }
    let longest_ms = times.iter().copied().fold(0.0, f64::max);
    let ms = median(times);
    let against = "one thread's processor time; Gurobi 24 threads 15 s published";
    report(&format!("{name} time"), ms, "ms", json!(limit_ms), Some(ms <= limit_ms), against);
    report(&format!("{name} longest"), longest_ms, "ms", Value::Null, None, "");
    report(&format!("{name} gap"), gap, "", json!(5e-4), Some(gap <= 5e-4), "own upper bound");
    let goal = (jobs == 900).then_some(1.1);
    let holds = goal.map(|goal| restarts <= goal);
    let goal = json!(goal);
    report(&format!("{name} restarts"), restarts, "of lower bound", goal, holds, "lower bound");
    report(&format!("{name} lost"), lost as f64, "GPU rounds", json!(0), Some(lost == 0), "");
}

fn market() {
    let window = instances::window(900, 256, 30, Objective::Progress, 1);
    let (_, plan, _) = timed(&window, Objective::Progress);
    let start_ms = thread_ms();
    let found = market_report(&window, Objective::Progress, &plan.schedule, &|| false);
    let ms = thread_ms() - start_ms;
    report("market 900/256 time", ms, "ms", Value::Null, None, "");
    let gap = found.duality_gap;
    report("market 900/256 duality gap", gap, "", Value::Null, None, "closed-form dual");
    let residual = found.residual_max;
    report("market 900/256 spending residual", residual, "", Value::Null, None, "budgets");
}

/// The same windows as N x T binaries in HiGHS, 15 seconds, beside what `shockwave plan` does: a
/// gap above 1e-4 that the aggregated program leaves is polished.
fn against_highs(jobs: usize, gpus: u32, rounds: usize) {
    let (mut below_best, mut below_bound, mut ended) = (f64::NEG_INFINITY, f64::NEG_INFINITY, 0);
    let (mut ours_ms, mut theirs_ms, mut before) = (0.0, 0.0, 0.0_f64);
    for seed in 0..SEEDS {
        let window = instances::window(jobs, gpus, rounds, Objective::Progress, seed);
        let start = Instant::now();
        let (program, mut plan, _) = timed(&window, Objective::Progress);
        before = before.max(plan.certificate.gap);
        if plan.certificate.gap > 1e-4 {
            plan = polish(&program, plan, 15.0);
        }
        ours_ms += start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let Ok(exact) = solve_exact(&program, &Sides::default(), None, 15.0) else {
            eprintln!("HiGHS {jobs}x{rounds}: no plan in 15 s");
            continue;
        };
        theirs_ms += start.elapsed().as_secs_f64() * 1e3;
        let unit = exact.upper_bound.abs();
        let best = program.objective(&exact.schedule.counts());
        ended += u32::from(exact.upper_bound - best <= 1e-6 * unit);
        below_best = below_best.max((best - plan.certificate.objective) / unit);
        below_bound = below_bound.max((exact.upper_bound - plan.certificate.objective) / unit);
    }
    let name = format!("HiGHS {jobs}x{rounds}");
    let holds = Some(below_best <= 1e-6);
    let against = format!("its best plan; it ended on {ended} of {SEEDS}");
    report(&format!("{name} we are below it by"), below_best, "", json!(0), holds, &against);
    let goal = if ended as u64 == SEEDS { json!(5e-4) } else { Value::Null };
    let holds = (ended as u64 == SEEDS).then_some(below_bound <= 5e-4);
    report(&format!("{name} below its bound by"), below_bound, "", goal, holds, "its upper bound");
    report(&format!("{name} gap unpolished"), before, "", Value::Null, None, "own upper bound");
    let share = ours_ms / theirs_ms;
    report(&format!("{name} time"), share, "of HiGHS", Value::Null, None, "HiGHS 1 thread");
}

fn largest() {
    let window = instances::window(50_000, 20_000, 30, Objective::Progress, 0);
    let before = peak_mib();
    let (_, plan, ms) = timed(&window, Objective::Progress);
    let gap = plan.certificate.gap;
    report("progress 50000/20000 time", ms, "ms", Value::Null, None, "");
    report("progress 50000/20000 gap", gap, "", Value::Null, None, "own upper bound");
    let memory = peak_mib() - before;
    report("progress 50000/20000 memory", memory, "MiB above the window", Value::Null, None, "");
}

/// Time against jobs (GPUs in proportion), GPUs and rounds.
fn growth_with_size() {
    let time = |jobs: usize, gpus: u32, rounds: usize| {
        let window = instances::window(jobs, gpus, rounds, Objective::Progress, 1);
        median((0..3).map(|_| timed(&window, Objective::Progress).2).collect())
    };
    let by_jobs: Vec<(f64, f64)> = [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000]
        .map(|n| (n as f64, time(n, n as u32 / 4, 30)))
        .to_vec();
    let by_gpus: Vec<(f64, f64)> =
        [64, 128, 256, 512, 1_024, 2_048].map(|m| (f64::from(m), time(2_000, m, 30))).to_vec();
    let by_rounds: Vec<(f64, f64)> =
        [5, 10, 20, 30, 60, 120].map(|t| (t as f64, time(2_000, 512, t))).to_vec();
    let slope = |points: &[(f64, f64)]| {
        let (from, to) = (points[0], points[points.len() - 1]);
        (to.1 / from.1).ln() / (to.0 / from.0).ln()
    };
    for (name, points) in [("jobs", &by_jobs), ("GPUs", &by_gpus), ("rounds", &by_rounds)] {
        let name = format!("growth in {name}");
        report(&name, slope(points), "power", Value::Null, None, "log-log slope");
    }
    let panels = [
        ("jobs N, M = N/4, T = 30", by_jobs),
        ("GPUs M, N = 2000, T = 30", by_gpus),
        ("rounds T, N = 2000, M = 512", by_rounds),
    ];
    let one = |(title, points): (&str, Vec<(f64, f64)>)| Panel {
        title: title.to_owned(),
        curves: vec![(String::new(), points)],
    };
    draw("solver-growth", "ms", &panels.map(one));
}
