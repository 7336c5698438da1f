//! `shockwave plan`: instances as its users write them, and the live plan's certificate.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod common;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Coordinator, options, shell};
use serde_json::{Value, json};
use shockwave_proto::v1::{CancelJobRequest, PlanRequest};

/// Runs `shockwave plan --instance - --json` on a document.
fn plan_text(document: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shockwave"))
        .args(["plan", "--instance", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses early closes its input.
    let _ = child.stdin.take().unwrap().write_all(document.as_bytes());
    child.wait_with_output().unwrap()
}

fn plan(document: &Value) -> Value {
    let output = plan_text(&document.to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn job(id: &str, gpus: u32, epochs: f64, epoch_s: f64, rho: f64) -> Value {
    json!({"id": id, "gpus": gpus, "epochs_total": 2.0 * epochs, "epochs_done": epochs,
        "regimes": [{"epochs": 0.5 * epochs, "epoch_s": epoch_s},
            {"epochs": 0.5 * epochs, "epoch_s": 0.5 * epoch_s}],
        "rho": rho, "elapsed_s": 600, "attained_s": 300, "contention": 2})
}

fn instance(objective: &str) -> Value {
    json!({"objective": objective, "gpus": 4, "rounds": 6, "round_s": 120, "k": 5,
        "lambda": 0.001, "time_limit_s": 5,
        "jobs": [job("a", 4, 10.0, 60.0, 1.0), job("b", 2, 4.0, 90.0, 1.4),
            job("c", 1, 20.0, 30.0, 0.8), job("d", 1, 2.0, 200.0, 1.1)]})
}

/// The formula, from nothing but the schedule.
fn progress_objective(instance: &Value, schedule: &Value) -> f64 {
    let number = |value: &Value, field: &str| value[field].as_f64().unwrap();
    let (gpus, round_s) = (number(instance, "gpus"), number(instance, "round_s"));
    let jobs = instance["jobs"].as_array().unwrap();
    let (mut welfare, mut work_s, mut longest_s, mut z0_s) = (0.0, 0.0, 0.0_f64, 0.0);
    for job in jobs {
        let mut time_s = schedule[job["id"].as_str().unwrap()].as_array().unwrap().len() as f64;
        time_s *= round_s;
        let (mut epochs, mut left_s) = (number(job, "epochs_done"), -time_s);
        for regime in job["regimes"].as_array().unwrap() {
            let whole_s = number(regime, "epochs") * number(regime, "epoch_s");
            let used_s = time_s.min(whole_s);
            epochs += used_s / number(regime, "epoch_s");
            time_s -= used_s;
            left_s += whole_s;
            z0_s += whole_s;
        }
        let utility = (epochs / number(job, "epochs_total")).max(1e-6);
        welfare += number(job, "rho").powf(number(instance, "k")) * utility.ln();
        work_s += number(job, "gpus") * left_s.max(0.0);
        longest_s = longest_s.max(left_s);
    }
    let makespan_s = longest_s.max(work_s / gpus);
    welfare / (jobs.len() as f64 * gpus) - number(instance, "lambda") / z0_s * makespan_s
}

#[test]
fn a_plan_is_what_its_schedule_says() {
    let document = instance("progress");
    let plan = plan(&document);
    let expected = progress_objective(&document, &plan["schedule"]);
    let objective = plan["objective"].as_f64().unwrap();
    assert!((objective - expected).abs() <= 1e-9 * expected.abs(), "{objective} {expected}");
    let bound = plan["upper_bound"].as_f64().unwrap();
    assert!(bound >= objective && plan["gap"].as_f64().unwrap() <= 5e-4);
    let mut load = [0; 6];
    for (job, gang) in [("a", 4), ("b", 2), ("c", 1), ("d", 1)] {
        for round in plan["schedule"][job].as_array().unwrap() {
            load[round.as_u64().unwrap() as usize] += gang;
        }
    }
    assert!(load.iter().all(|load| *load <= 4), "{load:?}");
    assert_eq!(plan["rounds_lost"], 0);
    // The market report: prices, its duality gap, where each budget went, and what that means.
    assert_eq!(plan["prices"].as_array().unwrap().len(), 6);
    let market = &plan["market"];
    assert!(market["duality_gap"].as_f64().unwrap().abs() < 1e-6, "{market}");
    assert!(market["residual_max"].as_f64().unwrap() < 1e-6, "{market}");
    assert!(market["accounts"]["b"]["spending"].as_f64().unwrap() >= 0.0, "{market}");
    assert!(market["meaning"].as_str().unwrap().contains("no equilibrium"));
}

#[test]
fn finish_time_plans_carry_a_certificate_and_the_same_input_gives_the_same_plan() {
    let first = plan(&instance("finish-time"));
    assert!(first["gap"].as_f64().unwrap() <= 5e-4 && first["rounds_lost"] == 0, "{first}");
    let second = plan(&instance("finish-time"));
    assert_eq!(first["schedule"], second["schedule"]);
    assert_eq!(first["objective"], second["objective"]);
}

#[test]
fn an_instance_may_bring_samples() {
    let mut document = instance("progress");
    document["jobs"][2]["samples"] = json!([[{"epochs": 20, "epoch_s": 10}],
        [{"epochs": 20, "epoch_s": 60}]]);
    let plan = plan(&document);
    assert!(plan["upper_bound"].as_f64().unwrap() >= plan["objective"].as_f64().unwrap());
}

#[test]
fn bad_instances_are_answered_clearly() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 16] = [
        (|it| it["speed"] = json!(1), "unknown field `speed`"),
        (|it| it["jobs"][0]["gpu"] = json!(1), "unknown field `gpu`"),
        (|it| it["objective"] = json!("profit"), "unknown variant `profit`"),
        (|it| it["gpus"] = json!(0), "instance: gpus is 0, expected a number from 1 to"),
        (|it| it["gpus"] = json!(-4), "invalid value: integer `-4`"),
        (|it| it["rounds"] = json!(100_000), "instance: rounds is 100000"),
        (|it| it["round_s"] = json!(-120), "instance: round_s is -120"),
        (|it| it["round_s"] = json!(null), "invalid type: null"),
        (|it| it["lambda"] = json!(-1), "instance: lambda is -1"),
        (|it| it["jobs"] = json!([]), "from 1 to 1000000 jobs"),
        (|it| it["jobs"][1]["id"] = json!("a"), "id is a, expected a name of its own"),
        (|it| it["jobs"][0]["gpus"] = json!(5), "job a: gpus is 5, expected from 1 to"),
        (|it| it["jobs"][3]["rho"] = json!(-0.5), "job d: rho is -0.5"),
        (|it| it["jobs"][3]["weight"] = json!(0), "job d: weight is 0"),
        (|it| it["jobs"][1]["regimes"][0]["epoch_s"] = json!(1e300), "regimes[0].epoch_s"),
        (|it| it["jobs"][2]["epochs_done"] = json!(1e6), "job c: epochs_done is 1000000"),
    ];
    for (change, expected) in cases {
        let mut document = instance("progress");
        change(&mut document);
        refused(&document.to_string(), expected);
    }
    let text = instance("progress").to_string();
    refused(&text.replace("0.001", "NaN"), "line 1");
    refused(&text.replace("0.001", "1e999"), "out of range");
    refused(&text[..text.len() / 2], "EOF");
    refused("[]", "expected");
}

fn refused(document: &str, expected: &str) {
    let output = plan_text(document);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with("error: ") && error.contains(expected), "{error} lacks {expected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_plan_shows_its_certificate_and_prices() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), 1);
    options.configuration.policy = "shockwave".into();
    options.configuration.tuning.samples = 4;
    let coordinator = Coordinator::with(options).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(coordinator.submit(shell("sleep 1000")).await.id);
    }
    let began = Instant::now();
    let plan = loop {
        let request = coordinator.with_token(PlanRequest {});
        let plan = coordinator.client().plan(request).await.unwrap().into_inner();
        if plan.gap.is_some() {
            break plan;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no certificate: {plan:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(plan.policy, "shockwave");
    assert!(plan.bound.unwrap() >= plan.objective.unwrap() && plan.gap.unwrap() >= 0.0);
    assert!(plan.planned.iter().any(|round| round.price.is_some_and(|price| price >= 0.0)));
    // What runs would outlive the coordinator.
    for job_id in ids {
        let cancel = CancelJobRequest { job_id, reason: String::new() };
        coordinator.client().cancel_job(coordinator.with_token(cancel)).await.unwrap();
        coordinator.until(job_id, |info| info.devices.is_empty()).await;
    }
    coordinator.stop().await;
}
