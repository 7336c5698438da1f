//! Sections on generated workloads.

use shockwave_core::policies;
use shockwave_core::predictor::{self, Profile};
use shockwave_core::simulator::generate::{Recipe, Shape, generate};
use shockwave_core::simulator::{Noisy, Workload};

use super::report::{METRICS, Report, named};
use super::{PREDICTOR, Reference, SEED, play, play_all, setup};
use crate::figures::{Lines, Series};
use crate::simulation::{self, SimulationError};

/// GPUs of the generated workloads, and jobs per GPU.
const GPUS: u32 = 64;
const CONTENTION: f64 = 3.5;

fn draw(reference: &Reference, recipe: &Recipe) -> Result<Workload, SimulationError> {
    let jobs = generate(recipe, &reference.profiles, &reference.throughputs)
        .map_err(|source| SimulationError::Content { path: reference.folder.clone(), source })?;
    reference.join(&jobs)
}

fn header(first: &'static str) -> Vec<&'static str> {
    [first, "policy"].into_iter().chain(METRICS).collect()
}

fn compare(
    name: &str,
    workload: &Workload,
    gpus: u32,
) -> Result<Vec<Vec<String>>, SimulationError> {
    let runs = play_all(workload, gpus)?;
    Ok(runs
        .iter()
        .map(|run| {
            let mut row = vec![name.to_owned()];
            row.extend(named(&run.setup.policy, run));
            row
        })
        .collect())
}

/// Figure 10: from all static to all dynamic.
pub(super) fn mixes(reference: &Reference, report: &mut Report) -> Result<(), SimulationError> {
    report.section(
        "Figure 10: from static to dynamic jobs",
        &format!(
            "Generated: Gavel's generator, {GPUS} GPUs, contention {CONTENTION}, seed {SEED}; dynamic jobs are half Accordion, half GNS. The paper's text has 5 % unfair jobs for Shockwave and under 18 % for the others when all are static, and 9 %, 28 % (Themis) and 22 % (AlloX) when all are dynamic.",
        ),
    );
    let mut rows = Vec::new();
    for dynamic in [0.0, 0.4, 0.7, 1.0] {
        let recipe = Recipe {
            modes: [1.0 - dynamic, dynamic / 2.0, dynamic / 2.0],
            ..Recipe::contended(GPUS, CONTENTION, SEED)
        };
        let workload = draw(reference, &recipe)?;
        rows.extend(compare(&format!("{:.0} %", dynamic * 100.0), &workload, GPUS)?);
    }
    report.table(&header("dynamic jobs"), &rows);
    Ok(())
}

/// Figure 13: wrong forecasts.
pub(super) fn noise(reference: &Reference, report: &mut Report) -> Result<(), SimulationError> {
    let policy = if policies::by_name("shockwave").is_some() { "shockwave" } else { "list-rule" };
    report.section(
        "Figure 13: resilience to prediction error",
        &format!(
            "`{policy}` with every job's predicted times off by a factor drawn once from 1 +- p, all jobs dynamic, the workload of Figure 10. The paper's text has over 30 % lower efficiency at 100 %.",
        ),
    );
    let recipe = Recipe { modes: [0.0, 0.5, 0.5], ..Recipe::contended(GPUS, CONTENTION, SEED) };
    let workload = draw(reference, &recipe)?;
    let mut rows = Vec::new();
    for percent in [0.0, 20.0, 40.0, 60.0, 80.0, 100.0] {
        let Some(mut chosen) = policies::by_name(policy) else { continue };
        let Ok(inner) = predictor::by_name(PREDICTOR, Profile::default()) else { continue };
        let noisy = Box::new(Noisy::new(inner, percent / 100.0, SEED));
        let wanted = setup(GPUS, policy, PREDICTOR);
        let run = simulation::run_with(&workload, &wanted, chosen.as_mut(), noisy)?;
        rows.push(named(&format!("{percent:.0} %"), &run));
    }
    let columns: Vec<&str> = std::iter::once("error").chain(METRICS).collect();
    report.table(&columns, &rows);
    Ok(())
}

/// Appendix I: contention.
pub(super) fn contention(
    reference: &Reference,
    report: &mut Report,
) -> Result<(), SimulationError> {
    report.section(
        "Appendix I: contention from 1.5 to 3",
        &format!("Generated: Gavel's generator, 14 GPUs, seed {SEED}. The paper ran 14 real GPUs; its text has a worst rho near 1 for everybody at 1.5."),
    );
    let mut rows = Vec::new();
    for contention in [1.5, 2.0, 2.5, 3.0] {
        // A gang of 8 on 14 GPUs leaves no room for a second one: gangs up to 4.
        let recipe =
            Recipe { gangs: [0.6, 0.3, 0.1, 0.0], ..Recipe::contended(14, contention, SEED) };
        rows.extend(compare(&format!("{contention}"), &draw(reference, &recipe)?, 14)?);
    }
    report.table(&header("contention"), &rows);
    Ok(())
}

/// Appendix J: the less diverse trace.
pub(super) fn pollux(reference: &Reference, report: &mut Report) -> Result<(), SimulationError> {
    report.section(
        "Appendix J: Pollux's trace",
        &format!("Generated with the published statistics of Pollux's trace (durations and hourly arrivals, five times as fast), 160 jobs, 32 GPUs, seed {SEED}. The paper's text has a makespan win of 20 % over Themis, Gavel and AlloX here, and 30 to 35 % on the default workload."),
    );
    let recipe = Recipe { shape: Shape::Pollux, gap_s: 36.0, ..Recipe::published(160, SEED) };
    let rows = compare("Pollux", &draw(reference, &recipe)?, 32)?;
    report.table(&header("workload"), &rows);
    Ok(())
}

/// What a simulation costs at growing size.
pub(super) fn scale(reference: &Reference, report: &mut Report) -> Result<(), SimulationError> {
    report.section(
        "Cost against size",
        &format!("Generated: Gavel's generator, contention {CONTENTION}, seed {SEED}; time of the whole simulation on one thread of the machine that wrote this page."),
    );
    let policies = ["gandiva-fair", "gavel", "list-rule", "shockwave"];
    let mut series: Vec<Series> = policies
        .iter()
        .map(|policy| Series { name: (*policy).to_owned(), points: Vec::new() })
        .collect();
    let mut rows = Vec::new();
    for gpus in [32, 64, 128, 256, 512, 1024, 2560] {
        let workload = draw(reference, &Recipe::contended(gpus, CONTENTION, SEED))?;
        let jobs = workload.jobs.len();
        let mut row = vec![format!("{jobs} / {gpus}")];
        for (policy, line) in policies.iter().zip(&mut series) {
            let run = play(&workload, gpus, policy)?;
            let wall_s = run.wall.as_secs_f64();
            row.push(format!("{wall_s:.2}"));
            line.points.push((jobs as f64, wall_s.max(1e-3)));
        }
        rows.push(row);
    }
    let columns: Vec<String> = std::iter::once("jobs / GPUs".to_owned())
        .chain(policies.map(|p| format!("{p} s")))
        .collect();
    report.table(&columns.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
    let picture = Lines {
        title: "Cost of a simulation".into(),
        x: "jobs".into(),
        y: "time of the simulation (seconds)".into(),
        series,
        mark_x: None,
        logarithmic: true,
    };
    report.picture("scale", ("cost.svg".to_owned(), picture.svg()));
    Ok(())
}
