//! Metrics in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write;

use shockwave_proto::v1::JobState;
use tonic::Status;

use crate::cli::json::state_name;
use crate::grpc::client::fairness;
use crate::service::owner::Owner;
use crate::service::{Shared, view};

/// The page of metrics.
pub(super) async fn metrics(shared: &Shared) -> Result<String, Status> {
    shared.handle.ask(|owner| Ok(render(owner))).await
}

/// Names a metric; values follow.
fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A label's value with what the format wants escaped.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn render(owner: &Owner) -> String {
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, help: &str, value: f64| {
        head(&mut text, name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    };
    let book = &owner.state.book;
    let engine = &owner.state.engine;
    let records = owner.durable() as f64;
    one("shockwave_log_records_total", "counter", "Durable records of the log", records);
    one("shockwave_round", "gauge", "Index of the round going on", engine.round() as f64);
    let solve_s = book.rounds.solve_s;
    one("shockwave_plan_seconds", "gauge", "Time that the last plan took", solve_s);
    one("shockwave_devices", "gauge", "Devices in service", f64::from(engine.gpus()));
    let held: usize = book.leases.values().map(|it| it.placement.gpus() as usize).sum();
    one("shockwave_devices_leased", "gauge", "Devices under a lease", held as f64);
    let start = owner.store.epoch as f64;
    one("shockwave_coordinator_epoch", "counter", "Starts of a coordinator on this store", start);
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for state in [
        JobState::Queued,
        JobState::Starting,
        JobState::Running,
        JobState::Yielding,
        JobState::Held,
        JobState::Finished,
        JobState::Failed,
        JobState::Cancelled,
    ] {
        states.insert(state_name(state), 0);
    }
    for job in book.jobs.values() {
        *states.entry(state_name(view::job_state(owner, job))).or_default() += 1;
    }
    head(&mut text, "shockwave_jobs", "gauge", "Jobs by state");
    for (state, count) in states {
        let _ = writeln!(text, "shockwave_jobs{{state=\"{state}\"}} {count}");
    }
    users(&mut text, owner);
    text
}

fn users(text: &mut String, owner: &Owner) {
    let users = fairness::report(owner).users;
    head(text, "shockwave_device_seconds_total", "counter", "Device time received by user");
    for it in &users {
        let user = label(&it.user);
        let _ = writeln!(text, "shockwave_device_seconds_total{{user=\"{user}\"}} {}", it.gpu_s);
    }
    head(text, "shockwave_preemptions_total", "counter", "Devices given back before the end");
    for it in &users {
        let user = label(&it.user);
        let _ = writeln!(text, "shockwave_preemptions_total{{user=\"{user}\"}} {}", it.preemptions);
    }
    head(text, "shockwave_rho_worst", "gauge", "Largest finish-time fairness of finished jobs");
    for it in &users {
        if let Some(rho) = it.worst_rho {
            let user = label(&it.user);
            let _ = writeln!(text, "shockwave_rho_worst{{user=\"{user}\"}} {rho}");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_are_escaped() {
        assert_eq!(super::label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
