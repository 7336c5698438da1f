//! The pictures of a simulation: what its outcome looks like.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use shockwave_core::simulator::Outcome;
use shockwave_core::simulator::report::{Contention, Held, Metrics};
use shockwave_core::types::JobId;

use super::{Run, SimulationError, write};
use crate::figures::{Areas, Bars, Block, FigureError, Lines, Panel, Points, Series, Timeline};

/// Classes of jobs by GPU time alone on their gang (section 8.4): name and upper limit, GPU-hours.
const CLASSES: [(&str, f64); 5] = [
    ("XSmall (under 0.75 GPU h)", 0.75),
    ("Small (to 1.5 GPU h)", 1.5),
    ("Medium (to 4 GPU h)", 4.0),
    ("Large (to 8 GPU h)", 8.0),
    ("XLarge (over 8 GPU h)", f64::INFINITY),
];

/// A picture with the name of its file.
pub type Picture = (String, Result<String, FigureError>);

/// The pictures of one run.
#[must_use]
pub fn of_run(run: &Run) -> Vec<Picture> {
    let name = &run.setup.policy;
    let mut pictures = vec![
        (format!("timeline-{name}.svg"), timeline(name, &run.outcome).svg()),
        (format!("sizes-{name}.svg"), sizes(name, &run.outcome).svg()),
        ("rho.svg".to_owned(), rho_distribution(&[run]).svg()),
    ];
    if !run.trail.forecasts.is_empty() {
        pictures.push((format!("forecast-{name}.svg"), forecasts(run).svg()));
        pictures.push((format!("forecast-error-{name}.svg"), forecast_errors(run).svg()));
    }
    if !run.trail.prices.is_empty() {
        pictures.push((format!("price-{name}.svg"), prices(run).svg()));
    }
    pictures
}

/// The pictures of several runs on one trace.
#[must_use]
pub fn of_comparison(runs: &[&Run]) -> Vec<Picture> {
    vec![
        ("metrics.svg".to_owned(), metrics(runs).svg()),
        ("rho.svg".to_owned(), rho_distribution(runs).svg()),
        ("completion.svg".to_owned(), completion_distribution(runs).svg()),
    ]
}

/// Draws pictures into a folder.
///
/// # Errors
/// [`SimulationError`] when one cannot be drawn or written.
pub fn save(folder: &Path, pictures: Vec<Picture>) -> Result<(), SimulationError> {
    for (name, picture) in pictures {
        write(&folder.join(name), &picture?)?;
    }
    Ok(())
}

fn class_of(gpu_h: f64) -> usize {
    CLASSES.iter().position(|class| gpu_h < class.1).unwrap_or(CLASSES.len() - 1)
}

fn classes(outcome: &Outcome) -> HashMap<JobId, (usize, u32)> {
    let class = |gpus: u32, seconds: f64| class_of(f64::from(gpus) * seconds / 3600.0);
    outcome.jobs.iter().map(|job| (job.id, (class(job.gpus, job.exclusive_s), job.gpus))).collect()
}

fn class_names() -> Vec<String> {
    CLASSES.iter().map(|class| class.0.to_owned()).collect()
}

/// Who held which GPU.
fn timeline(policy: &str, outcome: &Outcome) -> Timeline {
    let classes = classes(outcome);
    let class = |id: &JobId| classes.get(id).map_or(0, |class| class.0);
    let held = if outcome.held.is_empty() { held_by_rounds(outcome) } else { outcome.held.clone() };
    let block = |held: &Held| Block {
        row: held.gpu,
        from: held.from_s / 3600.0,
        to: held.to_s / 3600.0,
        class: class(&held.id),
    };
    Timeline {
        title: format!("Who held which GPU: {policy}"),
        x: "time (hours)".into(),
        y: "GPU".into(),
        rows: outcome.gpus,
        classes: class_names(),
        blocks: held.iter().map(block).collect(),
    }
}

/// Which GPUs each job holds where the rounds only count them: large gangs first, a job stays where
/// it was when it can, else takes the lowest free GPUs (the published placement).
fn held_by_rounds(outcome: &Outcome) -> Vec<Held> {
    let classes = classes(outcome);
    let mut rows: HashMap<JobId, Vec<u32>> = HashMap::new();
    let mut open: HashMap<u32, Held> = HashMap::new();
    let mut held = Vec::new();
    for round in &outcome.rounds {
        rows = place(&round.jobs, &rows, &classes, outcome.gpus);
        for (&id, gpus) in &rows {
            for &gpu in gpus {
                match open.get_mut(&gpu) {
                    Some(last) if last.id == id && (last.to_s - round.start_s).abs() < 1e-3 => {
                        last.to_s = round.end_s;
                    }
                    _ => {
                        let next = Held { id, gpu, from_s: round.start_s, to_s: round.end_s };
                        held.extend(open.insert(gpu, next));
                    }
                }
            }
        }
    }
    held.extend(open.into_values());
    held.sort_by(|a, b| a.gpu.cmp(&b.gpu).then(a.from_s.total_cmp(&b.from_s)));
    held
}

fn place(
    jobs: &[JobId],
    before: &HashMap<JobId, Vec<u32>>,
    classes: &HashMap<JobId, (usize, u32)>,
    gpus: u32,
) -> HashMap<JobId, Vec<u32>> {
    let mut free = vec![true; gpus as usize];
    let mut now: HashMap<JobId, Vec<u32>> = HashMap::new();
    for id in jobs {
        if let Some(rows) = before.get(id) {
            rows.iter().for_each(|row| free[*row as usize] = false);
            now.insert(*id, rows.clone());
        }
    }
    let mut started: Vec<JobId> = jobs.iter().copied().filter(|id| !now.contains_key(id)).collect();
    let gang = |id: &JobId| classes.get(id).map_or(1, |class| class.1);
    started.sort_by_key(|id| std::cmp::Reverse(gang(id)));
    for id in started {
        let rows: Vec<u32> = (0..gpus).filter(|row| free[*row as usize]).collect();
        let rows: Vec<u32> = rows.into_iter().take(gang(&id) as usize).collect();
        rows.iter().for_each(|row| free[*row as usize] = false);
        now.insert(id, rows);
    }
    now
}

