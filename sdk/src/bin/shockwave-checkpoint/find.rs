//! Which checkpoint a path means.

use std::path::{Path, PathBuf};

use clap::Args;
use shockwave_sdk::checkpoint::{Checkpoints, Loaded, Name};

use crate::Failure;

/// How a checkpoint is chosen.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// A checkpoint, or a folder of checkpoints (its newest one is meant)
    pub path: PathBuf,
    /// In a folder: the best one, as best.json names it
    #[arg(long)]
    pub best: bool,
}

fn usage(path: &Path, what: &str) -> Failure {
    Failure::Usage(format!("{}: {what}", path.display()))
}

fn own_name(path: &Path) -> Option<Name> {
    path.file_name().and_then(|name| name.to_str()).and_then(Name::parse)
}

/// The folder of checkpoints at `path`, which must exist.
pub(crate) fn folder(path: &Path) -> Result<Checkpoints, Failure> {
    if !path.is_dir() {
        return Err(usage(path, "no such folder; a folder of checkpoints is expected"));
    }
    if own_name(path).is_some() {
        return Err(usage(path, "is one checkpoint; the folder that holds it is expected"));
    }
    let checkpoints = Checkpoints::new(path, 1)?;
    if checkpoints.list()?.is_empty() {
        return Err(usage(path, "no checkpoint there (ckpt-g...-n...)"));
    }
    Ok(checkpoints)
}

impl Choice {
    /// The folder and the checkpoint in it.
    pub(crate) fn find(&self) -> Result<(Checkpoints, Name), Failure> {
        // The last component may be "." or a link.
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        if let (Some(name), Some(parent), true) = (own_name(&path), path.parent(), path.is_dir()) {
            if self.best {
                return Err(usage(&self.path, "is one checkpoint; --best wants its folder"));
            }
            return Ok((Checkpoints::new(parent, 1)?, name));
        }
        let checkpoints = folder(&self.path)?;
        let name = if self.best {
            let best = checkpoints.best()?;
            let best = best.ok_or_else(|| usage(&self.path, "no best.json there"))?;
            let listed = checkpoints.list()?;
            let found = listed.into_iter().find(|name| name.to_string() == best.checkpoint);
            let gone = format!("best.json names {}, which is not there", best.checkpoint);
            found.ok_or_else(|| usage(&self.path, &gone))?
        } else {
            let newest = checkpoints.list()?.first().copied();
            newest.ok_or_else(|| usage(&self.path, "no checkpoint there"))?
        };
        Ok((checkpoints, name))
    }

    /// Reads and verifies it.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let (checkpoints, name) = self.find()?;
        Ok(checkpoints.load(name)?)
    }
}
