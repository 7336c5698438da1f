//! How contended the cluster has been: the factors of eq. 9 and of finish-time fairness.

use serde::{Deserialize, Serialize};

/// Contention (jobs over GPUs, at least 1) over time: its integral, and its maximum since any
/// moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Contention {
    value: f64,
    since_s: f64,
    integral: f64,
    /// `(from, value)`: the maximum from any moment at or after `from` and before the next entry's
    /// `from` until now is `value`. Values fall.
    maxima: Vec<(f64, f64)>,
}

/// One job's share of it: only the time in which it is active counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// When the open stretch began, with the integral at that time.
    open: Option<(f64, f64)>,
    integral: f64,
    active_s: f64,
    max: f64,
}

impl Contention {
    /// The value changes. Without devices it stays as it was.
    pub(super) fn set(&mut self, now_s: f64, jobs: usize, gpus: u32) {
        if gpus == 0 {
            return;
        }
        let value = (jobs as f64 / f64::from(gpus)).max(1.0);
        self.integral = self.integral_at(now_s);
        self.since_s = now_s;
        self.value = value;
        let mut from_s = now_s;
        while let Some(last) = self.maxima.pop_if(|last| last.1 <= value) {
            from_s = last.0;
        }
        self.maxima.push((from_s, value));
    }

    fn integral_at(&self, now_s: f64) -> f64 {
        self.integral + self.value * (now_s - self.since_s).max(0.0)
    }

    fn max_since(&self, from_s: f64) -> f64 {
        let after = self.maxima.partition_point(|entry| entry.0 <= from_s);
        self.maxima.get(after.saturating_sub(1)).map_or(1.0, |entry| entry.1)
    }
}

impl Seen {
    /// The job becomes active.
    pub(super) fn open(&mut self, now_s: f64, contention: &Contention) {
        if self.open.is_none() {
            self.open = Some((now_s, contention.integral_at(now_s)));
        }
    }

    /// The job is not active any more (held, ended).
    pub(super) fn close(&mut self, now_s: f64, contention: &Contention) {
        if let Some((from_s, integral)) = self.open.take() {
            self.integral += contention.integral_at(now_s) - integral;
            self.active_s += (now_s - from_s).max(0.0);
            self.max = self.max.max(contention.max_since(from_s));
        }
    }

    /// Time in which it was active, seconds.
    pub(super) fn active_s(&self, now_s: f64) -> f64 {
        self.active_s + self.open.map_or(0.0, |(from_s, _)| (now_s - from_s).max(0.0))
    }

    /// Mean over the active time, at least 1.
    pub(super) fn mean(&self, now_s: f64, contention: &Contention) -> f64 {
        let open = self.open.map_or(0.0, |(_, from)| contention.integral_at(now_s) - from);
        let active_s = self.active_s(now_s);
        if active_s > 0.0 {
            ((self.integral + open) / active_s).max(1.0)
        } else {
            contention.value.max(1.0)
        }
    }

    /// Maximum over the active time, at least 1.
    pub(super) fn max(&self, contention: &Contention) -> f64 {
        let open = self.open.map_or(1.0, |(from_s, _)| contention.max_since(from_s));
        self.max.max(open).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain replay of all values.
        #[test]
        fn mean_and_maximum(values in proptest::collection::vec(0_usize..40, 1..30), from in 0_usize..30) {
            let mut contention = Contention::default();
            let mut seen = Seen::default();
            let from = from.min(values.len() - 1);
            for (time, jobs) in values.iter().enumerate() {
                contention.set(time as f64, *jobs, 4);
                if time == from {
                    seen.open(time as f64, &contention);
                }
            }
            let active: Vec<f64> = values[from..].iter().map(|jobs| (*jobs as f64 / 4.0).max(1.0)).collect();
            let mean = active.iter().sum::<f64>() / active.len() as f64;
            let max = active.iter().copied().fold(1.0, f64::max);
            let end_s = values.len() as f64;
            prop_assert!((seen.mean(end_s, &contention) - mean).abs() < 1e-9);
            prop_assert_eq!(seen.max(&contention), max);
            seen.close(end_s, &contention);
            contention.set(end_s, 400, 4);
            prop_assert!((seen.mean(end_s + 9.0, &contention) - mean).abs() < 1e-9);
            prop_assert_eq!(seen.max(&contention), max);
        }
    }
}
