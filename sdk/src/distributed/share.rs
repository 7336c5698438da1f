//! Which part of a batch each worker takes.

use std::ops::Range;

/// The part of `samples` samples that worker `rank` of `size` takes: consecutive, sizes differ by at most one, all
/// parts together are all samples. Empty when there are fewer samples than workers before it.
///
/// # Panics
/// Never: a `size` of 0 counts as 1.
#[must_use]
pub fn share(samples: usize, rank: usize, size: usize) -> Range<usize> {
    let size = size.max(1);
    let (each, more) = (samples / size, samples % size);
    // The first `more` workers take one sample more.
    let start = rank * each + rank.min(more);
    start..start + each + usize::from(rank < more)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::share;

    proptest! {
        #[test]
        fn shares_are_all_samples_once(samples in 0usize..500, size in 1usize..20) {
            let parts: Vec<_> = (0..size).map(|rank| share(samples, rank, size)).collect();
            let all: Vec<usize> = parts.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..samples).collect::<Vec<_>>());
            let lengths = parts.iter().map(ExactSizeIterator::len);
            prop_assert!(lengths.clone().max().unwrap_or(0) - lengths.min().unwrap_or(0) <= 1);
        }
    }
}
