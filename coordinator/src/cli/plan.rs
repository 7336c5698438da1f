//! `shockwave plan`: plans a window and shows the plan with its certificate.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use super::connect::CoordinatorArgs;
use super::live_plan;
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use shockwave_core::market::{Account, Instance, InstanceJob, MarketReport, market_report};
use shockwave_core::solver::{
    Certificate, Effort, Method, Placement, Plan, Program, Sides, polish, solve, solve_constrained,
};

/// A gap above this is worth HiGHS's time.
const POLISH_ABOVE: f64 = 1e-4;

/// Shows the coordinator's plan; with an instance, plans that and certifies how far the plan can be
/// from the best.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Plan this instance instead, a JSON file (`-` reads standard input); needs no coordinator.
    #[arg(long, value_name = "FILE")]
    instance: Option<PathBuf>,
    #[command(flatten)]
    coordinator: CoordinatorArgs,
}

/// What the command prints.
#[derive(Debug, Serialize)]
struct Report {
    /// From the instance to the plan and its certificate; the market report is not in it.
    solve_ms: f64,
    method: Method,
    #[serde(flatten)]
    certificate: Certificate,
    /// Price of a GPU in each round of the fluid market, all budgets together being 1.
    prices: Vec<f64>,
    /// What one more GPU round is worth to the plan, in units of the objective.
    marginal_price: f64,
    schedule: BTreeMap<String, Vec<usize>>,
    market: Market,
}

/// The market report with accounts by job.
#[derive(Debug, Serialize)]
struct Market {
    #[serde(flatten)]
    report: MarketReport,
    accounts: BTreeMap<String, Option<Account>>,
}

/// Runs the command.
#[must_use]
pub fn run(args: &PlanArgs) -> ExitCode {
    let Some(file) = &args.instance else {
        return live_plan::run(&args.coordinator);
    };
    let name = file.display();
    let planned = read(file).and_then(|instance| {
        let report = plan(&instance).with_context(|| name.to_string())?;
        Ok((instance, report))
    });
    let (instance, report) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(2);
        }
    };
    if args.coordinator.json {
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
    let sides = instance.sides();
    let start = Instant::now();
    let left_s = || instance.time_limit_s - start.elapsed().as_secs_f64();
    let program = instance.objective.program(&window);
    let plan = solve_within(&program, &sides, &left_s)?;
    let solve_ms = start.elapsed().as_secs_f64() * 1e3;
    let out_of_time = || left_s() <= 0.0;
    let mut report = market_report(&window, instance.objective, &plan.schedule, &out_of_time);
    let accounts = std::mem::take(&mut report.accounts);
    let names = || instance.jobs.iter().map(|job| job.id.to_string());
    let rounds_of = |(index, job): (usize, &InstanceJob)| {
        (job.id.to_string(), plan.schedule.rounds_of(index).collect())
    };
    Ok(Report {
        solve_ms,
        method: plan.method,
        prices: report.prices.clone(),
        marginal_price: plan.price,
        schedule: instance.jobs.iter().enumerate().map(rounds_of).collect(),
        market: Market { report, accounts: names().zip(accounts).collect() },
        certificate: plan.certificate,
    })
}

fn solve_within(
    program: &Program,
    sides: &Sides,
    left_s: &dyn Fn() -> f64,
) -> anyhow::Result<Plan> {
    let effort = Effort::default();
    if !sides.is_empty() {
        return Ok(solve_constrained(program, sides, &effort, left_s())?);
    }
    let plan = solve(program, &effort, Placement::FewStarts, &|| left_s() <= 0.0);
    let left_s = left_s();
    if plan.certificate.gap <= POLISH_ABOVE || left_s <= 0.0 {
        return Ok(plan);
    }
    Ok(polish(program, plan, left_s))
}

/// The plan for people: the certificate, the market, then who runs when.
fn text(instance: &Instance, report: &Report) -> String {
    let Certificate { objective, upper_bound, gap, restarts, restarts_bound, rounds_lost, .. } =
        &report.certificate;
    let gpu_rounds = u64::from(instance.gpus) * u64::from(instance.rounds);
    let used: u64 = report.certificate.load.iter().sum();
    let market = &report.market.report;
    let mut out = format!(
        "{} jobs, {} GPUs, {} rounds of {} s, planned in {:.1} ms\n\
         objective {objective:.6}, at most {upper_bound:.6} is possible: gap {gap:.1e}\n\
         {used} of {gpu_rounds} GPU rounds used, {rounds_lost} lost; {restarts} starts, at least \
         {restarts_bound} are needed\n\
         market: welfare {:.6}, at most {:.6}; {:.1e} of the money's worth unsold\n",
        instance.jobs.len(),
        instance.gpus,
        instance.rounds,
        instance.round_s,
        report.solve_ms,
        market.welfare,
        market.welfare_bound,
        market.unsold,
    );
    let width = report.schedule.keys().map(String::len).max().unwrap_or(0);
    for (id, rounds) in &report.schedule {
        let row: String = (0..instance.rounds as usize)
            .map(|round| if rounds.binary_search(&round).is_ok() { '#' } else { '.' })
            .collect();
        out.push_str(&format!("{id:>width$} {row}\n"));
    }
    out.push('\n');
    out.push_str(market.meaning);
    out.push('\n');
    out
}
