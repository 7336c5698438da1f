//! Faults on purpose, counted: each promise of the coordinator (P1 to P6) has scenarios that try to
//! break it, as often as asked.
//!
//! A run is one attempt with a seed of its own; the same seed plays the same run (as far as the
//! kernel's own timing allows where whole processes take part). `cargo xtask torture` plays the
//! full numbers; `tests/tests/torture.rs` plays fewer of each on every CI.

pub mod absence;
pub mod clock;
pub mod damage;
pub mod flood;
pub mod job;
pub mod kill;
pub mod log;
pub mod network;
pub mod power;
pub mod rivals;
pub mod slurm;
pub mod tape;
pub mod team_day;
pub mod tokens;
pub mod wire;
pub mod yields;
pub mod zombie;

use anyhow::{Result, ensure};
use serde::Serialize;

/// What was counted over all runs of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Runs that were played.
    pub runs: u64,
    /// Things that were checked: acknowledged events, images, calls; the scenario says which.
    pub checked: u64,
    /// Acknowledged, and not there afterwards.
    pub lost: u64,
    /// There, although nobody has asked for it.
    pub phantom: u64,
    /// Twice where once was promised: two leases or processes of one job, one key as two jobs.
    pub double: u64,
    /// Runs that broke a promise: their seeds, and what was wrong.
    pub failed: Vec<Failure>,
    /// Figures beside the counts (name with its unit).
    pub figures: Vec<(String, f64)>,
    /// Whether times are judged too: not in tests, which share their machine.
    #[serde(skip)]
    pub is_timed: bool,
}

/// A run that broke a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Plays it again.
    pub seed: u64,
    /// What was wrong.
    pub why: String,
}

impl Tally {
    /// Whether nothing was broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost + self.phantom + self.double == 0 && self.failed.is_empty() && self.runs > 0
    }

    /// Notes a figure; one of the same name is replaced by the larger.
    pub fn note_max(&mut self, name: &str, value: f64) {
        match self.figures.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = known.max(value),
            None => self.figures.push((name.to_owned(), value)),
        }
    }

    /// Adds to a figure.
    pub fn note_sum(&mut self, name: &str, value: f64) {
        match self.figures.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known += value,
            None => self.figures.push((name.to_owned(), value)),
        }
    }
}

/// Plays one run.
pub type Run = Box<dyn FnMut(u64, &mut Tally) -> Result<()>>;

/// A way to break the coordinator.
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// The promise, and what is done to it.
    pub what: &'static str,
    /// What is counted as checked.
    pub counts: &'static str,
    /// Runs of the full number.
    pub runs: u64,
    /// Runs on every CI.
    pub ci_runs: u64,
    /// Prepares so many runs.
    pub prepare: fn(u64) -> Result<Run>,
}

/// Every scenario, the quick ones first.
pub const SCENARIOS: [Scenario; 14] = [
    power::SCENARIO,
    damage::SCENARIO,
    rivals::SCENARIO,
    network::SCENARIO,
    clock::SCENARIO,
    tokens::SCENARIO,
    flood::SCENARIO,
    yields::SCENARIO,
    absence::SCENARIO,
    zombie::SCENARIO,
    kill::SCENARIO,
    team_day::SCENARIO,
    slurm::SCENARIO,
    slurm::EACH_LEASE,
];

/// Runs that may fail before the rest is not played any more.
const FAILURES_MAX: usize = 20;

impl Scenario {
    /// Plays `runs` runs with the seeds from `seed` on, and judges times too; `told` hears how many
    /// are done.
    ///
    /// # Errors
    /// The scenario could not be prepared; broken promises are in the tally.
    pub fn play(&self, runs: u64, seed: u64, told: impl FnMut(u64)) -> Result<Tally> {
        self.play_into(Tally { is_timed: true, ..Tally::default() }, (runs, seed), told)
    }

    fn play_into(
        &self,
        mut tally: Tally,
        (runs, seed): (u64, u64),
        mut told: impl FnMut(u64),
    ) -> Result<Tally> {
        let mut run = (self.prepare)(runs)?;
        for seed in seed..seed + runs {
            tally.runs += 1;
            if let Err(error) = run(seed, &mut tally) {
                tally.failed.push(Failure { seed, why: format!("{error:#}") });
                if tally.failed.len() >= FAILURES_MAX {
                    break;
                }
            }
            told(tally.runs);
        }
        Ok(tally)
    }

    /// As [`Self::play`], for tests: no time is judged.
    ///
    /// # Errors
    /// A promise was broken: names the seed and what was wrong.
    pub fn check(&self, runs: u64, seed: u64) -> Result<Tally> {
        let tally = self.play_into(Tally::default(), (runs, seed), |_| ())?;
        let name = self.name;
        ensure!(
            tally.is_clean(),
            "{name}: {tally:#?}\nplayed again by: cargo xtask torture {name} --runs 1 --seed SEED"
        );
        Ok(tally)
    }
}

/// The scenario of a name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}
