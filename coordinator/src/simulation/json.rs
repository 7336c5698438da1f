//! A simulation as JSON.

use serde_json::{Value, json};
use shockwave_core::simulator::report::Contention;

use super::Run;

/// The report of a run: policy, semantics, seed, metrics, jobs. With `timed` false the measured
/// wall time is null, and the same seed gives the same bytes.
#[must_use]
pub fn report(run: &Run, timed: bool) -> Value {
    let metrics = run.outcome.metrics(Contention::Trace);
    let rhos = run.outcome.rhos(Contention::Trace);
    let jobs: Vec<Value> = run
        .outcome
        .jobs
        .iter()
        .zip(rhos)
        .map(|(job, rho)| {
            json!({
                "id": job.id.0,
                "arrival_s": job.arrival_s,
                "jct_s": job.jct_s,
                "rho": rho,
                "restarts": job.restarts,
            })
        })
        .collect();
    json!({
        "policy": run.setup.policy,
        "semantics": run.setup.semantics.name(),
        "seed": run.setup.seed,
        "metrics": {
            "makespan_s": metrics.makespan_s,
            "mean_jct_s": metrics.mean_jct_s,
            "p95_jct_s": metrics.p95_jct_s,
            "worst_rho": metrics.worst_rho,
            "unfair_1_0": metrics.unfair_1_0,
            "unfair_1_05": metrics.unfair_1_05,
            "unfair_1_1": metrics.unfair_1_1,
            "utilisation": metrics.utilisation,
            "restarts": metrics.restarts,
            "sim_wall_s": timed.then_some(run.wall.as_secs_f64()),
        },
        "jobs": jobs,
    })
}
