//! Time spent in training, without evaluation, waiting and restarts.

use std::time::Instant;

/// Adds up the time between starts and stops.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    seconds: f64,
    running_since: Option<Instant>,
}

impl Stopwatch {
    /// Starts, if it does not run.
    pub(crate) fn start(&mut self) {
        self.running_since.get_or_insert_with(Instant::now);
    }

    /// Stops, if it runs.
    pub(crate) fn stop(&mut self) {
        self.seconds = self.seconds();
        self.running_since = None;
    }

    /// Sets the time, without starting or stopping.
    pub(crate) fn set(&mut self, seconds: f64) {
        self.seconds = seconds;
        self.running_since = self.running_since.map(|_| Instant::now());
    }

    /// The time so far, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds + self.running_since.map_or(0.0, |since| since.elapsed().as_secs_f64())
    }
}
