//! Bad input of the training program: each is answered with one clear sentence and exit code 1 (2
//! for options that cannot be).
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::process::Command;

use shockwave_tests::programs::program;
use shockwave_tests::training::{Training, newest_checkpoint_file};

const SMALL: &str =
    "--depth 8 --width 4 --epochs 2 --batch 16 --train-samples 64 --test-samples 32";

/// Runs the program and checks its exit code and what it says.
fn check(arguments: &[&str], code: i32, expected: &[&str]) {
    let output = Command::new(program("resnet_cifar"))
        .env("RUST_BACKTRACE", "0")
        .args(SMALL.split(' '))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for text in expected {
        assert!(said.contains(text), "{arguments:?}: {text:?} is not in:\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    assert!(said.lines().count() <= 12, "one sentence, not a page:\n{said}");
}

#[test]
fn data_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    check(&["--data", "/nowhere/at-all"], 1, &["/nowhere/at-all", "no such folder"]);
    check(&["--data", path], 1, &[path, "no data_batch_*.bin there (found: nothing)"]);

    std::fs::write(folder.path().join("data_batch_1.bin"), vec![0u8; 3073 * 2 + 17]).unwrap();
    let found = "data_batch_1.bin: 6163 bytes are 2 whole records and 17 bytes";
    check(&["--data", path], 1, &[found, "3073-byte records"]);

    std::fs::write(folder.path().join("data_batch_1.bin"), vec![1u8; 3073 * 2]).unwrap();
    check(&["--data", path], 1, &["no test_batch.bin there (found: data_batch_1.bin)"]);

    std::fs::write(folder.path().join("test_batch.bin"), vec![99u8; 3073]).unwrap();
    check(&["--data", path], 1, &["test_batch.bin: record 0 (byte 0) has label 99"]);
}

#[test]
fn settings_that_cannot_be() {
    let reversed = ["--policy", "accordion", "--batch", "64", "--max-batch", "16"];
    check(&reversed, 1, &["64", "16"]);
    check(&["--policy", "gns", "--batch", "64", "--max-batch", "16"], 1, &["64", "16"]);
    check(&["--policy", "best"], 2, &["possible values: static, accordion, gns, expert"]);
    check(&["--policy", "expert"], 1, &["--schedule"]);
    check(&["--policy", "expert", "--schedule", "0-32"], 2, &["EPOCH:BATCH"]);
    check(&["--depth", "19"], 1, &["depth 19", "18, 34 or 6n + 2"]);
    check(&["--dropout", "1.5"], 1, &["dropout 1.5"]);
    check(&["--lr", "-1"], 1, &["--lr -1"]);
    // Settings come before data, which may take minutes to read or make.
    for (option, value) in [("--batch", "0"), ("--epochs", "0"), ("--max-batch", "1")] {
        let both = ["--data", "/nowhere/at-all", "--policy", "gns", option, value];
        check(&both, 1, &[option]);
    }
    check(&["--train-samples", "0"], 1, &["--train-samples"]);
}

#[test]
fn results_that_cannot_be_written_are_refused_before_training() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    for (file, expected) in [("/nowhere/at-all.json", "cannot be written"), (folder, "a folder")] {
        let output = Command::new(program("resnet_cifar"))
            .args(SMALL.split(' '))
            .args(["--json", file])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("--json {file}: ")) && said.contains(expected), "{said}");
        assert!(!said.contains("epoch 1"), "it has trained before: {said}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "something was left behind");
}

#[test]
fn pictures_of_other_formats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let hundred = ["--format", "cifar100", "--data", path];
    check(&hundred, 1, &[path, "no train.bin there", "CIFAR-100's binary version"]);
    let folder = ["--format", "folder", "--data", path];
    check(&folder, 1, &["--format folder takes all pictures there are"]);
    check(&["--format", "folder"], 1, &["--format wants --data"]);
    check(&["--format", "parquet"], 2, &["possible values: cifar10, cifar100, folder"]);
}

/// Flips a byte in the middle of a file.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_corrupt_checkpoint_gives_way_to_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Training::new(&folder.path().join("whole"), SMALL);
    let expected = whole.finish().unwrap();

    let half =
        Training::new(&folder.path().join("job"), &SMALL.replace("--epochs 2", "--epochs 1"));
    half.finish().unwrap();
    let job = Training::new(&folder.path().join("job"), &format!("{SMALL} --checkpoint-every 1"));
    // One more checkpoint or several, then the newest is damaged.
    let mut process = job.start().unwrap();
    let complete = || {
        let entries = std::fs::read_dir(job.checkpoints()).unwrap().flatten();
        let mut folders: Vec<_> = entries.map(|entry| entry.path()).collect();
        folders.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("ckpt-"));
        folders.sort();
        folders
    };
    while complete().len() < 2 && !process.has_ended().unwrap() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    process.kill().unwrap();
    let folders = complete();
    assert!(folders.len() >= 2, "{folders:?}");
    damage(&folders.last().unwrap().join("model.safetensors"));

    let mut process = job.start().unwrap();
    assert!(process.wait().unwrap().success(), "{}", process.output());
    let said = process.output();
    let newest = folders.last().unwrap().file_name().unwrap().to_str().unwrap();
    let before = folders[folders.len() - 2].file_name().unwrap().to_str().unwrap();
    assert!(
        said.contains(newest) && said.contains("resuming from the checkpoint before"),
        "{said}"
    );
    assert!(said.contains(before), "{said}");
    let bytes = newest_checkpoint_file(&job.checkpoints(), "model.safetensors").unwrap();
    let wanted = newest_checkpoint_file(&whole.checkpoints(), "model.safetensors").unwrap();
    assert!(bytes == wanted, "the end differs; expected {expected}");

    for path in std::fs::read_dir(job.checkpoints()).unwrap().map(|entry| entry.unwrap().path()) {
        damage(&path.join("model.safetensors"));
    }
    let mut process = job.start().unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(1));
    assert!(process.output().contains("Move them away to start from the beginning"));
}
