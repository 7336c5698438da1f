//! A planning instance as a document: the input of `shockwave plan --instance`.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::buyer::{Buyer, MicroJob, Trajectory, Window, run_time_s};
use super::objective::Objective;
use crate::solver::Sides;

/// Most rounds in a window.
pub const ROUNDS_MAX: u32 = 1024;
/// Most jobs and most GPUs.
pub const SIZE_MAX: u32 = 1_000_000;
/// Longest time that means anything, seconds (about 30 years).
const TIME_MAX_S: f64 = 1e9;

/// A job's name in the document: a string, or a number that is taken as its digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "RawKey")]
pub struct JobKey(pub String);

#[derive(Deserialize)]
#[serde(untagged)]
enum RawKey {
    Text(String),
    Number(u64),
}

impl From<RawKey> for JobKey {
    fn from(raw: RawKey) -> Self {
        match raw {
            RawKey::Text(text) => Self(text),
            RawKey::Number(number) => Self(number.to_string()),
        }
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A planning window with its jobs and options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// What to maximise; `progress` if absent.
    #[serde(default)]
    pub objective: Objective,
    /// GPUs, M.
    pub gpus: u32,
    /// Rounds, T.
    pub rounds: u32,
    /// Length of a round D, seconds.
    pub round_s: f64,
    /// Power of rho in the budgets; 5 (progress) or 1 (finish-time) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<f64>,
    /// Weight of the makespan estimate; 0.001 (progress) or 1 (finish-time) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f64>,
    /// Time after which the best plan so far is given, seconds.
    #[serde(default = "default_time_limit_s")]
    pub time_limit_s: f64,
    /// Most starts of all jobs in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts_max: Option<usize>,
    /// The jobs.
    pub jobs: Vec<InstanceJob>,
}

/// One job of an [`Instance`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceJob {
    /// Its name, unique in the document.
    pub id: JobKey,
    /// Gang size, GPUs.
    pub gpus: u32,
    /// Epochs that it trains in all.
    pub epochs_total: f64,
    /// Epochs trained so far.
    #[serde(default)]
    pub epochs_done: f64,
    /// What is left of it, in order.
    pub regimes: Vec<InstanceRegime>,
    /// Other ways that the rest may go: with `samples`, utilities are means over these (and
    /// `regimes` is not used). Appendix F.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Vec<InstanceRegime>>,
    /// Estimated finish-time fairness (eq. 9).
    #[serde(default = "one")]
    pub rho: f64,
    /// Budget relative to other jobs.
    #[serde(default = "one")]
    pub weight: f64,
    /// Whether it holds its gang now.
    #[serde(default)]
    pub running: bool,
    /// Time since submission, seconds (finish-time only).
    #[serde(default)]
    pub elapsed_s: f64,
    /// Service received, seconds (finish-time only).
    #[serde(default)]
    pub attained_s: f64,
    /// Contention of its fair deadline, at least 1; jobs over GPUs if absent (finish-time only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
    /// Rounds in which it must not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_rounds: Vec<u32>,
    /// Rounds in which it must run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned_rounds: Vec<u32>,
}

/// A regime that lies ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceRegime {
    /// Epochs in it.
    pub epochs: f64,
    /// Duration of an epoch, seconds.
    pub epoch_s: f64,
}

fn default_time_limit_s() -> f64 {
    15.0
}

fn one() -> f64 {
    1.0
}

/// What is wrong with an instance.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{at}: {field} is {got}, expected {expected}")]
pub struct InstanceError {
    /// The job, or `instance`.
    pub at: String,
    /// Which field.
    pub field: String,
    /// What it was.
    pub got: String,
    /// What would be right.
    pub expected: String,
}

/// Checks fields of one part of the document.
struct Check(String);

impl Check {
    fn that(
        &self,
        holds: bool,
        field: &str,
        got: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Result<(), InstanceError> {
        if holds {
            return Ok(());
        }
        Err(InstanceError {
            at: self.0.clone(),
            field: field.into(),
            got: got.to_string(),
            expected: expected.to_string(),
        })
    }

    fn number(&self, field: &str, value: f64, from: f64, to: f64) -> Result<(), InstanceError> {
        let holds = value.is_finite() && value >= from && value <= to;
        self.that(holds, field, value, format!("a number from {from} to {to}"))
    }
}

impl Instance {
    /// Checks everything and gives the market's window.
    ///
    /// # Errors
    /// [`InstanceError`] names the first field that cannot be.
    pub fn window(&self) -> Result<Window, InstanceError> {
        self.check()?;
        let contention = (self.jobs.len() as f64 / f64::from(self.gpus)).max(1.0);
        let (k, lambda) = self.objective.parameters();
        Ok(Window {
            gpus: self.gpus,
            rounds: self.rounds as usize,
            round_s: self.round_s,
            k: self.k.unwrap_or(k),
            lambda: self.lambda.unwrap_or(lambda),
            buyers: self.jobs.iter().map(|job| job.buyer(contention)).collect(),
        })
    }

    /// The side constraints.
    #[must_use]
    pub fn sides(&self) -> Sides {
        let cells = |rounds: fn(&InstanceJob) -> &Vec<u32>| {
            let of = |(index, job)| rounds(job).iter().map(move |&round| (index, round as usize));
            self.jobs.iter().enumerate().flat_map(of).collect()
        };
        Sides {
            forbidden: cells(|job| &job.forbidden_rounds),
            pinned: cells(|job| &job.pinned_rounds),
            starts_max: self.restarts_max,
        }
    }

