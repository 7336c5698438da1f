//! Accuracy over a test set.

use tch::Tensor;

/// Counts right answers.
#[derive(Debug, Default)]
pub struct Accuracy {
    right: i64,
    seen: usize,
}

impl Accuracy {
    /// Counts a batch: logits `[N, classes]`, classes `[N]`.
    pub fn add(&mut self, logits: &Tensor, classes: &Tensor) {
        let right = logits.argmax(-1, false).eq_tensor(classes).sum(tch::Kind::Int64);
        self.right += right.int64_value(&[]);
        self.seen += classes.size().first().map_or(0, |count| *count as usize);
    }

    /// The share of right answers, 0..=1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.right as f64 / self.seen.max(1) as f64
    }
}
