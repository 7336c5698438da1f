//! Checkpoints under attack: processes killed at any moment, damaged files, writes that fail.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use shockwave_sdk::checkpoint::{Checkpoints, Name};
use shockwave_sdk::policy::Needs;
use shockwave_sdk::session::Every;
use shockwave_sdk::{Error, Outcome};
use tch::nn;

/// Names the checkpoint folder to the child process of these tests.
const FOLDER: &str = "SHOCKWAVE_TEST_FOLDER";
const SAMPLES: usize = 60;

fn policy() -> GrowAt {
    let needs = Needs { layer_norms: true, noise: true, every_steps: None };
    GrowAt { from: 6, to: 15, at_step: 20, needs, decisions: 0 }
}

/// A run of 6 epochs that saves after every step; its checkpoints have some megabytes, so that most of its time goes
/// into writing them. Appends the samples seen to `seen.txt`, one line per step after the step is saved.
fn run(folder: &Path) -> Outcome {
    tch::set_num_threads(1);
    tch::manual_seed(1);
    let vs = nn::VarStore::new(tch::Device::Cpu);
    let net = network(&vs.root());
    let ballast = vs.root().zeros("ballast", &[1 << 18]);
    let mut session = shockwave_sdk::Session::builder(&vs, optimizer(true), policy())
        .seed(5)
        .epochs(6)
        .output(shockwave_sdk::Output::Quiet)
        .checkpoints(folder)
        .checkpoint_every(Every::Steps(1))
        .build(Images::new(SAMPLES))
        .unwrap();
    while session.next_epoch().unwrap().is_some() {
        while let Some(batch) = session.next_batch().unwrap() {
            let loss = |b: &shockwave_sdk::Batch| {
                nn::ModuleT::forward_t(&net, &b.x, true).cross_entropy_for_logits(&b.y)
                    + ballast.sum(None) * 1e-9
            };
            session.step(&batch, loss).unwrap();
        }
        session.end_epoch([("none", 0.0)]).unwrap();
    }
    session.finish().unwrap()
}

/// Not a test of its own: the process that the others kill.
#[test]
fn child() {
    if let Ok(folder) = std::env::var(FOLDER) {
        std::process::exit(run(Path::new(&folder)).exit_code());
    }
}

fn spawn(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The newest checkpoint in the folder.
fn newest(folder: &Path) -> Option<Name> {
    Checkpoints::new(folder, 3).unwrap().list().unwrap().first().copied()
}

/// Kills in one run, if it does not end before.
const KILLS: usize = 20;

#[test]
fn kill_9_at_random_moments_loses_nothing() {
    let whole = tempfile::tempdir().unwrap();
    let started = Instant::now();
    assert_eq!(spawn(whole.path()).wait().unwrap().code(), Some(0));
    let length = started.elapsed();
    let folder = tempfile::tempdir().unwrap();
    let (mut kills, mut inside_a_write, mut random) = (0, 0, 42u64);
    let outcome = loop {
        let before = newest(folder.path());
        let mut child = spawn(folder.path());
        // Wait until the child has saved something, then up to about three steps more, and kill it.
        while kills < KILLS
            && newest(folder.path()) == before
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(length.mul_f64((random >> 33) as f64 / (1u64 << 31) as f64 / 20.0));
        if kills == KILLS || child.try_wait().unwrap().is_some() {
            break child.wait().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        let names = fs::read_dir(folder.path()).unwrap();
        let partial = |n: &std::ffi::OsString| n.to_string_lossy().starts_with('.');
        inside_a_write += usize::from(names.map(|e| e.unwrap().file_name()).any(|n| partial(&n)));
    };
    eprintln!("{kills} kills, {inside_a_write} of them inside a write or removal of a checkpoint");
    assert_eq!(outcome.code(), Some(0));
    assert!(kills >= 10 && inside_a_write >= 1, "{kills} kills, {inside_a_write} inside a write");
    assert!(
        newest_tensors(folder.path()) == newest_tensors(whole.path()),
        "the final bytes differ"
    );
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|n| !n.to_string_lossy().starts_with('.')), "left behind: {left:?}");
}

#[test]
fn sigterm_saves_and_exits_with_75_and_the_next_run_ends_alike() {
    let whole = tempfile::tempdir().unwrap();
    assert_eq!(spawn(whole.path()).wait().unwrap().code(), Some(0));
    let folder = tempfile::tempdir().unwrap();
    let mut child = spawn(folder.path());
    while Checkpoints::new(folder.path(), 3).unwrap().list().unwrap().len() < 3 {
        std::thread::sleep(Duration::from_millis(5));
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be stopped");
    }
    assert!(
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(75));
    assert_eq!(spawn(folder.path()).wait().unwrap().code(), Some(0));
    assert!(newest_tensors(folder.path()) == newest_tensors(whole.path()));
}

/// A short run in this process; returns its outcome or error, and the decisions' number as a sign of its state.
fn short(folder: &Path, epochs: u64) -> Result<(Outcome, u64), Error> {
    with_session(
        optimizer(false),
        policy(),
        Images::new(SAMPLES),
        |b| b.epochs(epochs).checkpoints(folder),
        |mut session, _, net| {
            let resumed = session.steps();
            train(&mut session, net, None)?;
            Ok((session.finish()?, resumed))
        },
    )?
}

