//! The batch sizes that a growing policy may use: rungs from the smallest to the largest.

use super::PolicyDeclaration;

/// A finite, ascending list of batch sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ladder {
    rungs: Vec<u64>,
}

impl Ladder {
    /// Rungs from `first` by the factor `factor` (above 1) below `last`, and `last` itself.
    pub(super) fn new(first: u64, last: u64, factor: f64) -> Self {
        let mut rungs = Vec::new();
        let mut rung = first.max(1);
        while rung < last {
            rungs.push(rung);
            // At least one more sample, so that a small factor on a small batch comes to an end.
            rung = ((rung as f64 * factor).round() as u64).max(rung + 1);
        }
        rungs.push(last.max(first).max(1));
        Self { rungs }
    }

    #[cfg(test)]
    pub(super) fn rungs(&self) -> &[u64] {
        &self.rungs
    }

    /// What a policy of kind `kind` on this ladder says beforehand, within the sizes `from` and `to`.
    pub(super) fn declaration(
        &self,
        kind: &str,
        (from, to): (u64, u64),
        can_shrink: bool,
    ) -> PolicyDeclaration {
        PolicyDeclaration {
            kind: kind.to_owned(),
            initial: from,
            configurations: self.rungs.clone(),
            min: from,
            max: to,
            can_shrink,
            schedule: Vec::new(),
        }
    }

    /// The largest rung of at most `limit` samples.
    pub(super) fn fit(&self, limit: f64) -> Option<u64> {
        self.rungs.iter().copied().filter(|&rung| rung as f64 <= limit).max()
    }

    /// The rung above `batch`, or the last.
    pub(super) fn above(&self, batch: u64) -> u64 {
        let above = self.rungs.iter().copied().find(|&rung| rung > batch);
        above.unwrap_or_else(|| self.rungs.last().copied().unwrap_or(batch).max(batch))
    }

    /// The rung below `batch`, or the first.
    pub(super) fn below(&self, batch: u64) -> u64 {
        let below = self.rungs.iter().copied().rfind(|&rung| rung < batch);
        below.unwrap_or_else(|| self.rungs.first().copied().unwrap_or(batch).min(batch))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rungs_double_up_to_the_last() {
        assert_eq!(Ladder::new(16, 256, 2.0).rungs(), [16, 32, 64, 128, 256]);
        assert_eq!(Ladder::new(16, 100, 2.0).rungs(), [16, 32, 64, 100]);
        assert_eq!(Ladder::new(7, 7, 2.0).rungs(), [7]);
        assert_eq!(Ladder::new(1, 5, 1.1).rungs(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn neighbours_and_the_largest_that_fits() {
        let ladder = Ladder::new(16, 100, 2.0);
        assert_eq!((ladder.above(16), ladder.above(100), ladder.above(40)), (32, 100, 64));
        assert_eq!((ladder.below(100), ladder.below(16), ladder.below(40)), (64, 16, 32));
        assert_eq!(
            (ladder.fit(63.9), ladder.fit(15.0), ladder.fit(f64::INFINITY)),
            (Some(32), None, Some(100))
        );
    }
}
