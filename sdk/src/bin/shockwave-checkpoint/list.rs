//! `list`.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use shockwave_sdk::checkpoint::STATE_FILE;

use crate::verify::damage;
use crate::{Failure, find, show};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of checkpoints
    folder: PathBuf,
    /// Do not read the checkpoints whole: damage is not looked for
    #[arg(long)]
    quick: bool,
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
    /// What is wrong with it, if anything; not looked for with --quick.
    damage: Option<String>,
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
        let damage = (!args.quick).then(|| damage(&checkpoints, name)).flatten();
        let name = name.to_string();
        rows.push(Row {
            epoch: number("epoch"),
            step: number("step"),
            batch: number("batch"),
            size_bytes: sizes.sum(),
            best: best.as_ref() == Some(&name),
            damage,
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
            "{:26} {:>7} {:>9} {:>7} {:>10.2}{}{}",
            row.name,
            cell(row.epoch),
            cell(row.step),
            cell(row.batch),
            row.size_bytes as f64 / 1e6,
            if row.best { "  best" } else { "" },
            if row.damage.is_some() { "  DAMAGED" } else { "" }
        );
    }
    for row in rows {
        if let Some(damage) = &row.damage {
            let _ = writeln!(text, "\n{}: {damage}", row.name);
        }
    }
    text
}
