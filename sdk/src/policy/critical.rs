//! Accordion's detector of critical learning regimes, as a pure function of norms and learning rates.
//!
//! Agarwal et al., "Accordion: Adaptive gradient communication via critical learning regime identification", 2021.

use serde::{Deserialize, Serialize};

/// Which change of the gradient decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// One decision for the model, from the sum of the variables' norms (Shockwave's way).
    #[default]
    WholeModel,
    /// Each variable decides (the authors' way); the regime is the majority's, a tie is critical.
    Majority,
    /// One decision for the model, from the L2 norm over all variables.
    L2,
}

/// Compares the gradient of an epoch with the one a window before.
#[derive(Debug, Clone, PartialEq)]
pub struct CriticalDetector {
    window: u64,
    eta: f64,
    measure: Measure,
    state: DetectorState,
}

/// What the detector remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DetectorState {
    /// The norms at the last check.
    #[serde(with = "crate::json")]
    before: Option<Vec<f64>>,
    critical: bool,
    /// The relative change at the last check.
    #[serde(with = "crate::json")]
    ratio: f64,
}

impl CriticalDetector {
    /// A detector that checks every `window` epochs (10 for image models, 5 for LSTM language models) whether the norm
    /// changed by less than the share `eta` (0.5).
    pub fn new(window: u64, eta: f64, measure: Measure) -> Self {
        let state = DetectorState { before: None, critical: true, ratio: f64::NAN };
        Self { window: window.max(1), eta, measure, state }
    }

    /// Takes the norms of `epoch`, which just ended, and whether the learning rate drops for the next epoch. Returns
    /// whether the next epoch is critical.
    ///
    /// Epoch 0 is critical; so is a norm that was zero or a ratio that is not a number. A drop makes the regime
    /// critical until the next check.
    pub fn observe(&mut self, epoch: u64, norms: &[f64], lr_drops: bool) -> bool {
        if epoch.is_multiple_of(self.window) {
            let before = self.state.before.take();
            self.state.ratio = before.map_or(f64::NAN, |before| self.ratio(&before, norms));
            self.state.critical = self.is_critical(self.state.ratio);
            self.state.before = Some(norms.to_vec());
        }
        self.state.critical |= lr_drops;
        self.state.critical
    }

    /// Takes the norms as those to compare with at the next check: they cannot be compared with the ones before. The
    /// regime stays what it was.
    pub fn rebase(&mut self, norms: &[f64], lr_drops: bool) -> bool {
        self.state.before = Some(norms.to_vec());
        self.state.critical |= lr_drops;
        self.state.critical
    }

    /// The relative change at the last check; for [`Measure::Majority`] the share of variables that changed by `eta` or
    /// more. Not a number before the second check.
    pub fn last_ratio(&self) -> f64 {
        self.state.ratio
    }

    fn is_critical(&self, ratio: f64) -> bool {
        match self.measure {
            // The share of critical variables.
            Measure::Majority => reaches(ratio, 0.5),
            Measure::WholeModel | Measure::L2 => reaches(ratio, self.eta),
        }
    }

    fn ratio(&self, before: &[f64], now: &[f64]) -> f64 {
        match self.measure {
            Measure::WholeModel => change(before.iter().sum(), now.iter().sum()),
            Measure::L2 => {
                let norm = |v: &[f64]| v.iter().map(|n| n * n).sum::<f64>().sqrt();
                change(norm(before), norm(now))
            }
            Measure::Majority => {
                let critical = before
                    .iter()
                    .zip(now)
                    .filter(|(b, n)| reaches(change(**b, **n), self.eta))
                    .count();
                critical as f64 / now.len() as f64
            }
        }
    }

    pub(super) fn state(&self) -> &DetectorState {
        &self.state
    }

    pub(super) fn restore(&mut self, state: DetectorState) {
        self.state = state;
    }
}

/// Whether a change is at least `limit`; one that is no number is.
fn reaches(change: f64, limit: f64) -> bool {
    change.is_nan() || change >= limit
}

/// The relative change; not a number when the norm was zero.
fn change(before: f64, now: f64) -> f64 {
    if before == 0.0 { f64::NAN } else { (before - now).abs() / before }
}
