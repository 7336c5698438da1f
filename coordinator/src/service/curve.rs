//! How a job has gone, epoch by epoch, thinned out: for its page, and to see how well forecasts held.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use shockwave_proto::v1;

/// Most epochs that are remembered of a job, and most forecasts.
const POINTS_MAX: usize = 200;

/// An epoch that was reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Epochs complete with this one.
    pub epochs: u32,
    /// When, seconds since 1970.
    pub unix_s: f64,
    /// Batch size, samples.
    pub batch: u32,
    /// Mean loss.
    pub loss: Option<f64>,
    /// Noise scale, samples.
    pub noise_scale: Option<f64>,
    /// Gradient norm.
    pub grad_norm: Option<f64>,
}

/// A forecast of a job's end; times in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// When it was made.
    pub unix_s: f64,
    /// One in ten jobs ends before it.
    pub earliest_unix_s: f64,
    /// The expectation.
    pub expected_unix_s: f64,
    /// One in ten jobs ends after it.
    pub latest_unix_s: f64,
}

/// What is remembered of a job's course.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Epochs, ascending.
    pub points: Vec<Point>,
    /// Only multiples of this many epochs are kept; 0 counts as 1.
    every: u32,
    /// Changes of the batch size: seconds since 1970, samples.
    batches: VecDeque<(f64, u32)>,
    /// Forecasts of its end, in order of time.
    pub forecasts: Vec<Forecast>,
    /// Shortest time between two of them, seconds.
    apart_s: f64,
}

impl Curve {
    /// The batch size is this from now on.
    pub fn batch(&mut self, unix_s: f64, batch: u32) {
        if self.batches.back().is_some_and(|last| last.1 == batch) {
            return;
        }
        if self.batches.len() >= POINTS_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back((unix_s, batch));
    }

    /// The batch size at a time, and its changes up to another (none: all later ones).
    #[must_use]
    pub fn batches_within(&self, from_unix_s: f64, to_unix_s: Option<f64>) -> Vec<(f64, u32)> {
        let before = self.batches.iter().rposition(|change| change.0 <= from_unix_s).unwrap_or(0);
        let later = self.batches.iter().skip(before);
        let within = |change: &&(f64, u32)| to_unix_s.is_none_or(|to_unix_s| change.0 < to_unix_s);
        later.take_while(within).copied().collect()
    }

    /// Takes an epoch. One that was trained before (its work was lost) takes the place of what
    /// followed.
    pub fn epoch_done(&mut self, unix_s: f64, it: &v1::EpochDone) {
        let epochs = it.epoch.saturating_add(1);
        self.points.retain(|point| point.epochs < epochs);
        if !epochs.is_multiple_of(self.every.max(1)) && !self.points.is_empty() {
            return;
        }
        self.points.push(Point {
            epochs,
            unix_s,
            batch: it.batch,
            loss: it.loss,
            noise_scale: it.noise_scale,
            grad_norm: it.grad_norm,
        });
        if self.points.len() > POINTS_MAX {
            self.every = self.every.max(1) * 2;
            let every = self.every;
            self.points.retain(|point| point.epochs.is_multiple_of(every));
        }
    }

    /// Whether a forecast is due.
    #[must_use]
    pub fn wants_forecast(&self, unix_s: f64, apart_s: f64) -> bool {
        let last = self.forecasts.last();
        last.is_none_or(|last| unix_s - last.unix_s >= self.apart_s.max(apart_s))
    }

    /// Takes a forecast.
    pub fn forecast(&mut self, it: Forecast) {
        self.forecasts.push(it);
        if self.forecasts.len() > POINTS_MAX {
            let (first, last) = (self.forecasts[0].unix_s, it.unix_s);
            self.apart_s = 2.0 * (last - first) / POINTS_MAX as f64;
            let mut index = 0;
            self.forecasts.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// How many of its forecasts held the true end, and how many there are.
    #[must_use]
    pub fn held(&self, end_unix_s: f64) -> (u64, u64) {
        // Some room for the end's own way to the coordinator.
        let holds = |it: &&Forecast| {
            (it.earliest_unix_s - 1.0..=it.latest_unix_s + 1.0).contains(&end_unix_s)
        };
        (self.forecasts.iter().filter(holds).count() as u64, self.forecasts.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(epoch: u32) -> v1::EpochDone {
        v1::EpochDone { epoch, batch: 32, ..v1::EpochDone::default() }
    }

    #[test]
    fn a_long_job_is_thinned_out() {
        let mut curve = Curve::default();
        for index in 0..1000 {
            curve.epoch_done(f64::from(index), &epoch(index));
        }
        let epochs: Vec<u32> = curve.points.iter().map(|point| point.epochs).collect();
        assert!(epochs.len() <= POINTS_MAX && epochs.len() > POINTS_MAX / 4, "{}", epochs.len());
        assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(epochs.last(), Some(&1000));
    }

    #[test]
    fn an_epoch_that_is_trained_again_counts_once() {
        let mut curve = Curve::default();
        for index in [0, 1, 2, 1] {
            curve.epoch_done(1.0, &epoch(index));
        }
        let epochs: Vec<u32> = curve.points.iter().map(|point| point.epochs).collect();
        assert_eq!(epochs, [1, 2]);
    }

    #[test]
    fn forecasts_are_held_against_the_end() {
        let mut curve = Curve::default();
        for unix_s in [0.0, 10.0, 20.0] {
            let (earliest_unix_s, latest_unix_s) = (unix_s + 10.0, unix_s + 30.0);
            let expected_unix_s = unix_s + 20.0;
            curve.forecast(Forecast { unix_s, earliest_unix_s, expected_unix_s, latest_unix_s });
        }
        assert_eq!(curve.held(35.0), (2, 3));
        assert!(!curve.wants_forecast(25.0, 10.0) && curve.wants_forecast(30.0, 10.0));
        for index in 3..1000 {
            let unix_s = f64::from(index) * 10.0;
            if curve.wants_forecast(unix_s, 10.0) {
                let it = Forecast { unix_s, ..curve.forecasts[0] };
                curve.forecast(it);
            }
        }
        assert!(curve.forecasts.len() <= POINTS_MAX);
    }
}
