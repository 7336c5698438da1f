//! kill -9 of the coordinator during training: training goes on, nothing acknowledged is lost, no
//! job runs twice.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::samples;
use shockwave_tests::training::Training;

const EPOCHS: u64 = 12;
const SAMPLES: u64 = 768;
const KILLS: usize = 3;

fn lines(training: &Training, start: &str) -> usize {
    let text = std::fs::read_to_string(training.sample_log()).unwrap_or_default();
    text.lines().filter(|line| line.starts_with(start)).count()
}

/// Waits until the job has trained `more` more batches.
fn train_on(training: &Training, more: usize, what: &str, coordinator: &Coordinator) {
    let wanted = lines(training, "batch ") + more;
    let give_up_at = Instant::now() + Duration::from_secs(120);
    while lines(training, "batch ") < wanted {
        assert!(Instant::now() < give_up_at, "{what}:\n{}", coordinator.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes that train now, by their command line.
fn processes(training: &Training) -> usize {
    let mark = training.sample_log().display().to_string();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        // The agent's own helpers may carry the command too: the program's name stands first.
        let mut words = line.split('\0');
        count += usize::from(
            words.next().is_some_and(|program| program.ends_with("resnet_cifar"))
                && words.any(|word| word == mark),
        );
    }
    count
}

#[test]
fn training_outlives_its_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!(
        "--depth 8 --width 6 --dropout 0.1 --seed 4 --epochs {EPOCHS} --batch 16 \
         --train-samples {SAMPLES} --test-samples 64 --policy expert --schedule 0:16,6:32"
    );
    let training = Training::new(&folder.path().join("job"), &arguments);
    std::fs::create_dir_all(training.checkpoints()).unwrap();
    let serve = "--devices cpu:1 --round-s 60 --ttl-s 90";
    let mut coordinator = Coordinator::start(&folder.path().join("serve"), serve).unwrap();
    let id = coordinator.submit("survivor", &training.command()).unwrap();

    for kill in 0..KILLS {
        train_on(&training, 70, "training does not go on", &coordinator);
        let before = coordinator.job(id).unwrap();
        coordinator.kill().unwrap();
        train_on(&training, 50, "training stopped with its coordinator", &coordinator);
        assert_eq!(processes(&training), 1, "kill {kill}");
        coordinator.start_again().unwrap();
        let after = coordinator.job(id).unwrap();
        let epochs = |job: &serde_json::Value| job["epochs_done"].as_f64().unwrap().floor();
        assert!(epochs(&after) >= epochs(&before), "lost: {before} then {after}");
        assert_eq!(processes(&training), 1, "after kill {kill}");
    }
    let job = coordinator.ended(id, Duration::from_secs(300)).unwrap();
    assert_eq!(job["state"], "finished", "{job}\n{}", coordinator.logs(id));
    assert_eq!(job["preemptions"], 0, "nothing was given back");
    assert_eq!(job["leases"], 1, "the job was started once");

    // Said once by the one process that trained: no second start, every epoch reported once.
    assert_eq!(lines(&training, "epoch ") as u64, EPOCHS);
    samples::check_once_each(&training.sample_log(), EPOCHS, SAMPLES).unwrap();
    let reported: f64 = job["regimes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|regime| regime["epochs"].as_f64().unwrap())
        .sum();
    assert!((reported - EPOCHS as f64).abs() < 1e-6, "epochs reported: {job}");
    let regimes: BTreeMap<u64, f64> = job["regimes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["batch"].as_u64().unwrap(), it["epochs"].as_f64().unwrap()))
        .collect();
    assert_eq!(regimes, BTreeMap::from([(16, 6.0), (32, 6.0)]));

    let alone = Training::new(&folder.path().join("alone"), &arguments);
    assert_eq!(job["checkpoint_sha256"], alone.finish().unwrap()["checkpoint_sha256"]);
}
