//! Accordion: a small batch in critical regimes, a large one elsewhere.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::critical::{CriticalDetector, DetectorState, Measure};
use super::{BatchPolicy, Choice, Needs, Observation, PolicyDeclaration, check_batch, from_state};
use crate::Error;

/// Moves between exactly two batch sizes, in one jump, by the change of the gradient's norm over a window of epochs.
///
/// The gradient of a variable is summed over an epoch's steps; steps at the large batch count as the many small steps
/// that they stand for. Even so a change of the batch alone moves the norm (the larger steps see steeper gradients), and
/// would be taken for a critical regime: norms are compared between epochs of one batch size, and a change of it holds at
/// least until the second check after it, unless the learning rate drops. See [`Self::across_changes`].
///
/// Any drop of the learning rate between two epochs makes the next epochs critical until the next check: with a schedule
/// that falls smoothly (cosine) the batch would stay small; use one that falls in steps.
#[derive(Debug, Clone)]
pub struct Accordion {
    small: u64,
    large: u64,
    window: u64,
    eta: f64,
    measure: Measure,
    detector: CriticalDetector,
    first_epochs: u64,
    first_share: f64,
    decays: Vec<u64>,
    around: u64,
    across_changes: bool,
    /// The batch size of the epoch that was last checked, samples.
    checked_at: Option<u64>,
}

/// What it remembers.
#[derive(Debug, Serialize, Deserialize)]
struct AccordionState {
    #[serde(flatten)]
    detector: DetectorState,
    checked_at: Option<u64>,
}

impl Accordion {
    /// Moves between `small` and `large` samples with a window of 10 epochs and eta 0.5, deciding for the whole model.
    pub fn new(small: u64, large: u64) -> Self {
        let (window, eta, measure) = (10, 0.5, Measure::default());
        Self {
            small,
            large,
            window,
            eta,
            measure,
            detector: CriticalDetector::new(window, eta, measure),
            first_epochs: 0,
            first_share: 0.0,
            decays: Vec::new(),
            around: 0,
            across_changes: false,
            checked_at: None,
        }
    }

    fn rebuilt(mut self) -> Self {
        self.detector = CriticalDetector::new(self.window, self.eta, self.measure);
        self
    }

    /// Sets the epochs between two checks (10 for image models, 5 for LSTM language models).
    pub fn window(mut self, epochs: u64) -> Self {
        self.window = epochs;
        self.rebuilt()
    }

    /// Sets the relative change from which on a regime is critical.
    pub fn eta(mut self, eta: f64) -> Self {
        self.eta = eta;
        self.rebuilt()
    }

    /// Sets which change decides.
    pub fn measure(mut self, measure: Measure) -> Self {
        self.measure = measure;
        self.rebuilt()
    }

    /// Never large in the first `epochs` epochs (20 in the Shockwave paper's expert heuristic, section 2.3).
    pub fn guard_first(mut self, epochs: u64) -> Self {
        self.first_epochs = epochs;
        self
    }

    /// Never large in the first `share` of all epochs (0.3 in the published simulator).
    pub fn guard_first_share(mut self, share: f64) -> Self {
        self.first_share = share;
        self
    }

    /// Never large within `around` epochs before and after each learning-rate decay (10 in the expert heuristic).
    /// `decays` are the first epochs with the lower rate.
    pub fn guard_decays(mut self, decays: impl IntoIterator<Item = u64>, around: u64) -> Self {
        self.decays = decays.into_iter().collect();
        self.around = around;
        self
    }

    /// Compares norms across changes of the batch size too, as the published detector is written (default: no).
    pub fn across_changes(mut self, compare: bool) -> Self {
        self.across_changes = compare;
        self
    }

    /// Whether the epoch that ended is checked, but at another batch size than the last one that was.
    fn changed_since_check(&mut self, now: &Observation<'_>) -> bool {
        if self.across_changes || !now.epoch.is_multiple_of(self.window) {
            return false;
        }
        self.checked_at.replace(now.batch).is_some_and(|before| before != now.batch)
    }

    /// Why `epoch` must stay small, if a guard says so.
    fn guard(&self, epoch: u64, epochs: u64) -> Option<String> {
        if epoch < self.first_epochs {
            return Some(format!("guard: within the first {} epochs", self.first_epochs));
        }
        if (epoch as f64) < self.first_share * epochs as f64 {
            return Some(format!("guard: within the first {} of the epochs", self.first_share));
        }
        let near = self.decays.iter().find(|&&d| {
            epoch.saturating_add(self.around) >= d && epoch < d.saturating_add(self.around)
        });
        near.map(|d| format!("guard: within {} epochs of the decay at epoch {d}", self.around))
    }
}

impl BatchPolicy for Accordion {
    fn kind(&self) -> &str {
        "accordion"
    }

    fn initial(&self) -> u64 {
        self.small
    }

    fn declare(&self) -> PolicyDeclaration {
        PolicyDeclaration {
            kind: self.kind().to_owned(),
            initial: self.small,
            configurations: vec![self.small, self.large],
            min: self.small,
            max: self.large,
            can_shrink: true,
            schedule: Vec::new(),
        }
    }

    fn needs(&self) -> Needs {
        Needs { layer_norms: true, ..Needs::default() }
    }

    fn check(&self) -> Result<(), Error> {
        check_batch("Accordion's small batch", self.small)?;
        if self.large <= self.small {
            let expected = format!("more than the small batch ({})", self.small);
            return Err(Error::invalid("Accordion's large batch", self.large, expected));
        }
        if self.window == 0 {
            return Err(Error::invalid("Accordion's window", 0, "at least one epoch"));
        }
        if !(self.eta > 0.0 && self.eta.is_finite()) {
            return Err(Error::invalid("Accordion's eta", self.eta, "a number above 0"));
        }
        if !(0.0..=1.0).contains(&self.first_share) {
            return Err(Error::invalid("Accordion's first share", self.first_share, "0 to 1"));
        }
        Ok(())
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        let (true, Some(norms)) = (now.epoch_ended, now.layer_norms) else {
            return Ok(Choice::new(now.batch, "accordion decides at the end of epochs"));
        };
        let drops = now.next_lr < now.lr;
        let changed = self.changed_since_check(now);
        let critical = match changed {
            true => self.detector.rebase(norms, drops),
            false => self.detector.observe(now.epoch, norms, drops),
        };
        let ratio = self.detector.last_ratio();
        let estimate = ratio.is_finite().then_some(ratio);
        let choose = |batch, reason| Ok(Choice { batch, estimate, interval: None, reason });
        if let Some(guard) = self.guard(now.epoch + 1, now.epochs) {
            return choose(self.small, guard);
        }
        if drops {
            return choose(self.small, "critical: the learning rate drops".to_owned());
        }
        if changed {
            let batch = if critical { self.small } else { self.large };
            return choose(batch, "the first check at this batch size".to_owned());
        }
        let (eta, change) = (self.eta, format!("change of the gradient norm {ratio:.3}"));
        if critical {
            return choose(self.small, format!("critical: {change}, eta {eta}"));
        }
        choose(self.large, format!("not critical: {change} below eta {eta}"))
    }

    fn state(&self) -> Value {
        // A plain struct of numbers always has a JSON form.
        let (detector, checked_at) = (self.detector.state().clone(), self.checked_at);
        serde_json::to_value(AccordionState { detector, checked_at }).unwrap_or(Value::Null)
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        let AccordionState { detector, checked_at } = from_state("accordion", state)?;
        self.detector.restore(detector);
        self.checked_at = checked_at;
        Ok(())
    }
}
