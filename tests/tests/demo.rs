//! A small demo: three jobs on one slot, each preempted and resumed, one with a growing batch.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::process::Command;

use serde_json::Value;
use shockwave_tests::programs::program;

#[test]
fn three_jobs_share_a_slot_and_all_finish() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("demo.json");
    let output = Command::new(program("xtask"))
        .args(["demo", "--built", "--round-s", "1", "--epochs", "10", "--train-samples", "640"])
        .arg("--folder")
        .arg(folder.path().join("demo"))
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));

    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert!(report["makespan_s"].as_f64().unwrap() > 0.0);
    let svg = std::fs::read_to_string(report["timeline_svg"].as_str().unwrap()).unwrap();
    assert!(svg.contains("<svg") && svg.contains("accordion"), "no picture");
    let jobs = report["jobs"].as_array().unwrap();
    let policies: Vec<_> = jobs.iter().map(|job| job["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["accordion", "gns", "static"]);
    for job in jobs {
        assert!(job["preemptions"].as_u64().unwrap() >= 1, "{job}");
        assert_eq!(job["epochs"], 10, "{job}");
        for number in ["jct_s", "rho", "test_accuracy"] {
            assert!(job[number].as_f64().is_some_and(|value| value > 0.0), "{number}: {job}");
        }
        assert_eq!(job["checkpoint_sha256"].as_str().unwrap().len(), 64, "{job}");
        assert!(!job["regimes"].as_array().unwrap().is_empty(), "{job}");
    }
}