/// GPUs in use by class of job over time (Figure 8a).
fn sizes(policy: &str, outcome: &Outcome) -> Areas {
    let classes = classes(outcome);
    let mut columns: Vec<(f64, Vec<f64>)> = outcome
        .rounds
        .iter()
        .map(|round| {
            let mut used = vec![0.0; CLASSES.len()];
            for (class, gpus) in round.jobs.iter().filter_map(|id| classes.get(id)) {
                used[*class] += f64::from(*gpus);
            }
            (round.start_s / 3600.0, used)
        })
        .collect();
    columns.push((outcome.makespan_s / 3600.0, vec![0.0; CLASSES.len()]));
    Areas {
        title: format!("GPUs by size of job: {policy}"),
        x: "time (hours)".into(),
        y: "GPUs".into(),
        layers: class_names(),
        columns,
    }
}

fn distribution(name: &str, mut values: Vec<f64>) -> Series {
    values.sort_by(f64::total_cmp);
    let count = values.len().max(1) as f64;
    let mut points = vec![(0.0, 0.0)];
    for (place, value) in values.into_iter().enumerate() {
        points.push((value, place as f64 / count));
        points.push((value, (place + 1) as f64 / count));
    }
    Series { name: name.to_owned(), points }
}

/// The distribution of rho (Figure 8b).
fn rho_distribution(runs: &[&Run]) -> Lines {
    let series = |run: &&Run| distribution(&run.label(), run.outcome.rhos(Contention::Trace));
    Lines {
        title: "Finish time fairness".into(),
        x: "rho (above 1: later than with a fair share)".into(),
        y: "share of jobs".into(),
        series: runs.iter().map(series).collect(),
        mark_x: Some(1.0),
        logarithmic: false,
    }
}

fn completion_distribution(runs: &[&Run]) -> Lines {
    let hours = |run: &Run| run.outcome.jobs.iter().map(|job| job.jct_s / 3600.0).collect();
    Lines {
        title: "Completion times".into(),
        x: "hours from arrival to end".into(),
        y: "share of jobs".into(),
        series: runs.iter().map(|run| distribution(&run.label(), hours(run))).collect(),
        mark_x: None,
        logarithmic: false,
    }
}

/// The four metrics of Figure 7, each in its own unit.
fn metrics(runs: &[&Run]) -> Bars {
    let all: Vec<Metrics> = runs.iter().map(|run| run.outcome.metrics(Contention::Trace)).collect();
    let panel = |title: &str, value: fn(&Metrics) -> f64| Panel {
        title: title.to_owned(),
        values: all.iter().map(value).collect(),
    };
    Bars {
        title: "Lower is better".into(),
        bars: runs.iter().map(|run| run.label()).collect(),
        panels: vec![
            panel("makespan (h)", |metrics| metrics.makespan_s / 3600.0),
            panel("mean completion (h)", |metrics| metrics.mean_jct_s / 3600.0),
            panel("worst rho", |metrics| metrics.worst_rho),
            panel("jobs with rho > 1 (%)", |metrics| metrics.unfair_1_0 * 100.0),
        ],
    }
}

/// Forecast against truth: each job's predicted run time at some points of its training.
fn forecasts(run: &Run) -> Points {
    let truth: HashMap<JobId, f64> =
        run.outcome.jobs.iter().map(|job| (job.id, job.attained_s)).collect();
    let series = [0.0, 0.25, 0.75].map(|from| {
        // The first forecast at or after the point.
        let mut first: BTreeMap<JobId, f64> = BTreeMap::new();
        for (id, progress, total_s) in &run.trail.forecasts {
            if *progress >= from {
                first.entry(*id).or_insert(*total_s);
            }
        }
        let hours = |(id, total_s): (JobId, f64)| {
            truth.get(&id).map(|true_s| (true_s / 3600.0, total_s / 3600.0))
        };
        let name = if from == 0.0 { "before it runs".into() } else { percent_done(from) };
        Series { name, points: first.into_iter().filter_map(hours).collect() }
    });
    Points {
        title: format!("Forecast against truth: {}", run.setup.predictor),
        x: "run time (hours)".into(),
        y: "predicted run time (hours)".into(),
        series: series.to_vec(),
    }
}

fn percent_done(share: f64) -> String {
    format!("{:.0} % done", share * 100.0)
}

/// Mean error of the predicted run time by progress (Figure 5).
fn forecast_errors(run: &Run) -> Lines {
    Lines {
        title: format!("Error of the predicted run time: {}", run.setup.predictor),
        x: "epochs done (%)".into(),
        y: "mean relative error (%)".into(),
        series: vec![Series { name: run.setup.predictor.clone(), points: run.forecast_errors() }],
        mark_x: None,
        logarithmic: false,
    }
}

fn prices(run: &Run) -> Lines {
    let points = run.trail.prices.iter().map(|(at_s, price)| (at_s / 3600.0, *price)).collect();
    Lines {
        title: format!("Price of a GPU round: {}", run.setup.policy),
        x: "time (hours)".into(),
        y: "price".into(),
        series: vec![Series { name: run.setup.policy.clone(), points }],
        mark_x: None,
        logarithmic: false,
    }
}
