//! Where a job stands: reported facts, and the estimate between two reports.

use serde::{Deserialize, Serialize};

use crate::types::{JobProgress, RegimeRecord};

/// Epochs measured in a regime weigh at least `1 / MEMORY` of its epoch time, so that a node that
/// turns slow shows within a few epochs.
const MEMORY: u32 = 8;
/// The estimate never claims an epoch that was not reported.
const EPOCH_END: f64 = 0.999;
/// Positions nearer than this are one.
const SAME_EPOCH: f64 = 1e-9;

/// Observations of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Track {
    /// As of the last report; contention is filled in by the engine.
    reported: JobProgress,
    /// Epochs measured in the last regime.
    measured: u32,
    /// Time of the last report while it trains, seconds.
    anchor_s: Option<f64>,
    /// Start of the open stretch of service, seconds.
    serving_since_s: Option<f64>,
    /// Epoch time that the predictor expects in the current regime, before one is measured.
    guess_s: Option<f64>,
    /// Time, seconds, and epochs of the last position that was reported in this stretch of service;
    /// the pace is taken from the first one on, for the first steps are slow.
    pace_from: Option<(f64, f64)>,
    /// Training time, seconds, and epochs between such reports in the current regime, over all
    /// leases: a short one that stalls changes little.
    paced: (f64, f64),
}

impl Track {
    /// The gang trains, from a state with `epochs_done`.
    pub(super) fn start(&mut self, at_s: f64, epochs_done: f64, initial_batch: u32) {
        // What was taken for a plain command may have declared its batch size since.
        let is_new = self.reported.epochs_done() == 0.0
            && self.reported.regimes.last().is_none_or(|regime| regime.batch != initial_batch);
        if is_new {
            self.reported.regimes.clear();
            self.push_regime(initial_batch);
        }
        self.move_to(epochs_done);
        self.anchor_s = Some(at_s);
        self.pace_from = None;
        self.serving_since_s.get_or_insert(at_s);
    }

    /// Service ends; the job will resume with `epochs_done`.
    pub(super) fn stop(&mut self, at_s: f64, epochs_done: f64) {
        self.reported.attained_s = self.attained_s(at_s);
        self.serving_since_s = None;
        self.anchor_s = None;
        self.pace_from = None;
        if !self.reported.regimes.is_empty() {
            self.move_to(epochs_done);
        }
    }

    /// A whole epoch is reported. Gives whether it is news.
    pub(super) fn epoch_done(&mut self, at_s: f64, epochs: f64, batch: u32, epoch_s: f64) -> bool {
        let news = epochs > self.reported.epochs_done() + SAME_EPOCH;
        if news {
            self.in_regime(batch);
            self.move_to(epochs);
            self.anchor_s = self.anchor_s.map(|_| at_s);
        }
        if let Some(regime) = self.reported.regimes.last_mut().filter(|last| last.batch == batch) {
            self.measured = (self.measured + 1).min(MEMORY);
            let mean = regime.epoch_s.unwrap_or(epoch_s);
            regime.epoch_s = Some(mean + (epoch_s - mean) / f64::from(self.measured));
        }
        news
    }

    /// The batch size changes at `epochs_done`. Gives whether it is news.
    pub(super) fn regime(&mut self, at_s: f64, epochs_done: f64, batch: u32) -> bool {
        if !self.reported.regimes.is_empty() {
            self.move_to(epochs_done);
        }
        self.anchor_s = self.anchor_s.map(|_| at_s);
        self.pace_from = None;
        self.in_regime(batch)
    }

    /// The position is reported.
    pub(super) fn position(&mut self, at_s: f64, epochs_done: f64) {
        if !self.reported.regimes.is_empty() {
            self.move_to(epochs_done.max(self.reported.epochs_done()));
            self.anchor_s = self.anchor_s.map(|_| at_s);
            if let Some((since_s, from)) = self.pace_from.replace((at_s, epochs_done)) {
                self.paced.0 += (at_s - since_s).max(0.0);
                self.paced.1 += (epochs_done - from).max(0.0);
            }
        }
    }

