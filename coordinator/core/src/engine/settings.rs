//! The engine's settings.

use serde::{Deserialize, Serialize};

/// Shortest round, seconds: rounds are counted, and nothing can be planned in less.
const ROUND_LEAST_S: f64 = 0.01;
/// Longest round, seconds.
const ROUND_MOST_S: f64 = 1e7;

/// Who calls the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Planning {
    /// The engine itself, inside `handle`.
    Inline,
    /// The driver, on another thread: [`super::Action::Plan`] and [`super::Event::Planned`].
    Beside,
}

/// Settings, all changeable between runs but not within one (they are part of what a log replays
/// on).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Length of a round, seconds (D; paper: 120).
    pub round_s: f64,
    /// How long before a round's boundary its jobs are fixed and the others are asked to yield,
    /// seconds.
    pub lead_s: f64,
    /// How long before that the policy is asked, seconds, when it decides beside the round.
    pub plan_budget_s: f64,
    /// Whether a batch-size change leads to a new plan (reactive) or not (lazy) (section 7).
    pub reactive: bool,
    /// Who calls the policy.
    pub planning: Planning,
    /// Validity of a lease without renewal, seconds; more than a round.
    pub ttl_s: f64,
    /// How long leases hold after a restart of the coordinator at least, seconds.
    pub reconnect_s: f64,
    /// Time from the request to yield to the kill, seconds.
    pub grace_s: f64,
    /// How long a kill may take before it is repeated, seconds.
    pub kill_wait_s: f64,
    /// Shortest run of a lease before the policy may take it back, seconds.
    pub min_run_s: f64,
    /// What a stop and a later start cost, seconds, until it is measured.
    pub restart_s: f64,
    /// Failures in a row, without a checkpoint between them, that are retried.
    pub retries: u32,
    /// Wait after the first failure, seconds; doubles with each one in a row.
    pub backoff_s: f64,
    /// Longest wait after a failure, seconds.
    pub backoff_max_s: f64,
    /// Failures in a row of different jobs after which a node is set aside.
    pub node_failures_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            round_s: 120.0,
            lead_s: 10.0,
            plan_budget_s: 15.0,
            reactive: true,
            planning: Planning::Inline,
            ttl_s: 150.0,
            reconnect_s: 60.0,
            grace_s: 30.0,
            kill_wait_s: 10.0,
            min_run_s: 30.0,
            restart_s: 20.0,
            retries: 5,
            backoff_s: 5.0,
            backoff_max_s: 300.0,
            node_failures_max: 3,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {got}, expected {expected}")]
pub struct SettingsError {
    /// Which.
    pub field: &'static str,
    /// What it was.
    pub got: f64,
    /// What would be right.
    pub expected: &'static str,
}

impl Settings {
    /// Checks every field.
    ///
    /// # Errors
    /// [`SettingsError`] names the first field that cannot be.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let error = |field, got, expected| Err(SettingsError { field, got, expected });
        if !(ROUND_LEAST_S..=ROUND_MOST_S).contains(&self.round_s) {
            return error("round_s", self.round_s, "0.01 to 1e7 seconds");
        }
        if !(self.ttl_s.is_finite() && self.ttl_s >= self.round_s) {
            return error("ttl_s", self.ttl_s, "at least round_s");
        }
        let positive = [("kill_wait_s", self.kill_wait_s), ("backoff_s", self.backoff_s)];
        for (field, got) in positive {
            if !(got.is_finite() && got > 0.0) {
                return error(field, got, "a finite number above 0");
            }
        }
        let at_least_zero = [
            ("lead_s", self.lead_s),
            ("plan_budget_s", self.plan_budget_s),
            ("reconnect_s", self.reconnect_s),
            ("grace_s", self.grace_s),
            ("min_run_s", self.min_run_s),
            ("restart_s", self.restart_s),
            ("backoff_max_s", self.backoff_max_s),
        ];
        for (field, got) in at_least_zero {
            if !(got.is_finite() && got >= 0.0) {
                return error(field, got, "a finite number, 0 or more");
            }
        }
        if self.lead_s + self.plan_budget_s >= self.round_s {
            return error("lead_s", self.lead_s, "lead_s + plan_budget_s below round_s");
        }
        Ok(())
    }
}
