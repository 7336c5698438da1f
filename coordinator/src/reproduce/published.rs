//! Sections on the published traces.

use shockwave_core::policies::{Allox, Information, ListRule, Lpt, OpenShop, Policy, Srpt, Themis};
use shockwave_core::simulator::Workload;
use shockwave_core::simulator::report::Contention;

use super::report::{METRICS, Report, cells, named};
use super::{PREDICTOR, Reference, TRACES, compared, play, play_all, setup};
use crate::figures::{Lines, Series};
use crate::simulation::{self, Run, SimulationError};

/// Our name of a policy and the published code's.
const NAMES: [(&str, &str); 7] = [
    ("shockwave", "shockwave"),
    ("gavel", "max_min_fairness"),
    ("themis", "finish_time_fairness"),
    ("allox", "allox"),
    ("ossp", "min_total_duration"),
    ("mst", "max_sum_throughput_perf"),
    ("gandiva-fair", "gandiva_fair"),
];

fn header(first: &'static str) -> Vec<&'static str> {
    std::iter::once(first).chain(METRICS).collect()
}

/// Figures 7 and 9, Table 3: every policy on the three traces, beside the published results.
pub(super) fn comparison(
    reference: &Reference,
    report: &mut Report,
) -> Result<(), SimulationError> {
    report.section(
        "Figures 7 and 9: efficiency and fairness at 32, 64 and 256 GPUs",
        "Published: the published code's results on the same trace (its last rerun). Where a baseline differs, it is in the choice among the optima of its program.",
    );
    let results = reference.published_results()?;
    let mut found = Vec::new();
    for (trace, gpus, table) in TRACES {
        let workload = reference.workload(trace, table)?;
        let runs = play_all(&workload, gpus)?;
        report.note(&format!("**{} jobs, {gpus} GPUs**", workload.jobs.len()));
        let mut rows = Vec::new();
        for run in &runs {
            rows.push(named(&run.setup.policy, run));
            if let Some(row) = published(&results, trace, &run.setup.policy) {
                rows.push(published_row(row, &run.setup.policy));
                if run.setup.policy != "shockwave" {
                    found.push(Deviation::of(run, trace, row));
                }
            }
        }
        report.table(&header("policy"), &rows);
        let all: Vec<&Run> = runs.iter().collect();
        for picture in simulation::of_comparison(&all) {
            report.picture(trace, picture);
        }
        definitions(&runs, report);
        solver_times(&runs, report);
    }
    deviations(&found, report);
    Ok(())
}

/// Section 8.9: time of a decision.
fn solver_times(runs: &[Run], report: &mut Report) {
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let mut times: Vec<f64> =
                run.decisions.iter().map(|time| time.as_secs_f64() * 1e3).collect();
            times.sort_by(f64::total_cmp);
            let at = |share: f64| shockwave_core::simulator::report::quantile(&times, share);
            vec![
                run.setup.policy.clone(),
                times.len().to_string(),
                format!("{:.2}", at(0.5)),
                format!("{:.2}", at(1.0)),
                format!("{:.2}", run.wall.as_secs_f64()),
            ]
        })
        .collect();
    report
        .note("Time of a decision, forecasts included (section 8.9), and of the whole simulation:");
    report.table(&["policy", "decisions", "median ms", "longest ms", "simulation s"], &rows);
}

/// A row of the published results: the last rerun of the policy's code on the trace. Makespan,
/// mean completion time (seconds), worst rho, shares of jobs with rho over 1 and 1.1, utilisation.
fn published(text: &str, trace: &str, policy: &str) -> Option<[f64; 6]> {
    let theirs = NAMES.iter().find(|names| names.0 == policy)?.1;
    let row = text.lines().map(|line| line.split(',').collect::<Vec<_>>()).rfind(|row| {
        row.len() > 11
            && row[0] == trace
            && row[3] == theirs
            && row[4].starts_with("rerun")
            && !row[4].contains("variant")
    })?;
    let number = |column: usize| row[column].parse::<f64>().unwrap_or(f64::NAN);
    Some([5, 6, 7, 8, 10, 11].map(number))
}

fn published_row(row: [f64; 6], policy: &str) -> Vec<String> {
    let [makespan_s, mean_s, worst, over_1, over_1_1, used] = row;
    vec![
        format!("*published {policy}*"),
        format!("{:.2}", makespan_s / 3600.0),
        format!("{:.2}", mean_s / 3600.0),
        format!("{worst:.2}"),
        format!("{:.1}", over_1 * 100.0),
        format!("{:.1}", over_1_1 * 100.0),
        format!("{used:.3}"),
    ]
}

