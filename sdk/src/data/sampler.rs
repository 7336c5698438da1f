//! The order of the samples in an epoch: a permutation that depends on the seed and the epoch only.
//!
//! The position is counted in samples, so it survives a change of the batch size, and a resumed run goes on with exactly
//! the samples that the interrupted one had not seen.

use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Error;

/// Separates the streams that are derived from one seed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Order = 1,
    Step = 2,
    Augment = 3,
}

/// A generator for (`seed`, `stream`, `a`, `b`): independent streams without any state to save.
pub(crate) fn rng(seed: u64, stream: Stream, a: u64, b: u64) -> ChaCha8Rng {
    let mut key = [0u8; 32];
    for (chunk, word) in key.chunks_exact_mut(8).zip([seed, stream as u64, a, b]) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

/// The seed of libtorch's generators for one step. Reseeding each step makes the state of the generators, which tch can
/// neither read nor write, a function of the step number.
/// Each worker of a data parallel run has its own: dropout must not repeat itself over the shares of a batch.
pub(crate) fn step_seed(seed: u64, step: u64, rank: usize) -> i64 {
    rng(seed, Stream::Step, step, rank as u64).next_u64() as i64
}

/// The source of a data set's random choices in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// The session's seed.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
}

impl Draw {
    /// The generator for the sample with index `sample`.
    pub fn rng(&self, sample: usize) -> ChaCha8Rng {
        rng(self.seed, Stream::Augment, self.epoch, sample as u64)
    }
}

/// The samples of one epoch in their order, and how many have been handed out.
#[derive(Debug, Clone)]
pub struct Sampler {
    seed: u64,
    shuffle: bool,
    order: Vec<usize>,
    cursor: usize,
}

impl Sampler {
    /// A sampler over `len` samples, at the start of epoch 0.
    ///
    /// # Errors
    /// [`Error::Data`] when there are no samples.
    pub fn new(len: usize, seed: u64, shuffle: bool) -> Result<Self, Error> {
        if len == 0 {
            return Err(Error::Data(
                "the training data set is empty; it needs at least one sample".into(),
            ));
        }
        let mut sampler = Self { seed, shuffle, order: (0..len).collect(), cursor: 0 };
        sampler.seek(0, 0);
        Ok(sampler)
    }

    /// Goes to sample number `cursor` of `epoch` (both from 0).
    pub fn seek(&mut self, epoch: u64, cursor: usize) {
        if self.shuffle {
            for (i, slot) in self.order.iter_mut().enumerate() {
                *slot = i;
            }
            self.order.shuffle(&mut rng(self.seed, Stream::Order, epoch, 0));
        }
        self.cursor = cursor.min(self.order.len());
    }

    /// Samples in an epoch.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Never: a sampler has at least one sample.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Samples handed out in this epoch.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The next at most `n` samples of this epoch, without moving on; empty at its end.
    pub fn peek(&self, n: usize) -> &[usize] {
        let end = self.cursor.saturating_add(n).min(self.order.len());
        &self.order[self.cursor..end]
    }

    /// The `n` samples (fewer at the end) that come after `skipped` further ones, without moving on.
    pub fn peek_after(&self, skipped: usize, n: usize) -> &[usize] {
        let start = self.cursor.saturating_add(skipped).min(self.order.len());
        &self.order[start..start.saturating_add(n).min(self.order.len())]
    }

    /// Moves on by `n` samples.
    pub fn advance(&mut self, n: usize) {
        self.cursor = self.cursor.saturating_add(n).min(self.order.len());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_sample_once_whatever_the_batch_sizes(
            len in 1usize..300, seed: u64, epoch in 0u64..50, sizes in prop::collection::vec(1usize..70, 1..20),
        ) {
            let mut sampler = Sampler::new(len, seed, true).unwrap();
            sampler.seek(epoch, 0);
            let mut seen = Vec::new();
            for size in sizes.iter().cycle() {
                // A resume at any point: a fresh sampler that is told epoch and position.
                let mut fresh = Sampler::new(len, seed, true).unwrap();
                fresh.seek(epoch, sampler.cursor());
                prop_assert_eq!(fresh.peek(*size), sampler.peek(*size));
                let part = sampler.peek(*size).to_vec();
                if part.is_empty() { break; }
                sampler.advance(part.len());
                seen.extend(part);
            }
            let mut sorted = seen.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn epochs_and_seeds_differ_and_no_shuffle_keeps_the_order() {
        let order = |seed, epoch, shuffle| {
            let mut s = Sampler::new(100, seed, shuffle).unwrap();
            s.seek(epoch, 0);
            s.peek(100).to_vec()
        };
        assert_ne!(order(1, 0, true), order(1, 1, true));
        assert_ne!(order(1, 0, true), order(2, 0, true));
        assert_eq!(order(1, 3, true), order(1, 3, true));
        assert_eq!(order(1, 3, false), (0..100).collect::<Vec<_>>());
        assert!(Sampler::new(0, 1, true).is_err());
    }

    #[test]
    fn step_seeds_are_distinct() {
        let seeds: std::collections::HashSet<i64> =
            (0..10_000).map(|s| step_seed(7, s / 4, s as usize % 4)).collect();
        assert_eq!(seeds.len(), 10_000);
    }
}