fn damage(path: &Path, how: &str) {
    let bytes = fs::read(path).unwrap();
    match how {
        "flipped" => {
            let mut bytes = bytes;
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        "truncated" => fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
        "empty" => fs::write(path, []).unwrap(),
        _ => fs::remove_file(path).unwrap(),
    }
}

#[test]
fn a_damaged_newest_checkpoint_falls_back_to_the_one_before() {
    for file in ["model.safetensors", "training.safetensors", "state.json", "SHA256SUMS"] {
        for how in ["flipped", "truncated", "empty", "missing"] {
            let folder = tempfile::tempdir().unwrap();
            short(folder.path(), 2).unwrap();
            let checkpoints = Checkpoints::new(folder.path(), 3).unwrap();
            let names = checkpoints.list().unwrap();
            damage(&checkpoints.path(names[0]).join(file), how);
            assert!(
                matches!(checkpoints.load(names[0]), Err(Error::Corrupt { .. })),
                "{file} {how}"
            );
            let (outcome, resumed) = short(folder.path(), 3).unwrap();
            assert_eq!(
                (outcome, resumed),
                (Outcome::Finished, 10),
                "{file} {how}: ten steps are the first epoch"
            );
        }
    }
}

#[test]
fn when_all_are_damaged_the_run_does_not_start_anew() {
    let folder = tempfile::tempdir().unwrap();
    short(folder.path(), 2).unwrap();
    let checkpoints = Checkpoints::new(folder.path(), 3).unwrap();
    for name in checkpoints.list().unwrap() {
        damage(&checkpoints.path(name).join("model.safetensors"), "flipped");
    }
    let error = short(folder.path(), 3).unwrap_err();
    assert!(matches!(&error, Error::NoUsableCheckpoint { count: 2, .. }), "{error}");
    assert!(error.to_string().contains("SHA-256"), "{error}");
}

#[test]
fn a_checkpoint_of_another_run_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    short(folder.path(), 1).unwrap();
    let other = |adam, batch, samples| {
        with_session(
            optimizer(adam),
            GrowAt { from: batch, ..policy() },
            Images::new(samples),
            |b| b.checkpoints(folder.path()),
            |_, _, _| (),
        )
        .unwrap_err()
        .to_string()
    };
    assert!(other(true, 6, SAMPLES).contains("the optimiser was sgd, now it is adamw"));
    assert!(other(false, 5, SAMPLES).contains("the initial batch size was 6, now it is 5"));
    assert!(other(false, 6, 61).contains("the number of training samples was 60, now it is 61"));
}

#[test]
fn only_the_newest_are_kept_and_an_old_lease_cannot_replace_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _) = short(folder.path(), 5).unwrap();
    assert_eq!(outcome, Outcome::Finished);
    let checkpoints = Checkpoints::new(folder.path(), 2).unwrap();
    let names = checkpoints.list().unwrap();
    assert_eq!(names.iter().map(|n| n.number).collect::<Vec<_>>(), [5, 4, 3]);
    let snapshot = checkpoints.load(names[0]).unwrap().snapshot;
    checkpoints.save(Name { generation: 2, number: 6 }, &snapshot).unwrap();
    // A process with the lease before writes late: it neither becomes the newest nor removes what is newer.
    checkpoints.save(Name { generation: 1, number: 9 }, &snapshot).unwrap();
    let names = checkpoints.list().unwrap();
    assert_eq!(names[0], Name { generation: 2, number: 6 });
    assert_eq!(checkpoints.load_newest().unwrap().unwrap().name, names[0]);
}

#[test]
fn a_failed_write_does_not_end_the_training_and_keeps_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("run");
    let aside = folder.path().join("aside");
    with_session(
        optimizer(false),
        policy(),
        Images::new(SAMPLES),
        |b| b.epochs(4).checkpoints(&inside).background_checkpoints(false),
        |mut session, _, net| {
            let mut epoch = 0;
            while session.next_epoch().unwrap().is_some() {
                while let Some(batch) = session.next_batch().unwrap() {
                    session
                        .step(&batch, |b| net(&b.x, true).cross_entropy_for_logits(&b.y))
                        .unwrap();
                }
                if epoch == 1 {
                    // The disk goes away: a file stands where the folder was.
                    fs::rename(&inside, &aside).unwrap();
                    fs::write(&inside, "not a folder").unwrap();
                }
                session.end_epoch([("none", 0.0)]).unwrap();
                if epoch == 1 {
                    fs::remove_file(&inside).unwrap();
                    fs::rename(&aside, &inside).unwrap();
                    let names = Checkpoints::new(&inside, 3).unwrap().list().unwrap();
                    assert_eq!(names.len(), 1, "the first epoch's checkpoint is still there");
                }
                epoch += 1;
            }
            assert_eq!(session.finish().unwrap(), Outcome::Finished);
        },
    )
    .unwrap();
    assert_eq!(Checkpoints::new(&inside, 3).unwrap().list().unwrap().len(), 3);
}
