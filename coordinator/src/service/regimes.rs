//! The regimes that a job has gone through, as it reported them.

use serde::{Deserialize, Serialize};
use shockwave_proto::v1::RegimeInfo;

/// A phase of constant batch size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Regime {
    batch: u32,
    /// Epochs done when it began, and when it was last heard of (counts with fraction).
    from: f64,
    to: f64,
    /// Sum and count of the durations of whole epochs in it, seconds.
    duration_s: f64,
    measured: u32,
}

/// The regimes so far, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Regimes(Vec<Regime>);

impl Regimes {
    /// Training begins or goes on at this point: what was beyond it was lost and does not count.
    pub fn start(&mut self, epochs_done: f64, batch: u32) {
        self.0.retain(|regime| regime.from < epochs_done || regime.from == 0.0);
        if let Some(last) = self.0.last_mut() {
            last.to = last.to.min(epochs_done).max(last.from);
        }
        self.change(epochs_done, batch);
    }

    /// The batch size is this from here on.
    pub fn change(&mut self, epochs_done: f64, batch: u32) {
        if let Some(last) = self.0.last_mut() {
            last.to = epochs_done.max(last.from);
            if last.batch == batch {
                return;
            }
            // A change at its very beginning: the regime was not trained in at all.
            if last.to <= last.from {
                self.0.pop();
                if self.0.last().is_some_and(|before| before.batch == batch) {
                    return;
                }
            }
        }
        let (from, to) = (epochs_done, epochs_done);
        self.0.push(Regime { batch, from, to, duration_s: 0.0, measured: 0 });
    }

    /// An epoch is complete.
    pub fn epoch_done(&mut self, epochs_done: f64, batch: u32, duration_s: f64) {
        if self.0.last().is_none_or(|last| last.batch != batch) {
            self.change(epochs_done - 1.0, batch);
        }
        let Some(last) = self.0.last_mut() else { return };
        last.to = epochs_done.max(last.from);
        // Only an epoch that lay wholly in the regime measures it.
        if epochs_done - last.from >= 1.0 - 1e-9 && duration_s > 0.0 {
            last.duration_s += duration_s;
            last.measured += 1;
        }
    }

    /// For people and programs.
    #[must_use]
    pub fn infos(&self) -> Vec<RegimeInfo> {
        let info = |regime: &Regime| RegimeInfo {
            batch: regime.batch,
            epochs_trained: regime.to - regime.from,
            epoch_s: (regime.measured > 0).then(|| regime.duration_s / f64::from(regime.measured)),
            forecast: false,
        };
        self.0.iter().map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(regimes: &Regimes, expected: &[(u32, f64, Option<f64>)]) {
        let got: Vec<_> =
            regimes.infos().iter().map(|it| (it.batch, it.epochs_trained, it.epoch_s)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn follows_a_job_through_its_batch_sizes() {
        let mut regimes = Regimes::default();
        regimes.start(0.0, 32);
        regimes.epoch_done(1.0, 32, 10.0);
        regimes.epoch_done(2.0, 32, 14.0);
        regimes.change(2.5, 64);
        regimes.epoch_done(3.0, 64, 9.0);
        regimes.epoch_done(4.0, 64, 6.0);
        check(&regimes, &[(32, 2.5, Some(12.0)), (64, 1.5, Some(6.0))]);
    }

    #[test]
    fn forgets_what_a_restart_lost() {
        let mut regimes = Regimes::default();
        regimes.start(0.0, 32);
        regimes.epoch_done(1.0, 32, 10.0);
        regimes.change(1.0, 64);
        regimes.epoch_done(2.0, 64, 5.0);
        regimes.start(0.5, 32);
        check(&regimes, &[(32, 0.5, Some(10.0))]);
    }

    #[test]
    fn a_regime_without_training_is_none() {
        let mut regimes = Regimes::default();
        regimes.start(0.0, 32);
        regimes.change(0.0, 64);
        regimes.epoch_done(1.0, 64, 5.0);
        check(&regimes, &[(64, 1.0, Some(5.0))]);
    }
}