    /// What the predictor expects of an epoch in the current regime, seconds.
    pub(super) fn guess(&mut self, epoch_s: Option<f64>) {
        self.guess_s = epoch_s.filter(|guess| guess.is_finite() && *guess > 0.0);
    }

    /// Batch size of the current regime, samples.
    pub(super) fn batch(&self) -> Option<u32> {
        self.reported.regimes.last().map(|regime| regime.batch)
    }

    /// Epoch time of the current regime: measured, by the pace so far, or else expected; seconds.
    pub(super) fn epoch_s(&self) -> Option<f64> {
        let measured = self.reported.regimes.last().and_then(|regime| regime.epoch_s);
        measured.or(self.paced_s()).or(self.guess_s)
    }

    /// Epoch time by the pace so far, before a whole epoch is measured, seconds.
    fn paced_s(&self) -> Option<f64> {
        let (time_s, epochs) = self.paced;
        (epochs > SAME_EPOCH && time_s > 0.0).then(|| time_s / epochs)
    }

    /// Epoch time of the first regime, seconds.
    pub(super) fn first_epoch_s(&self) -> Option<f64> {
        let first = self.reported.regimes.first().and_then(|regime| regime.epoch_s);
        first.or_else(|| self.epoch_s())
    }

    /// Service time so far, seconds.
    pub(super) fn attained_s(&self, now_s: f64) -> f64 {
        let open = self.serving_since_s.map_or(0.0, |since| (now_s - since).max(0.0));
        self.reported.attained_s + open
    }

    /// Progress with the estimated part of the running epoch, never beyond `epochs_total`.
    pub(super) fn estimate(&self, now_s: f64, epochs_total: u32) -> JobProgress {
        let mut progress = self.reported.clone();
        progress.attained_s = self.attained_s(now_s);
        if let Some(last) = progress.regimes.last_mut() {
            last.epoch_s = last.epoch_s.or(self.paced_s());
        }
        let done = progress.epochs_done();
        if let (Some(anchor), Some(epoch_s)) = (self.anchor_s, self.epoch_s()) {
            let gone = ((now_s - anchor) / epoch_s).max(0.0);
            let to_end = (done + SAME_EPOCH).floor() + EPOCH_END - done;
            let room = (f64::from(epochs_total) - done).max(0.0);
            if let Some(last) = progress.regimes.last_mut() {
                last.epochs += gone.min(to_end.max(0.0)).min(room);
            }
        }
        progress
    }

    fn push_regime(&mut self, batch: u32) {
        self.reported.regimes.push(RegimeRecord { batch, epochs: 0.0, epoch_s: None });
        self.forget_pace();
    }

    /// Nothing is measured of the current regime yet.
    fn forget_pace(&mut self) {
        self.measured = 0;
        self.guess_s = None;
        self.paced = (0.0, 0.0);
    }

    /// Makes a regime of this batch size the current one.
    fn in_regime(&mut self, batch: u32) -> bool {
        match self.reported.regimes.last_mut() {
            Some(last) if last.batch == batch => return false,
            Some(last) if last.epochs <= SAME_EPOCH => {
                *last = RegimeRecord { batch, epochs: 0.0, epoch_s: None };
                self.forget_pace();
            }
            _ => self.push_regime(batch),
        }
        true
    }

