//! The public traces and tables in `../shared/reference`, for tests and benchmarks.

// Not every one of them needs all of it.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use shockwave_core::simulator::Workload;
use shockwave_core::simulator::profiles::{Profiles, Throughputs};

/// Traces: name, GPUs, and the throughput table that was used with it.
pub const TRACES: [(&str, u32, &str); 3] =
    [("120_32", 32, "tacc"), ("220_64", 64, "wisr"), ("900_256", 256, "wisr")];

/// The folder; `None`, and a message, where it is absent.
pub fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
    if !folder.is_dir() {
        eprintln!("skipped: ../shared/reference is not there");
        return None;
    }
    Some(folder)
}

/// Profiles of the models, and throughputs of one table.
pub fn tables(folder: &Path, table: &str) -> (Profiles, Throughputs) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let profiles = Profiles::parse(
        &read("datasets.csv"),
        &read("gns_rules.csv"),
        &read("accordion_rules.csv"),
    );
    let speeds = Throughputs::parse(&read(&format!("throughput_v100_{table}.csv")));
    (profiles.unwrap(), speeds.unwrap())
}

/// The workload of one trace.
pub fn workload(folder: &Path, trace: &str, table: &str) -> Workload {
    let (profiles, speeds) = tables(folder, table);
    let text = fs::read_to_string(folder.join(format!("trace_{trace}gpu.csv"))).unwrap();
    Workload::parse(&text, &profiles, &speeds).unwrap()
}
