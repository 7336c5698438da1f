//! `list`.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use shockwave_sdk::checkpoint::STATE_FILE;

use crate::{Failure, find, show};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of checkpoints
    folder: PathBuf,
}

/// A line of the list. What cannot be read is left out.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    epoch: Option<u64>,
    step: Option<u64>,
    batch: Option<u64>,
    size_bytes: u64,
    best: bool,
}

pub(crate) fn run(args: &Args, json: bool) -> Result<(), Failure> {
    let checkpoints = find::folder(&args.folder)?;
    let best = checkpoints.best()?.map(|best| best.checkpoint);
    let mut rows = Vec::new();
    for name in checkpoints.list()? {
        let path = checkpoints.path(name);
        let state = std::fs::read(path.join(STATE_FILE)).unwrap_or_default();
        let state: Value = serde_json::from_slice(&state).unwrap_or_default();
        let number = |key: &str| state["position"][key].as_u64();
        let files = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| file.metadata().ok()).map(|file| file.len());
        let name = name.to_string();
        rows.push(Row {
            epoch: number("epoch"),
            step: number("step"),
            batch: number("batch"),
            size_bytes: sizes.sum(),
            best: best.as_ref() == Some(&name),
            name,
        });
    }
    show(json, &rows, || table(&rows))
}

fn table(rows: &[Row]) -> String {
    let mut text =
        format!("{:26} {:>7} {:>9} {:>7} {:>10}\n", "checkpoint", "epoch", "step", "batch", "MB");
    let cell = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:26} {:>7} {:>9} {:>7} {:>10.2}{}",
            row.name,
            cell(row.epoch),
            cell(row.step),
            cell(row.batch),
            row.size_bytes as f64 / 1e6,
            if row.best { "  best" } else { "" }
        );
    }
    text
}
