//! A real SDK job under a real coordinator, for the scenarios that need one.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::coordinator::Coordinator;
use crate::training::Training;

/// A job of so many epochs; checkpoints every few steps, one step in some ten milliseconds.
#[must_use]
pub fn training(folder: &Path, epochs: u64) -> Training {
    let arguments = format!(
        "--depth 8 --width 6 --dropout 0.1 --seed 5 --epochs {epochs} --batch 16 \
         --train-samples 256 --test-samples 32 --checkpoint-every 8"
    );
    Training::new(folder, &arguments)
}

/// Lines of the sample log that begin so.
#[must_use]
pub fn lines(training: &Training, start: &str) -> usize {
    let text = std::fs::read_to_string(training.sample_log()).unwrap_or_default();
    text.lines().filter(|line| line.starts_with(start)).count()
}

/// Waits until so many more batches are trained.
///
/// # Errors
/// They are not, in two minutes.
pub fn train_on(training: &Training, more: usize, coordinator: &Coordinator) -> Result<()> {
    let wanted = lines(training, "batch ") + more;
    until(Duration::from_secs(120), "training goes on", || lines(training, "batch ") >= wanted)
        .map_err(|error| error.context(coordinator.output()))
}

/// Waits for a condition.
///
/// # Errors
/// It does not come true in time.
pub fn until(patience: Duration, what: &str, mut condition: impl FnMut() -> bool) -> Result<()> {
    let give_up_at = Instant::now() + patience;
    while !condition() {
        ensure!(Instant::now() < give_up_at, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The processes that train now (their program is the training's, not one of the agent's helpers).
#[must_use]
pub fn processes(training: &Training) -> Vec<i32> {
    let mark = training.sample_log().display().to_string();
    with_argument(&mark, "resnet_cifar")
}

/// Processes of a program with an argument that holds `mark`.
#[must_use]
pub fn with_argument(mark: &str, program: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split('\0');
        let is_program = words.next().is_some_and(|first| first.ends_with(program));
        is_program && words.any(|word| word.contains(mark)) && is_alive(*pid)
    })
    .collect()
}

/// Whether a process runs (and does not only wait to be reaped).
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    shockwave::runner::process::stat(pid).is_some_and(|stat| !stat.zombie)
}

/// Sends a signal to processes.
pub fn signal(pids: &[i32], number: i32) {
    for pid in pids {
        let _ = shockwave::runner::process::signal(*pid, number);
    }
}

/// A field of a job as a count.
#[must_use]
pub fn count(job: &Value, field: &str) -> u64 {
    job[field].as_u64().unwrap_or_default()
}
