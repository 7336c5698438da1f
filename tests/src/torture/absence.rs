//! The coordinator is away (P4): 5 s, the lease's time, and longer than that with its grace. A real
//! job of the SDK trains on, trains on, and parks; it is never taken for finished.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::job::{self, count};
use super::{Run, Scenario};
use crate::coordinator::Coordinator;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "absence",
    what: "P4: no coordinator for 5 s, TTL, TTL + grace + 1 s: trains on, trains on, parks",
    counts: "absences",
    runs: 6,
    ci_runs: 3,
    prepare,
};

const TTL_S: f64 = 9.0;
const GRACE_S: f64 = 5.0;

fn prepare(_runs: u64) -> Result<Run> {
    Ok(Box::new(|seed, tally| {
        let folder = tempfile::tempdir()?;
        let training = job::training(&folder.path().join("job"), 100_000);
        std::fs::create_dir_all(training.checkpoints())?;
        let serve = format!("--devices cpu:1 --round-s 9 --ttl-s {TTL_S} --grace-s {GRACE_S}");
        let mut coordinator = Coordinator::start(&folder.path().join("serve"), &serve)?;
        let id = coordinator.submit("absent", &training.command())?;
        job::train_on(&training, 20, &coordinator)?;
        let before = coordinator.job(id)?;
        let process = job::processes(&training);
        ensure!(process.len() == 1, "it trains as {process:?}");
        // The lease's time counts from the last renewal, up to a third of it before the absence.
        let (away_s, parks) =
            [(5.0, false), (TTL_S, false), (TTL_S + GRACE_S + 1.0, true)][seed as usize % 3];
        coordinator.kill()?;
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < away_s {
            std::thread::sleep(Duration::from_millis(20));
        }
        let now = job::processes(&training);
        if parks {
            // A machine that is shared with other tests may take longer to write the checkpoint.
            let patience = Duration::from_secs(if tally.is_timed { 3 } else { 60 });
            job::until(patience, "it parks", || job::processes(&training).is_empty())?;
            tally.note_max("parked after, s", began.elapsed().as_secs_f64());
        } else {
            tally.double += u64::from(now.len() > 1);
            ensure!(now == process, "away for {away_s} s: {process:?} became {now:?}");
        }
        coordinator.start_again()?;
        tally.checked += 1;
        let after = coordinator.job(id)?;
        let said = || format!("{after}\n{}", coordinator.logs(id));
        ensure!(after["state"] != "finished" && after["state"] != "failed", "{}", said());
        let epochs = |job: &serde_json::Value| job["epochs_done"].as_f64().unwrap_or(0.0).floor();
        tally.lost += u64::from(epochs(&after) < epochs(&before));
        ensure!(epochs(&after) >= epochs(&before), "lost: {before} then {after}");
        job::train_on(&training, 10, &coordinator).with_context(said)?;
        let leases = count(&coordinator.job(id)?, "leases");
        ensure!(leases == 1 + u64::from(parks), "{leases} leases: {}", said());
        ensure!(
            job::processes(&training).len() == 1,
            "it trains as {:?}",
            job::processes(&training)
        );
        coordinator.command(&["cancel", &id.to_string()])?;
        let gone = || job::processes(&training).is_empty();
        job::until(Duration::from_secs(30), "it ends", gone)
    }))
}
