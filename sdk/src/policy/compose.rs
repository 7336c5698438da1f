//! Policies made of policies: two that must agree, two of which one leads, and one under an accuracy guard.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{BatchPolicy, Choice, Needs, Observation, PolicyDeclaration, from_state};
use crate::Error;

/// How two policies are composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The first policy decides whenever it changes the batch, else the second.
    First,
    /// The batch grows only as far as both allow.
    Both,
}

/// Two policies as one.
pub struct Compose {
    mode: Mode,
    first: Box<dyn BatchPolicy>,
    second: Box<dyn BatchPolicy>,
    kind: String,
}

impl Compose {
    /// Composes two policies with the same initial batch size.
    pub fn new(
        mode: Mode,
        first: impl BatchPolicy + 'static,
        second: impl BatchPolicy + 'static,
    ) -> Self {
        let word = match mode {
            Mode::First => "first",
            Mode::Both => "both",
        };
        let kind = format!("{word}({}, {})", first.kind(), second.kind());
        Self { mode, first: Box::new(first), second: Box::new(second), kind }
    }
}

/// The needs of both.
fn union(a: Needs, b: Needs) -> Needs {
    let every_steps = match (a.every_steps, b.every_steps) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Needs { layer_norms: a.layer_norms || b.layer_norms, noise: a.noise || b.noise, every_steps }
}

impl BatchPolicy for Compose {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn initial(&self) -> u64 {
        self.first.initial()
    }

    fn declare(&self) -> PolicyDeclaration {
        let (a, b) = (self.first.declare(), self.second.declare());
        let mut configurations = [a.configurations, b.configurations].concat();
        configurations.sort_unstable();
        configurations.dedup();
        PolicyDeclaration {
            kind: self.kind.clone(),
            initial: self.initial(),
            configurations,
            min: a.min.min(b.min),
            max: a.max.max(b.max),
            can_shrink: a.can_shrink || b.can_shrink,
            schedule: Vec::new(),
        }
    }

    fn needs(&self) -> Needs {
        union(self.first.needs(), self.second.needs())
    }

    fn check(&self) -> Result<(), Error> {
        self.first.check()?;
        self.second.check()?;
        if self.first.initial() != self.second.initial() {
            let expected = format!("the first one's ({})", self.first.initial());
            let what = "the second policy's initial batch";
            return Err(Error::invalid(what, self.second.initial(), expected));
        }
        Ok(())
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        // Both always see the observation: their states must not depend on the other's choice.
        let (a, b) = (self.first.decide(now)?, self.second.decide(now)?);
        Ok(match self.mode {
            Mode::First if a.batch != now.batch => a,
            Mode::First => b,
            Mode::Both if a.batch <= b.batch => a,
            Mode::Both => b,
        })
    }

    fn state(&self) -> Value {
        json!([self.first.state(), self.second.state()])
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        let [first, second]: [Value; 2] = from_state(&self.kind, state)?;
        self.first.restore(&first)?;
        self.second.restore(&second)
    }
}

/// Falls back to the initial batch when a held-out loss gets worse than it was in the small-batch phase.
pub struct AccuracyGuard {
    inner: Box<dyn BatchPolicy>,
    metric: String,
    tolerance: f64,
    patience: u64,
    kind: String,
    state: GuardState,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct GuardState {
    /// The best held-out loss at the initial batch size.
    best: Option<f64>,
    /// Ends of epochs in a row at which the loss was worse than that.
    worse: u64,
    /// Whether it fell back; it stays so.
    fallen: bool,
    inner: Value,
}

impl AccuracyGuard {
    /// Guards `inner` by the metric `metric` of [`end_epoch`](crate::Session::end_epoch), a held-out loss: once it is
    /// more than the share `tolerance` above the best one of the small-batch phase at the ends of `patience` epochs in
    /// a row, the batch goes back to the initial one and stays there.
    pub fn new(
        inner: impl BatchPolicy + 'static,
        metric: impl Into<String>,
        tolerance: f64,
        patience: u64,
    ) -> Self {
        let kind = format!("guarded({})", inner.kind());
        let (metric, state) = (metric.into(), GuardState::default());
        Self { inner: Box::new(inner), metric, tolerance, patience, kind, state }
    }

    /// Follows the held-out loss.
    fn judge(&mut self, now: &Observation<'_>, loss: f64) {
        let state = &mut self.state;
        if now.batch == self.inner.initial() {
            if loss.is_finite() {
                state.best = Some(state.best.map_or(loss, |best| best.min(loss)));
            }
            state.worse = 0;
            return;
        }
        let limit = state.best.map_or(f64::INFINITY, |best| best + self.tolerance * best.abs());
        // A loss that is not a number is worse than any.
        state.worse = if loss <= limit { 0 } else { state.worse + 1 };
        state.fallen |= state.worse >= self.patience;
    }
}

impl BatchPolicy for AccuracyGuard {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn initial(&self) -> u64 {
        self.inner.initial()
    }

    fn declare(&self) -> PolicyDeclaration {
        let mut declaration = self.inner.declare();
        declaration.configurations.push(self.initial());
        declaration.configurations.sort_unstable();
        declaration.configurations.dedup();
        PolicyDeclaration { kind: self.kind.clone(), can_shrink: true, ..declaration }
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn check(&self) -> Result<(), Error> {
        self.inner.check()?;
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return Err(Error::invalid("the guard's tolerance", self.tolerance, "zero or more"));
        }
        if self.patience == 0 {
            return Err(Error::invalid("the guard's patience", 0, "at least one epoch"));
        }
        Ok(())
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        let choice = self.inner.decide(now)?;
        if now.epoch_ended {
            let Some(&loss) = now.metrics.get(&self.metric) else {
                let given: Vec<&String> = now.metrics.keys().collect();
                let what = format!("the guard's metric '{}'", self.metric);
                return Err(Error::invalid(
                    what,
                    "missing",
                    format!("one of end_epoch's: {given:?}"),
                ));
            };
            self.judge(now, loss);
        }
        if !self.state.fallen {
            return Ok(choice);
        }
        let best = self.state.best.unwrap_or(f64::NAN);
        let reason =
            format!("accuracy guard: {} worse than {best:.4} of the small batch", self.metric);
        Ok(Choice::new(self.initial(), reason))
    }

    fn state(&self) -> Value {
        let state = GuardState { inner: self.inner.state(), ..self.state.clone() };
        // Numbers in it are finite: a loss that is not a number never becomes the best.
        serde_json::to_value(state).unwrap_or(Value::Null)
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        self.state = from_state(&self.kind, state)?;
        self.inner.restore(&self.state.inner)
    }
}
