//! Batch size from the curvature of the loss.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ladder::Ladder;
use super::{BatchPolicy, Choice, Observation, PolicyDeclaration, from_state};
use crate::Error;

/// The name under which [`end_epoch`](crate::Session::end_epoch) gets the Hessian's top eigenvalue.
pub const CURVATURE_METRIC: &str = "hessian_top";

/// Grows the batch as the loss gets flatter (ABS: Yao et al., "Large batch size training of neural networks with
/// adversarial training and second-order information", 2018, algorithm 1): doubles it when the Hessian's top eigenvalue
/// has fallen by the factor `alpha` since the last change, and, as they do, after `kappa` epochs without a change. Never
/// shrinks.
///
/// The eigenvalue comes from [`Session::top_eigenvalue`](crate::Session::top_eigenvalue), as the metric
/// [`CURVATURE_METRIC`]. Not valid with dropout in that loss.
#[derive(Debug, Clone)]
pub struct Curvature {
    initial: u64,
    max: u64,
    ladder: Ladder,
    alpha: f64,
    kappa: u64,
    state: State,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    /// The eigenvalue at the last change, at first that of the first epoch.
    reference: Option<f64>,
    /// Ends of epochs since then.
    kept: u64,
}

impl Curvature {
    /// From `initial` samples in doublings up to `max`, with alpha 2 and kappa 10.
    pub fn new(initial: u64, max: u64) -> Self {
        let ladder = Ladder::new(initial, max, 2.0);
        Self { initial, max, ladder, alpha: 2.0, kappa: 10, state: State::default() }
    }

    /// The factor by which the eigenvalue must fall, above 1.
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// Epochs without a change after which the batch grows anyway.
    pub fn kappa(mut self, epochs: u64) -> Self {
        self.kappa = epochs;
        self
    }
}

impl BatchPolicy for Curvature {
    fn kind(&self) -> &str {
        "curvature"
    }

    fn initial(&self) -> u64 {
        self.initial
    }

    fn declare(&self) -> PolicyDeclaration {
        self.ladder.declaration(self.kind(), (self.initial, self.max), false)
    }

    fn check(&self) -> Result<(), Error> {
        super::check_range("the curvature policy", self.initial, self.max)?;
        if !(self.alpha > 1.0 && self.alpha.is_finite()) {
            return Err(Error::invalid("the curvature policy's alpha", self.alpha, "above 1"));
        }
        if self.kappa == 0 {
            return Err(Error::invalid("the curvature policy's kappa", 0, "at least one epoch"));
        }
        Ok(())
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        if !now.epoch_ended {
            return Ok(Choice::new(now.batch, "curvature decides at the end of epochs"));
        }
        let Some(&value) = now.metrics.get(CURVATURE_METRIC) else {
            let given: Vec<&String> = now.metrics.keys().collect();
            let what = format!("the curvature policy's metric '{CURVATURE_METRIC}'");
            return Err(Error::invalid(what, "missing", format!("one of end_epoch's: {given:?}")));
        };
        self.state.kept += 1;
        let finite = value.is_finite().then_some(value);
        let reference = *self.state.reference.get_or_insert(finite.unwrap_or(f64::MAX));
        let reason = if finite.is_some_and(|value| value * self.alpha <= reference) {
            format!("top eigenvalue {value:.3e}, {} times below {reference:.3e}", self.alpha)
        } else if self.state.kept >= self.kappa {
            format!("{} epochs without a change", self.kappa)
        } else {
            let reason = format!("top eigenvalue {value:.3e}, at the last change {reference:.3e}");
            return Ok(Choice { estimate: finite, ..Choice::new(now.batch, reason) });
        };
        self.state = State { reference: finite.or(Some(reference)), kept: 0 };
        Ok(Choice { estimate: finite, ..Choice::new(self.ladder.above(now.batch), reason) })
    }

    fn state(&self) -> Value {
        // A plain struct of finite numbers always has a JSON form.
        serde_json::to_value(&self.state).unwrap_or(Value::Null)
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        self.state = from_state(self.kind(), state)?;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn doubles_on_a_fall_by_alpha_and_after_kappa_epochs() {
        let mut policy = Curvature::new(16, 128).kappa(3);
        policy.check().unwrap();
        let mut batch = 16;
        let mut sizes = Vec::new();
        // Falls to half at the third epoch; then stays for three; then rises; then there is nothing above the last rung.
        for (epoch, value) in [8.0, 5.0, 4.0, 4.0, 3.9, 4.1, 9.0, 2.0, 1.0].into_iter().enumerate()
        {
            let metrics = BTreeMap::from([(CURVATURE_METRIC.to_owned(), value)]);
            let now = Observation {
                epoch: epoch as u64,
                epoch_ended: true,
                epochs: 9,
                step: 0,
                sample: 0,
                batch,
                lr: 1.0,
                next_lr: 1.0,
                rate: 0.1,
                metrics: &metrics,
                loss: 1.0,
                layer_norms: None,
                noise: None,
            };
            // A restored policy goes on alike.
            let state = policy.state();
            policy = Curvature::new(16, 128).kappa(3);
            policy.restore(&state).unwrap();
            batch = policy.decide(&now).unwrap().batch;
            sizes.push(batch);
        }
        assert_eq!(sizes, [16, 16, 32, 32, 32, 64, 64, 128, 128]);
    }
}
