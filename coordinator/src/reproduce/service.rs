//! The same policies in the service's own engine, and what faults cost.

use shockwave_core::simulator::Faults;
use shockwave_core::simulator::report::Contention;

use super::report::{METRICS, Report, named};
use super::{PREDICTOR, Reference, TRACES, compared, play, setup};
use crate::simulation::{self, Semantics, Setup, SimulationError};

/// Table 3: the published simulator's semantics against the product's.
pub(super) fn semantics(reference: &Reference, report: &mut Report) -> Result<(), SimulationError> {
    let (trace, gpus, table) = TRACES[0];
    let workload = reference.workload(trace, table)?;
    report.section(
        "Table 3: the simulator against the service",
        "The paper compares its simulator with a physical cluster and finds about 5 % of difference. Here the published simulator's semantics are compared with the product's: the service's own engine in virtual time, in machines of 8 GPUs, with starts of 15 s and yields of 5 s, nothing known of throughputs before they are measured, and the batch sizes of the profile.",
    );
    report.note(&format!("**{} jobs, {gpus} GPUs**", workload.jobs.len()));
    let mut rows = Vec::new();
    for policy in compared() {
        let published = play(&workload, gpus, policy)?;
        let product = simulation::run(
            &workload,
            &Setup { semantics: Semantics::Product, ..setup(gpus, policy, PREDICTOR) },
        )?;
        let (a, b) = (
            published.outcome.metrics(Contention::Trace),
            product.outcome.metrics(Contention::Trace),
        );
        let change = |a: f64, b: f64| format!("{:+.1}", (b / a - 1.0) * 100.0);
        let mut row = named(policy, &product);
        row.push(change(a.makespan_s, b.makespan_s));
        row.push(change(a.mean_jct_s, b.mean_jct_s));
        rows.push(row);
    }
    let columns: Vec<&str> = std::iter::once("policy, product semantics")
        .chain(METRICS)
        .chain(["makespan against published %", "mean JCT against published %"])
        .collect();
    report.table(&columns, &rows);
    Ok(())
}

/// What forecasts are worth in the service, where no throughput is known before it is measured.
pub(super) fn forecasts(reference: &Reference, report: &mut Report) -> Result<(), SimulationError> {
    report.section(
        "Forecasts in the service",
        "Not in the paper. `shockwave` in the product semantics under each forecast. The published simulator knows every job's first throughput when it arrives; the service knows none until an epoch is measured, and only `hierarchical` learns from other jobs of the family. `exact` knows every run time and exists only in the simulator.",
    );
    for (trace, gpus, table) in TRACES {
        let workload = reference.workload(trace, table)?;
        let mut rows = Vec::new();
        let predictors = shockwave_core::predictor::NAMES.iter().copied().chain(["exact"]);
        for predictor in predictors {
            let wanted =
                Setup { semantics: Semantics::Product, ..setup(gpus, "shockwave", predictor) };
            rows.push(named(predictor, &simulation::run(&workload, &wanted)?));
        }
        report.note(&format!("**{} jobs, {gpus} GPUs**", workload.jobs.len()));
        let columns: Vec<&str> = std::iter::once("forecast").chain(METRICS).collect();
        report.table(&columns, &rows);
    }
    Ok(())
}

/// Faults of machines, messages and forecasts.
pub(super) fn faults(reference: &Reference, report: &mut Report) -> Result<(), SimulationError> {
    let (trace, gpus, table) = TRACES[0];
    let workload = reference.workload(trace, table)?;
    report.section(
        "Faults",
        "Not in the paper. `shockwave` in the product semantics on the smallest trace: each machine of 8 GPUs lost every 2 hours on average for 10 minutes, slow by half every 2 hours for half an hour, reports up to 20 s late, forecasts off by up to 40 %; then all together.",
    );
    let none = Faults::default();
    let lost = Faults { loss_s: 7200.0, ..none };
    let slow = Faults { slow_s: 7200.0, ..none };
    let late = Faults { late_s: 20.0, ..none };
    let wrong = Faults { forecast: 0.4, ..none };
    let all = Faults { loss_s: 7200.0, slow_s: 7200.0, late_s: 20.0, forecast: 0.4, ..none };
    let mut rows = Vec::new();
    for (name, faults) in [
        ("none", none),
        ("machines lost", lost),
        ("machines slow", slow),
        ("reports late", late),
        ("forecasts wrong", wrong),
        ("all", all),
    ] {
        let wanted =
            Setup { semantics: Semantics::Product, faults, ..setup(gpus, "shockwave", PREDICTOR) };
        let run = simulation::run(&workload, &wanted)?;
        let mut row = named(name, &run);
        row.push(run.outcome.metrics(Contention::Trace).restarts.to_string());
        rows.push(row);
    }
    let columns: Vec<&str> = std::iter::once("faults").chain(METRICS).chain(["restarts"]).collect();
    report.table(&columns, &rows);
    Ok(())
}
