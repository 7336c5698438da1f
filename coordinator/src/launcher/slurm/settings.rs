//! A pool of machines that Slurm lends, as the settings file describes it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a Slurm job is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It carries a machine, and leases come and go on it.
    #[default]
    Pilot,
    /// It carries one lease: Slurm is asked anew for each.
    Job,
}

impl Mode {
    /// As the settings file has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pilot => "pilot",
            Self::Job => "job",
        }
    }
}

/// `[[slurm]]` in the settings file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Its name, part of the Slurm jobs' names.
    pub name: String,
    /// Whether a Slurm job carries a machine or one lease.
    pub mode: Mode,
    /// `sbatch --partition`; empty: the site's default.
    pub partition: String,
    /// `sbatch --account`; empty: the user's default.
    pub account: String,
    /// `sbatch --qos`; empty: the default.
    pub qos: String,
    /// `sbatch --constraint`; empty: none.
    pub constraint: String,
    /// `sbatch --gres` for a node; empty: `gpu:DEVICES_PER_NODE` (with `gres_type` between) where
    /// GPUs are offered.
    pub gres: String,
    /// Type of the GPUs as Slurm names it, such as `a100`; empty: any.
    pub gres_type: String,
    /// `sbatch --cpus-per-task`; 0: the site's default.
    pub cpus_per_node: u32,
    /// `sbatch --mem`, such as `200G`; empty: the site's default.
    pub memory: String,
    /// More options for sbatch, each a word of its own; they come last.
    pub options: Vec<String>,
    /// Devices that an agent offers, as `shockwave agent --devices`; `slurm`: the GPUs that Slurm
    /// has given to the job.
    pub devices: String,
    /// How many those are.
    pub devices_per_node: u32,
    /// Kind of these devices, where jobs ask for one; empty: whatever they turn out to be.
    pub kind: String,
    /// Most nodes held or asked for at once.
    pub nodes_max: u32,
    /// Nodes that are held even when nothing waits.
    pub nodes_min: u32,
    /// Most Slurm jobs that wait in its queue at once.
    pub backlog: u32,
    /// How long a node stays without work before it is given back, seconds.
    pub idle_s: f64,
    /// How long a node is asked for, seconds.
    pub walltime_s: f64,
    /// How long before the end Slurm warns, seconds; not more than a partition's GraceTime where it
    /// preempts.
    pub warning_s: f64,
    /// How long a node may take from the start of its Slurm job until its agent has joined, seconds.
    pub join_s: f64,
    /// The program `shockwave` as the nodes find it; empty: where this one lies.
    pub program: PathBuf,
    /// Folder for what agents must remember; empty: `.pilots` in the jobs' folder.
    pub scratch: PathBuf,
    /// With `mode = "job"`: `sbatch --account` for the leases of a user; others get `account`.
    pub accounts: BTreeMap<String, String>,
}

impl Default for Pool {
    fn default() -> Self {
        let empty = String::new;
        Self {
            name: empty(),
            mode: Mode::Pilot,
            partition: empty(),
            account: empty(),
            qos: empty(),
            constraint: empty(),
            gres: empty(),
            gres_type: empty(),
            cpus_per_node: 0,
            memory: empty(),
            options: Vec::new(),
            devices: "slurm".into(),
            devices_per_node: 0,
            kind: empty(),
            nodes_max: 0,
            nodes_min: 0,
            backlog: 1,
            idle_s: 300.0,
            walltime_s: 14_400.0,
            warning_s: 60.0,
            join_s: 120.0,
            program: PathBuf::new(),
            scratch: PathBuf::new(),
            accounts: BTreeMap::new(),
        }
    }
}

/// A pool that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("slurm pool `{pool}`: {field} is {got}, expected {expected}")]
pub struct PoolError {
    /// Its name.
    pub pool: String,
    /// Which key.
    pub field: &'static str,
    /// What it is.
    pub got: String,
    /// What would be right.
    pub expected: &'static str,
}