/// How far our baselines are from the published ones, and which are the furthest.
fn deviations(found: &[Deviation], report: &mut Report) {
    report.note("Deviation of the baselines from the published results (goal: 2 %, 2 % and 10 %):");
    let percent = |share: f64| format!("{:+.2}", share * 100.0);
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|deviation| {
            let mut row = vec![deviation.trace.to_owned(), deviation.policy.clone()];
            row.extend(deviation.by.map(percent));
            row
        })
        .collect();
    let columns = ["trace", "policy", "makespan %", "mean JCT %", "worst rho %"];
    report.table(&columns, &rows);
    let worst = |metric: usize| {
        found.iter().max_by(|a, b| a.by[metric].abs().total_cmp(&b.by[metric].abs()))
    };
    for (metric, name) in ["makespan", "mean JCT", "worst rho"].into_iter().enumerate() {
        if let Some(deviation) = worst(metric) {
            report.note(&format!(
                "Furthest in {name}: {} on {}, {} %.",
                deviation.policy,
                deviation.trace,
                percent(deviation.by[metric])
            ));
        }
    }
}

/// How far one of our results is from the published one, as shares: makespan, mean completion time,
/// worst rho.
struct Deviation {
    trace: &'static str,
    policy: String,
    by: [f64; 3],
}

impl Deviation {
    fn of(run: &Run, trace: &'static str, published: [f64; 6]) -> Self {
        let ours = run.outcome.metrics(Contention::Trace);
        let ours = [ours.makespan_s, ours.mean_jct_s, ours.worst_rho];
        let by = [0, 1, 2].map(|metric| ours[metric] / published[metric] - 1.0);
        Self { trace, policy: run.setup.policy.clone(), by }
    }
}

/// Worst rho under each of the three published definitions.
fn definitions(runs: &[Run], report: &mut Report) {
    let Some(isolated) = runs.iter().find(|run| run.setup.policy == "gandiva-fair") else {
        return;
    };
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let worst = |rhos: Vec<f64>| format!("{:.2}", rhos.into_iter().fold(0.0, f64::max));
            vec![
                run.setup.policy.clone(),
                worst(run.outcome.rhos(Contention::Trace)),
                worst(run.outcome.rhos(Contention::WhileActive)),
                worst(run.outcome.rhos_beside(&isolated.outcome)),
            ]
        })
        .collect();
    report.note("Worst rho under each published definition: by the jobs of the whole trace over GPUs (`trace`, used everywhere else here), by the mean number of active jobs while the job was active (`themis`), and completion time over that under `isolated_plus`, which is Gandiva-Fair's rule (`isolated-plus`):");
    report.table(&["policy", "trace", "themis", "isolated-plus"], &rows);
}

/// What prediction is worth, and Figure 5: the default policy under every forecast.
pub(super) fn prediction(
    reference: &Reference,
    report: &mut Report,
) -> Result<(), SimulationError> {
    let Some(policy) = compared().into_iter().find(|name| *name == "shockwave") else {
        return Ok(());
    };
    report.section(
        "What prediction is worth (Figure 5, section 8.6)",
        "The same policy under different forecasts. `exact` knows every run time and exists only in the simulator.",
    );
    for (trace, gpus, table) in TRACES {
        let workload = reference.workload(trace, table)?;
        let (mut rows, mut series) = (Vec::new(), Vec::new());
        let predictors = shockwave_core::predictor::NAMES.iter().copied().chain(["exact"]);
        for predictor in predictors {
            let mut wanted = setup(gpus, policy, predictor);
            wanted.record = true;
            let run = simulation::run(&workload, &wanted)?;
            let errors = run.forecast_errors();
            series.push(Series { name: predictor.to_owned(), points: errors.clone() });
            let mean = errors.iter().map(|point| point.1).sum::<f64>() / errors.len().max(1) as f64;
            let mut row = named(predictor, &run);
            row.push(format!("{mean:.1}"));
            rows.push(row);
        }
        report.note(&format!("**{} jobs, {gpus} GPUs**", workload.jobs.len()));
        let mut columns = header("forecast");
        columns.push("error of predicted run time %");
        report.table(&columns, &rows);
        let picture = Lines {
            title: format!("Error of the predicted run time: {} jobs", workload.jobs.len()),
            x: "epochs done (%)".into(),
            y: "mean relative error (%)".into(),
            series,
            ..Lines::default()
        };
        report.picture(trace, ("forecast-error.svg".to_owned(), picture.svg()));
    }
    Ok(())
}