    fn check(&self) -> Result<(), InstanceError> {
        let check = Check("instance".into());
        let sizes = format!("a number from 1 to {SIZE_MAX}");
        check.that((1..=SIZE_MAX).contains(&self.gpus), "gpus", self.gpus, &sizes)?;
        let rounds = format!("a number from 1 to {ROUNDS_MAX}");
        check.that((1..=ROUNDS_MAX).contains(&self.rounds), "rounds", self.rounds, rounds)?;
        check.number("round_s", self.round_s, 1e-3, TIME_MAX_S)?;
        check.number("k", self.k.unwrap_or(1.0), 0.0, 100.0)?;
        check.number("lambda", self.lambda.unwrap_or(1.0), 0.0, 1e9)?;
        check.number("time_limit_s", self.time_limit_s, 1e-3, TIME_MAX_S)?;
        let jobs = self.jobs.len();
        let expected = format!("from 1 to {SIZE_MAX} jobs");
        check.that(jobs > 0 && jobs <= SIZE_MAX as usize, "jobs", jobs, expected)?;
        let mut names = BTreeSet::new();
        for (index, job) in self.jobs.iter().enumerate() {
            let unique = names.insert(&job.id) && !job.id.0.is_empty();
            let expected = "a name of its own, not empty";
            Check(format!("job number {index}")).that(unique, "id", &job.id, expected)?;
            job.check(self)?;
        }
        Ok(())
    }
}

impl InstanceJob {
    fn check(&self, instance: &Instance) -> Result<(), InstanceError> {
        let check = Check(format!("job {}", self.id));
        let gpus = instance.gpus;
        let gangs = format!("from 1 to the cluster's {gpus}");
        check.that((1..=gpus).contains(&self.gpus), "gpus", self.gpus, gangs)?;
        check.number("epochs_total", self.epochs_total, 1e-6, 1e9)?;
        check.number("epochs_done", self.epochs_done, 0.0, self.epochs_total)?;
        check.number("rho", self.rho, 0.0, 1e6)?;
        check.number("weight", self.weight, 1e-6, 1e6)?;
        check.number("elapsed_s", self.elapsed_s, 0.0, TIME_MAX_S)?;
        check.number("attained_s", self.attained_s, 0.0, TIME_MAX_S)?;
        check.number("contention", self.contention.unwrap_or(1.0), 1.0, 1e6)?;
        let budget = self.weight * self.rho.powf(instance.k.unwrap_or(5.0));
        let expected = "a budget weight rho^k of at most 1e100";
        check.that(budget <= 1e100, "rho", self.rho, expected)?;
        for (field, rounds) in
            [("forbidden_rounds", &self.forbidden_rounds), ("pinned_rounds", &self.pinned_rounds)]
        {
            let last = rounds.iter().copied().max().unwrap_or(0);
            let expected = format!("rounds below {}", instance.rounds);
            check.that(last < instance.rounds, field, last, expected)?;
        }
        self.check_regimes(&check, "regimes", &self.regimes)?;
        for (index, sample) in self.samples.iter().enumerate() {
            self.check_regimes(&check, &format!("samples[{index}]"), sample)?;
        }
        Ok(())
    }

    fn check_regimes(
        &self,
        check: &Check,
        field: &str,
        regimes: &[InstanceRegime],
    ) -> Result<(), InstanceError> {
        for (index, regime) in regimes.iter().enumerate() {
            let at = |name| format!("{field}[{index}].{name}");
            check.number(&at("epochs"), regime.epochs, 0.0, 1e9)?;
            check.number(&at("epoch_s"), regime.epoch_s, 1e-6, TIME_MAX_S)?;
        }
        let left_s = run_time_s(&trajectory(regimes));
        let expected = format!("at most {TIME_MAX_S} s in all");
        check.that(left_s <= TIME_MAX_S, field, format!("{left_s} s in all"), expected)?;
        // A forecast may round; a tenth and an epoch too many is a mistake.
        let epochs = self.epochs_done + regimes.iter().map(|r| r.epochs).sum::<f64>();
        let expected = format!("done and left to add up to epochs_total, {}", self.epochs_total);
        let adds_up = epochs <= 1.1 * self.epochs_total + 1.0;
        check.that(adds_up, field, format!("{epochs} epochs with those done"), expected)
    }

    fn buyer(&self, contention: f64) -> Buyer {
        let trajectories: Vec<Trajectory> = if self.samples.is_empty() {
            vec![trajectory(&self.regimes)]
        } else {
            self.samples.iter().map(|sample| trajectory(sample)).collect()
        };
        let mut buyer = Buyer {
            gpus: self.gpus,
            weight: self.weight,
            running: self.running,
            epochs_total: self.epochs_total,
            epochs_done: self.epochs_done,
            trajectories,
            rho: self.rho,
            elapsed_s: self.elapsed_s,
            attained_s: self.attained_s,
            contention: self.contention.unwrap_or(contention),
            left_lower_s: 0.0,
            left_upper_s: 0.0,
        };
        buyer.left_lower_s = buyer.left_s();
        buyer.left_upper_s = buyer.left_lower_s;
        buyer
    }
}

fn trajectory(regimes: &[InstanceRegime]) -> Trajectory {
    regimes.iter().map(|r| MicroJob { epochs: r.epochs, epoch_s: r.epoch_s }).collect()
}