impl Pool {
    /// Checks every key.
    ///
    /// # Errors
    /// Names the first that cannot be.
    pub fn check(&self) -> Result<(), PoolError> {
        let wrong = |field, got: String, expected| {
            Err(PoolError { pool: self.name.clone(), field, got, expected })
        };
        let plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
        if self.name.is_empty() || self.name.len() > 24 || !self.name.chars().all(plain) {
            return wrong("name", format!("{:?}", self.name), "1 to 24 of a-z and 0-9");
        }
        if let Some((field, text)) = self.texts().find(|(_, text)| has_space(text)) {
            return wrong(field, format!("{text:?}"), "a word without spaces, as sbatch takes it");
        }
        if let Some(option) = self.options.iter().find(|option| !is_option(option)) {
            return wrong("options", format!("{option:?}"), "words such as \"--exclusive\"");
        }
        if !(1..=1024).contains(&self.devices_per_node) {
            return wrong("devices_per_node", self.devices_per_node.to_string(), "1 to 1024");
        }
        if self.devices != "slurm"
            && let Err(error) = self.devices.parse::<crate::devices::DeviceList>()
        {
            return wrong("devices", error.to_string(), "slurm, cpu:COUNT, gpu or auto");
        }
        if !(1..=100_000).contains(&self.nodes_max) {
            return wrong("nodes_max", self.nodes_max.to_string(), "1 to 100000");
        }
        if self.nodes_min > self.nodes_max {
            return wrong("nodes_min", self.nodes_min.to_string(), "at most nodes_max");
        }
        if !(1..=1000).contains(&self.backlog) {
            return wrong("backlog", self.backlog.to_string(), "1 to 1000");
        }
        self.check_mode()?;
        let slots = self.devices.strip_prefix("cpu:").and_then(|count| count.parse().ok());
        if slots.is_some_and(|slots: u32| slots != self.devices_per_node) {
            return wrong("devices", self.devices.clone(), "cpu: and as many as devices_per_node");
        }
        self.check_times()
    }

    fn check_times(&self) -> Result<(), PoolError> {
        let times = [
            ("idle_s", self.idle_s, 0.0, "0 to 1e7 seconds"),
            ("walltime_s", self.walltime_s, 60.0, "60 to 1e7 seconds"),
            ("warning_s", self.warning_s, 1.0, "1 to 1e7 seconds"),
            ("join_s", self.join_s, 1.0, "1 to 1e7 seconds"),
        ];
        let wrong = |field, got: f64, expected| {
            Err(PoolError { pool: self.name.clone(), field, got: got.to_string(), expected })
        };
        for (field, got, least, expected) in times {
            if !(least..=1e7).contains(&got) {
                return wrong(field, got, expected);
            }
        }
        if self.warning_s * 2.0 > self.walltime_s {
            return wrong("warning_s", self.warning_s, "at most half of walltime_s");
        }
        Ok(())
    }

    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("partition", self.partition.as_str()),
            ("account", &self.account),
            ("qos", &self.qos),
            ("constraint", &self.constraint),
            ("gres", &self.gres),
            ("gres_type", &self.gres_type),
            ("memory", &self.memory),
        ]
        .into_iter()
    }

    /// `--gres` for so many devices; empty: none is asked for.
    #[must_use]
    pub fn gres_for(&self, devices: u32) -> String {
        if !self.gres.is_empty() {
            return self.gres.clone();
        }
        if self.devices.starts_with("cpu") {
            return String::new();
        }
        match self.gres_type.as_str() {
            "" => format!("gpu:{devices}"),
            kind => format!("gpu:{kind}:{devices}"),
        }
    }
}

/// Checks the pools of a coordinator together.
///
/// # Errors
/// One sentence that names the pool.
pub fn check_all(pools: &[Pool], has_jobs: bool) -> Result<(), String> {
    for (index, pool) in pools.iter().enumerate() {
        pool.check().map_err(|error| error.to_string())?;
        if pools[..index].iter().any(|earlier| earlier.name == pool.name) {
            return Err(format!("two slurm pools have the name `{}`", pool.name));
        }
    }
    if !pools.is_empty() && !has_jobs {
        return Err("slurm pools need `jobs`, a folder that all nodes share".into());
    }
    Ok(())
}

pub(super) fn has_space(text: &str) -> bool {
    text.chars().any(|it| it.is_whitespace() || it.is_control())
}

fn is_option(text: &str) -> bool {
    text.starts_with('-') && !text.chars().any(char::is_control)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