type Maker = fn(Information) -> Box<dyn Policy>;

/// Figures 2 and 4: agnostic, reactive, proactive.
pub(super) fn information(
    reference: &Reference,
    report: &mut Report,
) -> Result<(), SimulationError> {
    report.section(
        "Figures 2 and 4: agnostic, reactive and proactive scheduling",
        "The same policies told the first throughput for ever, the present one, or the forecast. The paper's text has worst rho 3.07 agnostic and 2.07 reactive for one job under Themis, and makespans 30 % and 22.3 % worse than proactive for an exact makespan program, on examples of its own.",
    );
    let makers: [(&str, Maker); 6] = [
        ("themis", |information| Box::new(Themis::with(information))),
        ("allox", |information| Box::new(Allox::with(information))),
        ("ossp", |information| Box::new(OpenShop { information })),
        ("srpt", |information| Box::new(Srpt { information })),
        ("lpt", |information| Box::new(Lpt { information })),
        ("list-rule", |information| Box::new(ListRule { information, ..ListRule::default() })),
    ];
    let (trace, gpus, table) = TRACES[0];
    let workload = reference.workload(trace, table)?;
    let mut rows = Vec::new();
    let mut grown = Vec::new();
    for (name, maker) in makers {
        for (level, information, predictor) in [
            ("agnostic", Information::Agnostic, PREDICTOR),
            ("reactive", Information::Reactive, PREDICTOR),
            ("proactive", Information::Proactive, PREDICTOR),
            ("exact", Information::Proactive, "exact"),
        ] {
            let wanted = setup(gpus, name, predictor);
            let run = simulation::run_policy(&workload, &wanted, maker(information).as_mut())?;
            rows.push(named(&format!("{name}, {level}"), &run));
            if name == "themis" {
                grown.push((level, rhos_of_growing(&workload, &run)));
            }
        }
    }
    grown.push(("shockwave", rhos_of_growing(&workload, &play(&workload, gpus, "shockwave")?)));
    report.note(&format!("**{} jobs, {gpus} GPUs**", workload.jobs.len()));
    report.table(&header("policy"), &rows);
    growing_jobs(&grown, report);
    Ok(())
}

/// rho of the jobs that double their batch size at least three times, as the job of Figure 2 does.
fn rhos_of_growing(workload: &Workload, run: &Run) -> Vec<f64> {
    let rhos = run.outcome.rhos(Contention::Trace);
    let grows = |job: &shockwave_core::simulator::WorkloadJob| {
        job.schedule.windows(2).filter(|pair| pair[1].1 > pair[0].1).count() >= 3
    };
    workload.jobs.iter().zip(rhos).filter(|(job, _)| grows(job)).map(|(_, rho)| rho).collect()
}

fn growing_jobs(grown: &[(&str, Vec<f64>)], report: &mut Report) {
    let row = |(level, rhos): &(&str, Vec<f64>)| {
        let worst = rhos.iter().copied().fold(0.0, f64::max);
        let mean = rhos.iter().sum::<f64>() / rhos.len().max(1) as f64;
        vec![
            (*level).to_owned(),
            rhos.len().to_string(),
            format!("{worst:.2}"),
            format!("{mean:.2}"),
        ]
    };
    report.note("Jobs that double their batch size at least three times, as that of Figure 2, under Themis at each level of information and under Shockwave:");
    let rows: Vec<Vec<String>> = grown.iter().map(row).collect();
    report.table(&["Themis told", "jobs", "worst rho", "mean rho"], &rows);
}

/// Figure 8: who runs when, by size of job, for the first 50 jobs of the smallest trace.
pub(super) fn size_classes(
    reference: &Reference,
    report: &mut Report,
) -> Result<(), SimulationError> {
    report.section(
        "Figure 8: a closer look at 50 jobs",
        "The first 50 jobs of the 120-job trace on 14 GPUs (contention 3.6). The paper's text has a worst rho of 1.23 for Shockwave on a batch of its own.",
    );
    let (trace, _, table) = TRACES[0];
    let whole = reference.workload(trace, table)?;
    let workload = Workload { jobs: whole.jobs.into_iter().take(50).collect() };
    let mut rows = Vec::new();
    for policy in compared() {
        let run = play(&workload, 14, policy)?;
        let mut row = vec![policy.to_owned()];
        row.extend(cells(&run.outcome.metrics(Contention::Trace)));
        rows.push(row);
        for picture in simulation::of_run(&run) {
            if picture.0.starts_with("sizes") {
                report.picture("50", picture);
            }
        }
    }
    report.table(&header("policy"), &rows);
    Ok(())
}
