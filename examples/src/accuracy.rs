//! Right answers over a test set.

use tch::{Kind, Tensor};

/// Counts right answers.
#[derive(Debug, Default)]
pub struct Accuracy {
    right: i64,
    seen: usize,
}

impl Accuracy {
    /// Counts a batch: logits `[.., classes]`, classes `[..]`.
    pub fn add(&mut self, logits: &Tensor, classes: &Tensor) {
        self.count(&logits.argmax(-1, false).eq_tensor(classes));
    }

    /// Counts how often the first of several candidates is among the best ten: scores `[N, candidates]`.
    pub fn add_ranked(&mut self, scores: &Tensor) {
        let better = scores.gt_tensor(&scores.narrow(1, 0, 1));
        let rank = better.sum_dim_intlist([1i64].as_slice(), false, Kind::Int64);
        self.count(&rank.lt(10));
    }

    fn count(&mut self, right: &Tensor) {
        self.right += right.sum(Kind::Int64).int64_value(&[]);
        self.seen += right.numel();
    }

    /// The share of right answers, 0..=1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.right as f64 / self.seen.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_below_ten_are_hits() {
        let mut hits = Accuracy::default();
        // The first candidate is better than all but 9, and than all but 10, of twenty.
        let row = |first: f64| {
            let rest = (0..20).map(f64::from);
            std::iter::once(first).chain(rest).collect::<Vec<_>>()
        };
        hits.add_ranked(&Tensor::from_slice2(&[row(10.5), row(9.5)]));
        assert_eq!(hits.share(), 0.5);
    }
}
