//! How well run times and regimes are forecast: the jobs of the published traces that change their
//! batch size, nothing known in advance.
//!
//! The traces are played by the default policy; each time a job ends a round, every predictor is
//! told, and asked once in every twentieth of the job's epochs. One JSON object per result on
//! standard output; Figure 5 is drawn to `target/bench/predictor-errors.svg`.
#![allow(clippy::unwrap_used)] // A benchmark that cannot go on should stop.

mod panel;
#[path = "../tests/common/reference.rs"]
mod reference;

use std::fs;
use std::path::PathBuf;

use panel::{BINS, Panel, Score};
use plotters::prelude::*;
use reference::{TRACES, folder, workload};
use serde_json::{Value, json};
use shockwave_core::policies;
use shockwave_core::simulator::{Workload, published};

/// Run-time error of the paper's predictor, percent.
const PAPER_PERCENT: f64 = 16.0;

fn main() {
    let Some(folder) = folder() else { return };
    let mut curves = Vec::new();
    for (trace, gpus, table) in TRACES {
        let workload = workload(&folder, trace, table);
        let panel = play(&workload, gpus, Panel::new());
        let scores = panel.scores();
        eprintln!("{trace}: {} jobs that change their batch size", scores[0].jobs);
        rows(trace, &scores);
        let knowing = play(&workload, gpus, panel.knowing(&workload)).scores();
        figure_5(trace, &knowing);
        curves.push((trace.to_owned(), scores));
        curves.push((format!("{trace}, batch sizes known"), knowing));
    }
    for (offset, of) in [(0, "all traces"), (1, "all traces, batch sizes known")] {
        let scores = curves.iter().skip(offset).step_by(2).map(|(_, scores)| scores.as_slice());
        let scores = pooled(scores);
        match offset {
            0 => rows(of, &scores),
            _ => figure_5("all traces", &scores),
        }
        curves.push((of.to_owned(), scores));
    }
    draw(&curves);
}

/// The scores over the jobs of all traces: what the goals, and the paper's Figure 5, are about.
fn pooled<'a>(of_traces: impl Iterator<Item = &'a [Score]>) -> Vec<Score> {
    let of_traces: Vec<&[Score]> = of_traces.collect();
    let jobs: usize = of_traces.iter().map(|scores| scores[0].jobs).sum();
    let pool = |index: usize| {
        let mut whole = Score { jobs, ..of_traces[0][index].clone() };
        let mean = |of: &dyn Fn(&Score) -> f64| {
            let parts = of_traces.iter().map(|scores| &scores[index]);
            parts.map(|score| score.jobs as f64 * of(score)).sum::<f64>() / jobs as f64
        };
        whole.run_time_percent = mean(&|score| score.run_time_percent);
        whole.regime_percent = mean(&|score| score.regime_percent);
        whole.uncertain_percent = mean(&|score| score.uncertain_percent);
        for level in 0..whole.covered_percent.len() {
            whole.covered_percent[level] = mean(&|score| score.covered_percent[level]);
            // Of the uncertain forecasts alone.
            let covered = mean(&|s| s.uncertain_percent * s.covered_uncertain_percent[level]);
            whole.covered_uncertain_percent[level] = covered / whole.uncertain_percent;
        }
        for bin in 0..BINS {
            whole.by_progress[bin] = mean(&|score| score.by_progress[bin]);
        }
        whole
    };
    (0..of_traces[0].len()).map(pool).collect()
}

fn report(name: &str, value: f64, goal: Value, holds: Option<bool>, against: &str) {
    let row = json!({"name": name, "value": value, "unit": "%", "goal": goal, "holds": holds,
        "against": against});
    println!("{row}");
}

fn rows(trace: &str, scores: &[Score]) {
    for score in scores {
        let name = format!("{trace} {}", score.predictor);
        let ours = score.predictor == "hierarchical";
        let goal = if ours { json!("<= 8") } else { Value::Null };
        let holds = ours.then_some(score.run_time_percent <= 8.0);
        report(&format!("{name} run-time error"), score.run_time_percent, goal, holds, "played");
        let goal = if ours { json!("<= 4") } else { Value::Null };
        let holds = ours.then_some(score.regime_percent <= 4.0);
        report(&format!("{name} regime error"), score.regime_percent, goal, holds, "played");
        if !ours && score.predictor != "restatement" {
            continue;
        }
        for (level, covered) in [50, 80, 90].into_iter().zip(score.covered_percent) {
            let goal = if level == 90 && ours { json!("85 to 95") } else { Value::Null };
            let holds = (level == 90 && ours).then_some((85.0..=95.0).contains(&covered));
            report(&format!("{name} {level} % interval covers"), covered, goal, holds, "played");
        }
        let against =
            format!("the {:.1} % of forecasts that are uncertain", score.uncertain_percent);
        for (level, covered) in [50, 80, 90].into_iter().zip(score.covered_uncertain_percent) {
            let name = format!("{name} {level} % interval covers, where uncertain");
            report(&name, covered, Value::Null, None, &against);
        }
    }
}

/// Where the paper's predictor stands among its rivals, in the paper's setting.
fn figure_5(trace: &str, scores: &[Score]) {
    let of = |name: &str| scores.iter().find(|score| score.predictor == name).unwrap();
    for (what, error) in [
        ("run-time", (|score| score.run_time_percent) as fn(&Score) -> f64),
        ("regime", |score| score.regime_percent),
    ] {
        let [ours, bayes, greedy] = ["restatement", "bayes", "greedy"].map(|name| error(of(name)));
        let paper = if what == "regime" { f64::INFINITY } else { PAPER_PERCENT };
        let holds = ours < paper && ours < bayes && bayes < greedy;
        let against = format!("bayes {bayes:.2}, greedy {greedy:.2}");
        let name = format!("{trace} Figure 5 {what} error of restatement");
        report(&name, ours, json!("< bayes < greedy"), Some(holds), &against);
    }
}

fn play(workload: &Workload, gpus: u32, mut panel: Panel) -> Panel {
    let mut policy = policies::by_name("shockwave").unwrap();
    published::simulate(workload, gpus, policy.as_mut(), &mut panel, &mut ());
    panel
}

fn draw(curves: &[(String, Vec<Score>)]) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    fs::create_dir_all(&root).unwrap();
    let path = root.join("predictor-errors.svg");
    let area = SVGBackend::new(&path, (1140, 1330)).into_drawing_area();
    area.fill(&WHITE).unwrap();
    let colours = [BLUE, GREEN, MAGENTA, RED, BLACK];
    for (panel, (trace, scores)) in
        area.split_evenly((curves.len().div_ceil(2), 2)).iter().zip(curves)
    {
        let most = scores.iter().flat_map(|s| s.by_progress).fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(panel)
            .margin(8)
            .caption(format!("error of the run time, {trace}"), ("sans-serif", 15))
            .x_label_area_size(30)
            .y_label_area_size(40)
            .build_cartesian_2d(0.0..100.0, 0.0..most * 1.1)
            .unwrap();
        chart.configure_mesh().x_desc("epochs done, %").y_desc("%").draw().unwrap();
        for (score, colour) in scores.iter().zip(colours) {
            let at = |bin: usize| (bin as f64 + 0.5) * 100.0 / BINS as f64;
            let points = score.by_progress.iter().enumerate().map(|(bin, e)| (at(bin), *e));
            let line = LineSeries::new(points, colour.stroke_width(2));
            let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour);
            chart.draw_series(line).unwrap().label(score.predictor).legend(legend);
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw().unwrap();
    }
    area.present().unwrap();
    eprintln!("drawn to {}", path.display());
}