    /// Sets the position: forward in the current regime, backward (a resume from an older state)
    /// through the regimes.
    fn move_to(&mut self, epochs_done: f64) {
        let regimes = &mut self.reported.regimes;
        while regimes.len() > 1 {
            let start: f64 = regimes[..regimes.len() - 1].iter().map(|regime| regime.epochs).sum();
            if start <= epochs_done + SAME_EPOCH {
                break;
            }
            regimes.pop();
            self.measured = u32::from(regimes.last().is_some_and(|last| last.epoch_s.is_some()));
            self.guess_s = None;
            self.paced = (0.0, 0.0);
        }
        let before: f64 = regimes.iter().rev().skip(1).map(|regime| regime.epochs).sum();
        if let Some(last) = regimes.last_mut() {
            last.epochs = (epochs_done - before).max(0.0);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn epochs(track: &Track) -> Vec<(u32, f64)> {
        track.reported.regimes.iter().map(|regime| (regime.batch, regime.epochs)).collect()
    }

    #[test]
    fn regimes_follow_the_reports() {
        let mut track = Track::default();
        track.start(100.0, 0.0, 32);
        assert!(track.epoch_done(110.0, 1.0, 32, 10.0));
        assert!(track.regime(110.0, 1.0, 64));
        assert!(!track.regime(110.0, 1.0, 64), "said twice");
        assert!(track.epoch_done(116.0, 2.0, 64, 6.0));
        assert!(!track.epoch_done(116.5, 2.0, 64, 6.0), "delivered twice");
        assert_eq!(epochs(&track), [(32, 1.0), (64, 1.0)]);
        assert_eq!(track.epoch_s(), Some(6.0));
        assert_eq!(track.attained_s(120.0), 20.0);
        let half = track.estimate(119.0, 10);
        assert_eq!(half.epochs_done(), 2.5);
        let late = track.estimate(1e6, 10);
        assert!((late.epochs_done() - 2.999).abs() < 1e-9, "no epoch that was not reported");
        assert_eq!(track.estimate(1e6, 2).epochs_done(), 2.0);
    }

    /// An epoch may take an hour: how long is known as soon as a part of it is trained.
    #[test]
    fn the_pace_within_an_epoch_is_its_duration_until_one_is_measured() {
        let mut track = Track::default();
        track.start(90.0, 0.0, 32);
        track.guess(Some(999.0));
        track.position(100.0, 0.01);
        assert_eq!(track.epoch_s(), Some(999.0), "the first steps are slow");
        track.position(110.0, 0.26);
        assert_eq!(track.epoch_s(), Some(40.0));
        let seen = track.estimate(120.0, 10);
        assert_eq!(seen.regimes[0].epoch_s, Some(40.0), "forecasts see it");
        assert_eq!(seen.epochs_done(), 0.51);
        track.stop(120.0, 0.5);
        track.start(200.0, 0.5, 32);
        track.position(204.0, 0.6);
        track.position(208.0, 0.7);
        assert!((track.epoch_s().unwrap() - 40.0).abs() < 1e-9, "the pause does not count");
        track.stop(209.0, 0.7);
        track.start(300.0, 0.7, 32);
        track.position(301.0, 0.7);
        track.position(307.0, 0.71);
        let epoch_s = track.epoch_s().unwrap();
        assert!((46.0..60.0).contains(&epoch_s), "a stall of 6 s is no epoch of 600 s: {epoch_s}");
        track.epoch_done(220.0, 1.0, 32, 36.0);
        assert_eq!(track.epoch_s(), Some(36.0), "a measured epoch is better");
        track.regime(220.0, 1.0, 64);
        assert_eq!(track.epoch_s(), None);
        track.position(222.0, 1.05);
        track.position(223.0, 1.1);
        assert!((track.epoch_s().unwrap() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_resume_from_an_older_state_goes_back() {
        let mut track = Track::default();
        track.start(0.0, 0.0, 32);
        track.epoch_done(10.0, 1.0, 32, 10.0);
        track.regime(10.0, 1.0, 64);
        track.epoch_done(15.0, 2.0, 64, 5.0);
        track.stop(20.0, 0.5);
        assert_eq!(epochs(&track), [(32, 0.5)]);
        assert_eq!(track.epoch_s(), Some(10.0), "what was measured stays known");
        track.start(30.0, 0.5, 32);
        assert_eq!(track.attained_s(31.0), 21.0);
        track.stop(31.0, 0.5);
        assert_eq!(track.attained_s(99.0), 21.0);
    }

    #[test]
    fn a_checkpoint_at_the_change_keeps_the_new_regime() {
        let mut track = Track::default();
        track.start(0.0, 0.0, 32);
        track.epoch_done(10.0, 1.0, 32, 10.0);
        track.regime(10.0, 1.0, 64);
        track.stop(12.0, 1.0);
        assert_eq!(epochs(&track), [(32, 1.0), (64, 0.0)]);
    }
}
