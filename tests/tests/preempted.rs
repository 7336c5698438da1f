//! Jobs that take turns on one slot end with the same bytes as when each has it for itself.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::time::Duration;

use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::samples;
use shockwave_tests::training::{Training, newest_checkpoint_file};

const EPOCHS: u64 = 8;
const SAMPLES: u64 = 1024;

/// Dropout, augmentation, shuffling, and a change of the batch size in the middle.
fn training(folder: &Path, optimizer: &str) -> Training {
    let arguments = format!(
        "--optimizer {optimizer} --depth 8 --width 6 --dropout 0.2 --augment --seed 9 \
         --epochs {EPOCHS} --batch 16 --train-samples {SAMPLES} --test-samples 128 \
         --policy expert --schedule 0:16,4:32"
    );
    Training::new(&folder.join(optimizer), &arguments)
}

#[test]
fn preempted_jobs_end_with_the_bytes_of_an_undisturbed_run() {
    let folder = tempfile::tempdir().unwrap();
    // A policy that hands the slot round, so that there is something to resume from.
    let arguments = "--devices cpu:1 --round-s 3 --grace-s 20 --min-run-s 1 --policy gandiva-fair";
    let coordinator = Coordinator::start(&folder.path().join("serve"), arguments).unwrap();
    let shared = folder.path().join("shared");
    let jobs: Vec<(Training, u64)> = ["sgd", "adamw"]
        .map(|optimizer| {
            let training = training(&shared, optimizer);
            std::fs::create_dir_all(training.checkpoints()).unwrap();
            let id = coordinator.submit(optimizer, &training.command()).unwrap();
            (training, id)
        })
        .into();

    for ((shared, id), optimizer) in jobs.iter().zip(["sgd", "adamw"]) {
        let job = coordinator.ended(*id, Duration::from_secs(300)).unwrap();
        let said = || format!("{job}\n{}", coordinator.logs(*id));
        assert_eq!(job["state"], "finished", "{}", said());
        assert!(job["preemptions"].as_u64().unwrap() >= 2, "preempted too seldom: {}", said());
        let batches: Vec<_> =
            job["regimes"].as_array().unwrap().iter().map(|regime| &regime["batch"]).collect();
        assert_eq!(batches, [16, 32], "{}", said());

        let alone = training(&folder.path().join("alone"), optimizer);
        let expected = alone.finish().unwrap();
        assert_eq!(job["checkpoint_sha256"], expected["checkpoint_sha256"], "{}", said());
        let newest = Path::new(job["checkpoint"]["uri"].as_str().unwrap());
        for file in ["model.safetensors", "training.safetensors"] {
            let expected = newest_checkpoint_file(&alone.checkpoints(), file).unwrap();
            let bytes = std::fs::read(newest.join(file)).unwrap();
            assert!(bytes == expected, "{file} of {optimizer} differs: {}", said());
        }
        samples::check_once_each(&shared.sample_log(), EPOCHS, SAMPLES).unwrap();
    }
}
