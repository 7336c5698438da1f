//! Weighted selection: the price at which demand meets capacity, without sorting.

/// What the steepest edges up to the capacity give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Threshold {
    /// Slope of the edge that no longer fits whole; 0 when everything fits.
    pub(super) price: f64,
    /// Cost of all edges steeper than the price.
    pub(super) cost: u64,
    /// Gain of all edges steeper than the price.
    pub(super) gain: f64,
}

/// Finds the price for `edges` of (slope, cost); reorders them. Linear on average.
pub(super) fn threshold(edges: &mut [(f64, u32)], capacity: u64) -> Threshold {
    let mut found = Threshold { price: 0.0, cost: 0, gain: 0.0 };
    let mut rest = edges;
    while !rest.is_empty() {
        let pivot = pivot(rest);
        let (steeper, equal) = partition(rest, pivot);
        let (cost, gain) = total(&rest[..steeper]);
        if found.cost + cost > capacity {
            rest = &mut rest[..steeper];
            continue;
        }
        found.cost += cost;
        found.gain += gain;
        let (cost, gain) = total(&rest[steeper..equal]);
        if found.cost + cost > capacity {
            found.price = pivot;
            return found;
        }
        found.cost += cost;
        found.gain += gain;
        rest = &mut rest[equal..];
    }
    found
}

fn total(edges: &[(f64, u32)]) -> (u64, f64) {
    edges.iter().fold((0, 0.0), |(cost, gain), &(slope, c)| {
        (cost + u64::from(c), gain + slope * f64::from(c))
    })
}

/// Median of nine spread over the slice (of all, for short ones).
fn pivot(edges: &[(f64, u32)]) -> f64 {
    let mut sample = [0.0; 9];
    let count = edges.len().min(9);
    for (i, slot) in sample[..count].iter_mut().enumerate() {
        *slot = edges[i * (edges.len() - 1) / (count - 1).max(1)].0;
    }
    sample[..count].sort_unstable_by(f64::total_cmp);
    sample[count / 2]
}

/// Reorders into steeper than, equal to and flatter than `pivot`; returns the two boundaries.
fn partition(edges: &mut [(f64, u32)], pivot: f64) -> (usize, usize) {
    let (mut steeper, mut next, mut flatter) = (0, 0, edges.len());
    while next < flatter {
        if edges[next].0 > pivot {
            edges.swap(steeper, next);
            steeper += 1;
            next += 1;
        } else if edges[next].0 < pivot {
            flatter -= 1;
            edges.swap(next, flatter);
        } else {
            next += 1;
        }
    }
    (steeper, flatter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_sorting(
            raw in prop::collection::vec((0_u8..20, 1_u32..9), 0..60),
            capacity in 0_u64..300,
        ) {
            let mut edges: Vec<_> = raw.iter().map(|&(s, c)| (f64::from(s) + 0.5, c)).collect();
            let mut sorted = edges.clone();
            sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
            let found = threshold(&mut edges, capacity);
            let whole: u64 = sorted.iter().map(|e| u64::from(e.1)).sum();
            if whole <= capacity {
                prop_assert_eq!(found.price, 0.0);
                prop_assert_eq!(found.cost, whole);
            } else {
                let steeper: u64 =
                    sorted.iter().filter(|e| e.0 > found.price).map(|e| u64::from(e.1)).sum();
                let with_equal: u64 =
                    sorted.iter().filter(|e| e.0 >= found.price).map(|e| u64::from(e.1)).sum();
                prop_assert_eq!(found.cost, steeper);
                prop_assert!(steeper <= capacity && capacity < with_equal);
            }
        }
    }
}
