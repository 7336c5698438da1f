//! `shockwave plan`: plans a window and shows the plan with its certificate.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use shockwave_core::market::Instance;
use shockwave_core::solver::{Certificate, Effort, Plan, solve};

/// Plans a window of rounds and certifies how far the plan can be from the best.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Planning instance, a JSON file (`-` reads standard input).
    #[arg(long, value_name = "FILE")]
    instance: PathBuf,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
}

/// What the command prints.
#[derive(Debug, Serialize)]
struct Report {
    solve_ms: f64,
    #[serde(flatten)]
    certificate: Certificate,
    /// Price of a GPU in each round, in units of the objective.
    prices: Vec<f64>,
    schedule: BTreeMap<String, Vec<usize>>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &PlanArgs) -> ExitCode {
    let instance = match read(&args.instance) {
        Ok(instance) => instance,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(2);
        }
    };
    let report = match plan(&instance) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {}: {error:#}", args.instance.display());
            return ExitCode::from(2);
        }
    };
    if args.json {
        match serde_json::to_string(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        print!("{}", text(&instance, &report));
    }
    ExitCode::SUCCESS
}

fn read(path: &Path) -> anyhow::Result<Instance> {
    let mut document = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut document).context("standard input")?;
    } else {
        document = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    }
    serde_json::from_str(&document).with_context(|| path.display().to_string())
}

fn plan(instance: &Instance) -> anyhow::Result<Report> {
    let window = instance.window()?;
    let start = Instant::now();
    let stop = || start.elapsed().as_secs_f64() >= instance.time_limit_s;
    let program = instance.objective.program(&window);
    let Plan { schedule, certificate, price, .. } = solve(&program, &Effort::default(), &stop);
    let solve_ms = start.elapsed().as_secs_f64() * 1e3;
    let prices = certificate
        .load
        .iter()
        .map(|&load| if load == u64::from(instance.gpus) { price } else { 0.0 })
        .collect();
    let rounds_of = |(index, job): (usize, &shockwave_core::market::InstanceJob)| {
        (job.id.to_string(), schedule.rounds_of(index).collect())
    };
    let schedule = instance.jobs.iter().enumerate().map(rounds_of).collect();
    Ok(Report { solve_ms, certificate, prices, schedule })
}

/// The plan for people: the certificate, then who runs when.
fn text(instance: &Instance, report: &Report) -> String {
    let certificate = &report.certificate;
    let gpu_rounds = u64::from(instance.gpus) * u64::from(instance.rounds);
    let used: u64 = certificate.load.iter().sum();
    let mut out = format!(
        "{} jobs, {} GPUs, {} rounds of {} s, planned in {:.1} ms\n\
         objective {:.6}, at most {:.6} is possible: gap {:.1e}\n\
         {used} of {gpu_rounds} GPU rounds used, {} lost; {} starts, at least {} are needed\n",
        instance.jobs.len(),
        instance.gpus,
        instance.rounds,
        instance.round_s,
        report.solve_ms,
        certificate.objective,
        certificate.upper_bound,
        certificate.gap,
        certificate.rounds_lost,
        certificate.restarts,
        certificate.restarts_bound,
    );
    let width = report.schedule.keys().map(String::len).max().unwrap_or(0);
    for (id, rounds) in &report.schedule {
        let row: String = (0..instance.rounds as usize)
            .map(|round| if rounds.binary_search(&round).is_ok() { '#' } else { '.' })
            .collect();
        out.push_str(&format!("{id:>width$} {row}\n"));
    }
    out
}
