//! Whether the report of who got what adds up: with the jobs, with the timeline, with the clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{DEVICES, Handed, TEAM};
use crate::coordinator::Coordinator;
use crate::torture::Tally;

/// Sums of floating point numbers may differ by this much, relatively.
const ROUNDING: f64 = 1e-9;
/// Times of different clocks (the engine's, the calendar's) may differ by this much a lease, seconds.
const CLOCKS_S: f64 = 0.5;

/// What the jobs of a user add up to.
#[derive(Default)]
struct Sum {
    jobs: u64,
    gpu_s: f64,
    preemptions: u64,
    rhos: Vec<f64>,
}

pub(super) fn check(
    coordinator: &Coordinator,
    handed: &[Handed],
    gang: &Handed,
    day: Duration,
    tally: &mut Tally,
) -> Result<()> {
    let jobs = coordinator.json(&["jobs", "--all"])?;
    let jobs = jobs["jobs"].as_array().context("jobs")?;
    let fairness = coordinator.json(&["fairness"])?;
    let fairness = &fairness["fairness"];
    // Exactly what was acknowledged is there.
    let mut told: Vec<u64> = handed.iter().chain([gang]).map(|it| it.id).collect();
    let mut there: Vec<u64> = jobs.iter().filter_map(|job| job["id"].as_u64()).collect();
    told.sort_unstable();
    there.sort_unstable();
    tally.lost += told.iter().filter(|id| !there.contains(id)).count() as u64;
    tally.phantom += there.iter().filter(|id| !told.contains(id)).count() as u64;
    ensure!(told == there, "acknowledged {told:?}, there {there:?}");

    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    let mut times_s = Vec::new();
    for job in jobs {
        let sum = sums.entry(text(job, "user")?).or_default();
        sum.jobs += 1;
        sum.gpu_s += number(job, "gpus")? * number(job, "attained_s")?;
        sum.preemptions += job["preemptions"].as_u64().context("preemptions")?;
        if job["state"] == "finished" {
            sum.rhos.extend(job["rho"].as_f64());
            times_s.push(number(job, "jct_s")?);
        }
    }
    check_users(fairness, &sums)?;
    let mean_s = times_s.iter().sum::<f64>() / times_s.len() as f64;
    same("mean_jct_s", number(fairness, "mean_jct_s")?, mean_s)?;
    ensure!(fairness["finished_jobs"] == times_s.len(), "{fairness}: {} finished", times_s.len());
    let rhos: Vec<f64> = sums.values().flat_map(|sum| sum.rhos.iter().copied()).collect();
    let unfair = rhos.iter().filter(|rho| **rho > 1.0).count();
    ensure!(fairness["unfair_jobs"] == unfair, "{fairness}: {unfair} with rho above 1");
    let worst = rhos.iter().copied().reduce(f64::max).context("a rho")?;
    same("worst_rho", number(fairness, "worst_rho")?, worst)?;
    tally.note_max("worst rho", worst);
    tally.note_max("day, s", day.as_secs_f64());
    check_timeline(coordinator, jobs, day)
}

fn check_users(fairness: &Value, sums: &BTreeMap<&str, Sum>) -> Result<()> {
    let users = fairness["users"].as_array().context("users")?;
    let names: Vec<&str> = users.iter().filter_map(|user| user["user"].as_str()).collect();
    ensure!(names == sums.keys().copied().collect::<Vec<_>>(), "users {names:?}");
    let all_s: f64 = sums.values().map(|sum| sum.gpu_s).sum();
    let mut shares = 0.0;
    for user in users {
        let sum = &sums[text(user, "user")?];
        ensure!(user["jobs"] == sum.jobs && user["active_jobs"] == 0, "{user}: {} jobs", sum.jobs);
        ensure!(user["preemptions"] == sum.preemptions, "{user}: {}", sum.preemptions);
        same("gpu_s", number(user, "gpu_s")?, sum.gpu_s)?;
        same("share", number(user, "share")?, sum.gpu_s / all_s)?;
        shares += number(user, "share")?;
        let rhos = &sum.rhos;
        same("mean_rho", number(user, "mean_rho")?, rhos.iter().sum::<f64>() / rhos.len() as f64)?;
        let worst = rhos.iter().copied().fold(0.0, f64::max);
        same("worst_rho", number(user, "worst_rho")?, worst)?;
        let weight = TEAM.iter().find(|(name, _)| user["user"] == *name).context("a member")?.1;
        ensure!(number(user, "weight")? == weight, "{user}: its budget was {weight}");
    }
    same("the sum of the shares", shares, 1.0)
}

/// No device was two jobs' at once, and nobody was given more time than a job held its devices.
fn check_timeline(coordinator: &Coordinator, jobs: &[Value], day: Duration) -> Result<()> {
    // The last process may take a moment to go after its job has ended.
    let mut timeline = coordinator.json(&["timeline"])?;
    let give_up_at = Instant::now() + Duration::from_secs(60);
    while is_open(&timeline) && Instant::now() < give_up_at {
        std::thread::sleep(Duration::from_millis(100));
        timeline = coordinator.json(&["timeline"])?;
    }
    let mut changes: Vec<(f64, f64)> = Vec::new();
    let mut held_s = 0.0;
    for row in timeline["timeline"].as_array().context("rows")? {
        let job = jobs.iter().find(|job| job["id"] == row["job"]).context("its job")?;
        let (gpus, leases) = (number(job, "gpus")?, number(job, "leases")?);
        let mut own_s = 0.0;
        for span in row["spans"].as_array().context("spans")? {
            let (from_s, to_s) = (number(span, "from_s")?, number(span, "to_s")?);
            changes.extend([(from_s, gpus), (to_s, -gpus)]);
            own_s += to_s - from_s;
        }
        held_s += own_s * gpus;
        let attained_s = number(job, "attained_s")?;
        ensure!(attained_s <= own_s + CLOCKS_S * leases, "{job}: held for {own_s} s");
    }
    // What ends at a moment makes room for what begins then.
    changes.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let mut now = 0.0;
    for (at_s, change) in changes {
        now += change;
        ensure!(now <= f64::from(DEVICES), "{now} devices were held at {at_s} s");
    }
    let there_s = f64::from(DEVICES) * day.as_secs_f64();
    ensure!(held_s <= there_s, "{held_s} device-seconds were held, there were {there_s}");
    Ok(())
}

/// Whether somebody still holds devices.
fn is_open(timeline: &Value) -> bool {
    let rows = timeline["timeline"].as_array().into_iter().flatten();
    let mut spans = rows.filter_map(|row| row["spans"].as_array()).flatten();
    spans.any(|span| span["to_s"].is_null())
}

fn same(what: &str, told: f64, sum: f64) -> Result<()> {
    let close = (told - sum).abs() <= ROUNDING * (1.0 + sum.abs());
    ensure!(close, "{what} is told as {told}, the jobs add up to {sum}");
    Ok(())
}

fn number(value: &Value, field: &str) -> Result<f64> {
    value[field].as_f64().with_context(|| format!("no {field} in {value}"))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("no {field} in {value}"))
}
