//! How a job really trains: epochs of the profile's batch sizes at the measured throughputs.

use crate::simulator::workload::WorkloadJob;

/// Positions nearer than this to a whole epoch are that epoch.
const WHOLE: f64 = 1e-9;

/// A job's true course. Positions are epochs, whole and part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life<'a>(pub(super) &'a WorkloadJob);

impl Life<'_> {
    /// Epochs in all.
    pub(super) fn epochs(self) -> u32 {
        self.0.spec.epochs_total
    }

    /// The epoch that goes on at a position.
    pub(super) fn epoch_at(position: f64) -> u32 {
        (position + WHOLE).floor().max(0.0) as u32
    }

    /// A position in an epoch, which at most ends: what is nearer than rounding to the end is the
    /// end, for a gang that resumes there takes the epoch as trained.
    pub(super) fn settled(position: f64, epoch: u32) -> f64 {
        let end = f64::from(epoch + 1);
        if position + WHOLE >= end { end } else { position }
    }

    /// Batch size of an epoch, samples.
    pub(super) fn batch(self, epoch: u32) -> u32 {
        self.0.profiled_batch(epoch)
    }

    /// Duration of an epoch on the whole gang, seconds; the part batch at its end counts in
    /// proportion, as in the exclusive run time.
    pub(super) fn epoch_s(self, epoch: u32) -> f64 {
        let batch = self.batch(epoch);
        let steps = self.0.spec.samples_per_epoch as f64 / f64::from(batch);
        steps / self.0.speed(batch).unwrap_or(f64::INFINITY)
    }

    /// Optimiser steps in a state at a position.
    pub(super) fn steps(self, position: f64) -> u64 {
        let mut steps = 0.0;
        self.each_segment(position, |batch, epochs| {
            steps += epochs * self.0.steps_per_epoch(batch) as f64;
        });
        steps as u64
    }

    /// Training time from the start to a position, without faults, seconds.
    pub(super) fn seconds(self, position: f64) -> f64 {
        let mut seconds = 0.0;
        self.each_segment(position, |batch, epochs| {
            let steps = self.0.spec.samples_per_epoch as f64 / f64::from(batch);
            seconds += epochs * steps / self.0.speed(batch).unwrap_or(f64::INFINITY);
        });
        seconds
    }

    /// Batch size and epochs of each segment of the profile up to a position.
    fn each_segment(self, position: f64, mut add: impl FnMut(u32, f64)) {
        let ends = self.0.schedule.iter().skip(1).map(|segment| segment.0);
        let ends = ends.chain([self.epochs()]);
        for ((from, batch), to) in self.0.schedule.iter().zip(ends) {
            let epochs = position.min(f64::from(to)) - f64::from(*from);
            if epochs > 0.0 {
                add(*batch, epochs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saving a hair before the end of an epoch and resuming there leaves nothing untrained.
    #[test]
    fn where_a_gang_stops_is_where_it_resumes() {
        for epoch in [0, 7, 359, 1_000_000] {
            for hair in [0.0, 5.6e-12, 9e-10, 1e-3, 0.5] {
                let position = Life::settled(f64::from(epoch + 1) - hair, epoch);
                let resumes = Life::epoch_at(position);
                assert!(f64::from(resumes) <= position, "{position} resumes at {resumes}");
            }
            assert_eq!(Life::settled(f64::from(epoch + 1) + 1e-3, epoch), f64::from(epoch + 1));
        }
    }
}
