//! `resnet_cifar` on other sets than CIFAR-10: a folder of pictures, and CIFAR-100's files.
#![allow(clippy::unwrap_used)] // Tests.

use std::path::Path;
use std::process::Command;

use image::{Rgb, RgbImage};
use serde_json::Value;

/// Runs a few epochs on `data`, and reads the results.
fn train(format: &str, data: &Path, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let output = Command::new(env!("CARGO_BIN_EXE_resnet_cifar"))
        .args(["--depth", "8", "--width", "4", "--batch", "4", "--threads", "1", "--lr", "0.05"])
        .args(["--augment", "--format", format, "--data", data.to_str().unwrap()])
        .args(["--json", file.to_str().unwrap()])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_folder_of_pictures_is_learnt() {
    let folder = tempfile::tempdir().unwrap();
    for (split, count) in [("train", 24), ("test", 8)] {
        for (class, colour) in [("blue", [20, 40, 220]), ("red", [220, 40, 20])] {
            let inside = folder.path().join(split).join(class);
            std::fs::create_dir_all(&inside).unwrap();
            for number in 0..count {
                // Of different sizes, and not all of one colour.
                let picture = RgbImage::from_fn(20 + number, 24, |x, y| {
                    Rgb(colour.map(|level: u8| level.saturating_add((x * y + number) as u8 % 30)))
                });
                picture.save(inside.join(format!("{number}.png"))).unwrap();
            }
        }
    }
    let results = train("folder", folder.path(), &["--side", "16", "--epochs", "4"]);
    assert_eq!((&results["steps"], &results["test_accuracy"]), (&48.into(), &1.0.into()));
}

#[test]
fn cifar_100_has_a_hundred_classes() {
    let folder = tempfile::tempdir().unwrap();
    let records = |count: u8| -> Vec<u8> {
        (0..count)
            .flat_map(|i| [vec![i % 20, 99 - i], vec![i.wrapping_mul(7); 3072]].concat())
            .collect()
    };
    std::fs::write(folder.path().join("train.bin"), records(40)).unwrap();
    std::fs::write(folder.path().join("test.bin"), records(10)).unwrap();
    let results = train("cifar100", folder.path(), &["--epochs", "1", "--train-samples", "32"]);
    assert_eq!(results["steps"], 8);
}
