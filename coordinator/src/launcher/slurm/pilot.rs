//! The pilots that are wanted: written down before Slurm is asked for one, so that what Slurm then
//! has can always be told from what it should have.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::queue::Seen;
use crate::files::{FileError, read_json, write_json};
use crate::launcher::{Carries, Pass};
use crate::secrets;

/// Version of the file.
const VERSION: u32 = 1;

/// One node asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// Name of its Slurm job, never used twice.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// Drawn for it: makes its token.
    pub nonce: String,
    /// Whether its agent has joined.
    #[serde(default)]
    pub has_joined: bool,
    /// The one lease that it carries; none: it carries a machine for any.
    #[serde(default)]
    pub carries: Option<Carries>,
    /// Whether an earlier start of the coordinator has asked for it: its agent may have joined then.
    #[serde(skip)]
    pub is_recalled: bool,
    /// What has been seen of it since this start of the coordinator.
    #[serde(skip)]
    pub sight: Sight,
}

/// What has been seen of a pilot. Times are seconds since the launcher's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// As Slurm listed it last.
    pub seen: Option<Seen>,
    /// Times in a row that Slurm did not list it.
    pub absent: u32,
    /// When sbatch had answered, or the launcher started.
    pub asked_s: f64,
    /// When it was first seen with a machine.
    pub active_s: Option<f64>,
    /// When a lease was last seen there.
    pub busy_s: Option<f64>,
    /// Since when its agent is not heard.
    pub lost_s: Option<f64>,
    /// When its agent was asked to give the machine back.
    pub dismissed_s: Option<f64>,
    /// When Slurm was told to end it.
    pub cancelled_s: Option<f64>,
    /// Why sbatch did not take it.
    pub refused: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    pilots: Vec<Pilot>,
}

/// All of them, and the file that remembers them.
#[derive(Debug)]
pub struct Pilots {
    path: PathBuf,
    secret: String,
    /// Names of this coordinator's Slurm jobs begin with it.
    pub prefix: String,
    /// Those that are wanted, or not certainly gone yet.
    pub all: Vec<Pilot>,
}

impl Pilots {
    /// Those of a coordinator's state folder.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(state_dir: &Path, secret: &str) -> Result<Self, FileError> {
        let path = state_dir.join("slurm.json");
        let mut all = read_json::<File>(&path)?.map(|file| file.pilots).unwrap_or_default();
        all.iter_mut().for_each(|pilot| pilot.is_recalled = true);
        let id = secrets::digest(&format!("{secret}/slurm"));
        Ok(Self { path, secret: secret.to_owned(), prefix: format!("sw{}-", &id[..6]), all })
    }

    /// Writes down what is wanted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self) -> Result<(), FileError> {
        write_json(&self.path, &File { version: VERSION, pilots: self.all.clone() })
    }

    /// One more, not written down yet.
    pub fn add(&mut self, pool: &str, carries: Option<Carries>, now_s: f64) -> Pilot {
        let nonce = secrets::random_hex(16);
        let pilot = Pilot {
            name: format!("{}{pool}-{}", self.prefix, &nonce[..8]),
            pool: pool.to_owned(),
            nonce,
            has_joined: false,
            carries,
            is_recalled: false,
            sight: Sight { asked_s: now_s, ..Sight::default() },
        };
        self.all.push(pilot.clone());
        pilot
    }

    /// A pilot by its name.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Pilot> {
        self.all.iter_mut().find(|pilot| pilot.name == name)
    }

    /// The token of a pilot's agent.
    #[must_use]
    pub fn token(&self, pilot: &Pilot) -> String {
        let named = format!("{}/pilot/{}/{}", self.secret, pilot.name, pilot.nonce);
        format!("swp_{}", secrets::digest(&named))
    }

    /// What lets their agents in.
    #[must_use]
    pub fn passes(&self) -> Vec<Pass> {
        let pass = |pilot: &Pilot| Pass {
            pilot: pilot.name.clone(),
            digest: secrets::digest(&self.token(pilot)),
            carries: pilot.carries.clone(),
        };
        self.all.iter().map(pass).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_outlives_the_coordinator() {
        let folder = tempfile::tempdir().unwrap();
        let mut pilots = Pilots::open(folder.path(), "secret").unwrap();
        let first = pilots.add("low", None, 1.0);
        let second = pilots.add("low", None, 1.0);
        pilots.save().unwrap();
        assert!(first.name.starts_with(&pilots.prefix) && first.name != second.name);
        assert_ne!(pilots.token(&first), pilots.token(&second));
        let again = Pilots::open(folder.path(), "secret").unwrap();
        assert_eq!(again.passes(), pilots.passes());
        let other = Pilots::open(folder.path(), "another").unwrap();
        assert_ne!(other.prefix, pilots.prefix);
        assert_ne!(other.passes(), pilots.passes());
    }
}
