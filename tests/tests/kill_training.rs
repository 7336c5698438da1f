//! kill -9 of training processes, again and again: the run ends with the same bytes as one that was never interrupted,
//! and has trained on every sample exactly once in each epoch.
//!
//! `SHOCKWAVE_KILLS` sets how often in all (20 without it); `cargo xtask torture training` sets it.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use shockwave_tests::samples;
use shockwave_tests::training::{Process, Training, newest_checkpoint_file};

const EPOCHS: u64 = 4;
const SAMPLES: u64 = 384;

/// The epoch with which the batch changes.
const CHANGE: u64 = 1;

/// Dropout, augmentation, shuffling, and a change of the batch size in the middle.
fn arguments(optimizer: &str) -> String {
    format!(
        "--optimizer {optimizer} --depth 8 --width 4 --dropout 0.2 --augment --seed 5 \
         --epochs {EPOCHS} --batch 16 --train-samples {SAMPLES} --test-samples 64 \
         --policy expert --schedule 0:16,{CHANGE}:32 --checkpoint-every 5"
    )
}

/// When to kill.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// After this many more batches.
    Batches(usize),
    /// As soon as a checkpoint is being written, after this many more batches.
    Write(usize),
    /// At the first batch after the batch size has changed.
    Change,
}

fn count(log: &Path, start: &str) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.starts_with(start)).count()
}

/// Whether a checkpoint is half written now.
fn writing(checkpoints: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(checkpoints) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".tmp-"))
}

/// A job, and how often and when it is killed.
struct Torture {
    optimizer: &'static str,
    workers: usize,
    rng: ChaCha8Rng,
    folder: tempfile::TempDir,
    /// What an undisturbed run left, and the job that left it.
    expected: Value,
    whole: Training,
    killed: usize,
    within_write: usize,
    after_change: usize,
}

impl Torture {
    fn new(optimizer: &'static str, workers: usize, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let whole = Training::new(&folder.path().join("whole"), &arguments(optimizer));
        let expected = whole.finish_with(workers).unwrap();
        assert_eq!(expected["decisions"][0]["new_batch"], 32, "the batch changes in the middle");
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let (killed, within_write, after_change) = (0, 0, 0);
        Self {
            optimizer,
            workers,
            rng,
            folder,
            expected,
            whole,
            killed,
            within_write,
            after_change,
        }
    }

    /// Waits for the moment, or for the first batch after the batch size has changed; whether it came before the end.
    fn wait_for(&mut self, moment: Moment, job: &Training, crew: &mut [Process]) -> bool {
        let log = job.sample_log();
        let change = format!("epoch {CHANGE} done 0");
        let (start, changed) = (count(&log, "batch "), count(&log, &change) > 0);
        let wanted = match moment {
            Moment::Batches(wanted) | Moment::Write(wanted) => wanted,
            Moment::Change => usize::MAX - start,
        };
        while count(&log, "batch ") < start + wanted {
            if crew.iter_mut().any(|process| process.has_ended().unwrap()) {
                return false;
            }
            if !changed && count(&log, &change) > 0 {
                self.after_change += 1;
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // No sleep: a write takes a few milliseconds.
        while matches!(moment, Moment::Write(_)) && !writing(&job.checkpoints()) {
            if crew.iter_mut().any(|process| process.has_ended().unwrap()) {
                return false;
            }
        }
        true
    }

    /// Starts the job and kills a worker or all; false when it finished before.
    fn disturb(&mut self, job: &Training, last: bool) -> bool {
        let more = self.rng.random_range(1..9);
        let moment = match self.killed % 3 {
            // Every job is killed there at least once.
            _ if last && self.after_change == 0 => Moment::Change,
            2 => Moment::Write(more),
            _ => Moment::Batches(more),
        };
        let victim = self.rng.random_range(0..=self.workers);
        let mut crew = job.start_workers(self.workers).unwrap();
        if !self.wait_for(moment, job, &mut crew) {
            for process in &mut crew {
                let status = process.wait().unwrap();
                assert!(status.success(), "{moment:?}: {status}: {}", process.output());
            }
            return false;
        }
        for (rank, process) in crew.iter_mut().enumerate() {
            if victim == rank || victim == self.workers {
                process.kill().unwrap();
            }
        }
        // Whoever is left must notice, and end.
        for process in &mut crew {
            assert!(!process.wait().unwrap().success(), "went on alone: {}", process.output());
        }
        self.killed += 1;
        self.within_write += usize::from(writing(&job.checkpoints()));
        true
    }

    /// Compares what a finished job has left.
    fn compare(&self, job: &Training, results: &Value) {
        let told = format!("{} with {} workers", self.optimizer, self.workers);
        for key in ["checkpoint_sha256", "steps", "test_accuracy", "decisions"] {
            assert_eq!(results[key], self.expected[key], "{key}; {told}");
        }
        assert_eq!(results["exact"], true);
        for file in ["model.safetensors", "training.safetensors"] {
            let bytes = |job: &Training| newest_checkpoint_file(&job.checkpoints(), file).unwrap();
            assert!(bytes(job) == bytes(&self.whole), "{file} differs; {told}");
        }
        for job in [job, &self.whole] {
            let logs: Vec<PathBuf> =
                (0..self.workers).map(|rank| job.sample_log_of(rank)).collect();
            let logs: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
            samples::check_once_each_over(&logs, EPOCHS, SAMPLES).unwrap();
        }
    }

    /// Kills so often, in as many runs as that takes.
    fn run(mut self, kills: usize) {
        for round in 1.. {
            let folder = self.folder.path().join(format!("broken-{round}"));
            let job = Training::new(&folder, &arguments(self.optimizer));
            let mut finished = false;
            while self.killed < kills && !finished {
                finished = !self.disturb(&job, self.killed + 1 == kills);
            }
            // Started once more, a job that has finished would write no further checkpoint.
            let results =
                if finished { job.results() } else { job.finish_with(self.workers) }.unwrap();
            self.compare(&job, &results);
            if self.killed >= kills {
                break;
            }
        }
        let Self { optimizer, workers, killed, within_write, after_change, .. } = self;
        println!(
            "{optimizer}, {workers} workers: {killed} kills, {within_write} within a write, \
             {after_change} just after a change of the batch"
        );
        assert!(kills == 0 || after_change > 0, "no kill just after a change");
        // With three attempts or more, one hits.
        assert!(kills < 9 || within_write > 0, "no kill hit a write");
    }
}

/// The kills of one of the four jobs.
fn kills(job: usize) -> usize {
    let all = std::env::var("SHOCKWAVE_KILLS").map_or(20, |count| count.parse().unwrap());
    (all + 3 - job) / 4
}

#[test]
fn sgd_survives_kills() {
    Torture::new("sgd", 1, 11).run(kills(0));
}

#[test]
fn adamw_survives_kills() {
    Torture::new("adamw", 1, 12).run(kills(1));
}

#[test]
fn two_workers_with_sgd_survive_kills_of_one_or_both() {
    Torture::new("sgd", 2, 13).run(kills(2));
}

#[test]
fn two_workers_with_adamw_survive_kills_of_one_or_both() {
    Torture::new("adamw", 2, 14).run(kills(3));
}
