//! kill -9 of a training process, again and again: it ends with the same bytes as a run that was
//! never interrupted, and has trained on every sample exactly once in each epoch.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave_tests::samples;
use shockwave_tests::training::{Process, Training, newest_checkpoint_file};

const EPOCHS: u64 = 4;
const SAMPLES: u64 = 384;

/// Kills of each job; two jobs make 20.
const KILLS: usize = 10;

/// Dropout, augmentation, shuffling, and a change of the batch size in the middle.
fn arguments(optimizer: &str) -> String {
    format!(
        "--optimizer {optimizer} --depth 8 --width 4 --dropout 0.2 --augment --seed 5 \
         --epochs {EPOCHS} --batch 16 --train-samples {SAMPLES} --test-samples 64 \
         --policy expert --schedule 0:16,2:32 --checkpoint-every 5"
    )
}

/// When to kill.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// After this many more batches.
    Batches(usize),
    /// As soon as a checkpoint is being written, after this many more batches.
    Write(usize),
}

fn batches(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("batch ")).count()
}

/// Whether a checkpoint is half written now.
fn writing(checkpoints: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(checkpoints) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".tmp-"))
}

/// Waits for the moment; whether it came before the process ended.
fn wait_for(moment: Moment, training: &Training, process: &mut Process) -> bool {
    let start = batches(&training.sample_log());
    let (Moment::Batches(wanted) | Moment::Write(wanted)) = moment;
    while batches(&training.sample_log()) < start + wanted {
        if process.has_ended().unwrap() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if let Moment::Write(_) = moment {
        // No sleep: a write takes a few milliseconds.
        while !writing(&training.checkpoints()) {
            if process.has_ended().unwrap() {
                return false;
            }
        }
    }
    true
}

fn check(optimizer: &str, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let whole = Training::new(&folder.path().join("whole"), &arguments(optimizer));
    let expected = whole.finish().unwrap();
    assert_eq!(expected["decisions"][0]["new_batch"], 32, "the batch size changes in the middle");

    let broken = Training::new(&folder.path().join("broken"), &arguments(optimizer));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut killed, mut within_write) = (0, 0);
    while killed < KILLS {
        let more = rng.random_range(1..9);
        let moment = if killed % 3 == 2 { Moment::Write(more) } else { Moment::Batches(more) };
        let mut process = broken.start().unwrap();
        if !wait_for(moment, &broken, &mut process) {
            let status = process.wait().unwrap();
            panic!("{moment:?}: ended with {status} after {killed} kills: {}", process.output());
        }
        process.kill().unwrap();
        killed += 1;
        within_write += usize::from(writing(&broken.checkpoints()));
    }
    assert!(within_write > 0, "no kill hit a write; seed {seed}");

    let results = broken.finish().unwrap();
    for key in ["checkpoint_sha256", "steps", "test_accuracy", "decisions"] {
        assert_eq!(results[key], expected[key], "{key}; {optimizer}, seed {seed}");
    }
    assert_eq!(results["exact"], true);
    for file in ["model.safetensors", "training.safetensors"] {
        let bytes = |job: &Training| newest_checkpoint_file(&job.checkpoints(), file).unwrap();
        assert!(bytes(&broken) == bytes(&whole), "{file} differs; {optimizer}, seed {seed}");
    }
    samples::check_once_each(&whole.sample_log(), EPOCHS, SAMPLES).unwrap();
    samples::check_once_each(&broken.sample_log(), EPOCHS, SAMPLES).unwrap();
}

#[test]
fn sgd_survives_ten_kills() {
    check("sgd", 11);
}

#[test]
fn adamw_survives_ten_kills() {
    check("adamw", 12);
}
