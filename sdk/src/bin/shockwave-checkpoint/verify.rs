//! `verify`.

use std::path::PathBuf;

use serde::Serialize;
use shockwave_sdk::checkpoint::{Checkpoints, Name};

use crate::find::{self, Choice};
use crate::{Failure, show};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A checkpoint, or a folder of checkpoints (all of them are read)
    path: PathBuf,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// What is wrong, if anything.
    damage: Option<String>,
}

pub(crate) fn run(args: &Args, json: bool) -> Result<(), Failure> {
    let choice = Choice { path: args.path.clone(), best: false };
    let (checkpoints, first) = choice.find()?;
    // A folder is meant when the path is not the checkpoint itself.
    let path = args.path.canonicalize().unwrap_or_else(|_| args.path.clone());
    let one = path.file_name().is_some_and(|name| *name == *first.to_string());
    let names = if one { vec![first] } else { find::folder(&args.path)?.list()? };
    let rows: Vec<Row> = names.into_iter().map(|name| verify(&checkpoints, name)).collect();
    show(json, &rows, || {
        let lines = rows.iter().map(|row| match &row.damage {
            None => format!("{}: whole", row.name),
            Some(damage) => format!("{}: DAMAGED: {damage}", row.name),
        });
        lines.collect::<Vec<_>>().join("\n")
    })?;
    let damaged = rows.iter().filter(|row| row.damage.is_some()).count();
    if damaged > 0 {
        return Err(Failure::Damage(format!(
            "{damaged} of {} checkpoints are damaged",
            rows.len()
        )));
    }
    Ok(())
}

fn verify(checkpoints: &Checkpoints, name: Name) -> Row {
    Row { name: name.to_string(), damage: damage(checkpoints, name) }
}

/// Reads a checkpoint whole: what is wrong with it, if anything.
pub(crate) fn damage(checkpoints: &Checkpoints, name: Name) -> Option<String> {
    checkpoints.load(name).err().map(|error| error.to_string())
}
