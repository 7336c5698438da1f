//! How long each regime lasts: the Dirichlet prior and its two update rules (section 5).

/// A Dirichlet distribution over the fractions of a job's epochs that its regimes take.
#[derive(Clone, Debug, PartialEq)]
pub struct Dirichlet {
    parameters: Vec<f64>,
}

impl Dirichlet {
    /// The paper's prior Dir(N/K, ..., N/K) of a job of `epochs` (N) and `regimes` (K, at least 1).
    #[must_use]
    pub fn prior(epochs: f64, regimes: usize) -> Self {
        let regimes = regimes.max(1);
        Self { parameters: vec![epochs / regimes as f64; regimes] }
    }

    /// The parameters, in epochs.
    #[must_use]
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// The standard Bayesian update, which takes observed epochs for independent draws: each
    /// observed epoch adds 1 to its regime's parameter.
    #[must_use]
    pub fn updated(&self, observed_epochs: &[f64]) -> Self {
        let seen = observed_epochs.iter().copied().chain(std::iter::repeat(0.0));
        Self { parameters: self.parameters.iter().zip(seen).map(|(a, m)| a + m).collect() }
    }

    /// The paper's restatement rule for N `epochs` and K `regimes` of which `finished` lasted
    /// m_1, ..., m_k: Dir(m_1, ..., m_k, S_k, ..., S_k) with S_k = (N - sum m) / (K - k).
    #[must_use]
    pub fn restated(epochs: f64, regimes: usize, finished: &[f64]) -> Self {
        let ahead = regimes.saturating_sub(finished.len()).max(1);
        let share = (epochs - finished.iter().sum::<f64>()).max(0.0) / ahead as f64;
        let mut parameters = finished.to_vec();
        parameters.extend(std::iter::repeat_n(share, ahead));
        Self { parameters }
    }

    /// Expected fractions: parameters over their sum.
    #[must_use]
    pub fn mean(&self) -> Vec<f64> {
        let sum: f64 = self.parameters.iter().sum();
        if sum > 0.0 {
            self.parameters.iter().map(|a| a / sum).collect()
        } else {
            vec![1.0 / self.parameters.len() as f64; self.parameters.len()]
        }
    }
}

/// Expected epochs left in the ongoing and each later regime under the restatement rule.
///
/// `rest` = N minus the epochs of finished regimes; `elapsed` of them belong to the ongoing regime;
/// `ahead` = K - k regimes share them. Once the ongoing regime outlasts its share S_k, what is left
/// is split evenly again, since it is ongoing still.
#[must_use]
pub fn restated_epochs_left(rest: f64, elapsed: f64, ahead: usize) -> Vec<f64> {
    let count = ahead.max(1);
    let share = rest / count as f64;
    let left = (rest - elapsed).max(0.0);
    if elapsed <= share {
        let mut epochs = vec![share; count];
        epochs[0] = share - elapsed;
        epochs
    } else {
        vec![left / count as f64; count]
    }
}

/// Expected epochs left in the ongoing and each later regime under the standard Bayesian update.
///
/// `seen` holds the epochs of every regime so far, the ongoing one last; `ahead` counts the ongoing
/// and later ones. What the posterior mean leaves to finished regimes cannot be, so the rest of the
/// job is shared among the others in proportion.
#[must_use]
pub fn bayes_epochs_left(epochs: f64, seen: &[f64], ahead: usize) -> Vec<f64> {
    let ahead = ahead.max(1);
    let finished = seen.len().saturating_sub(1);
    let posterior = Dirichlet::prior(epochs, finished + ahead).updated(seen);
    let observed = seen.iter().copied().chain(std::iter::repeat(0.0));
    let left = (epochs - seen.iter().sum::<f64>()).max(0.0);
    let expected: Vec<f64> = posterior
        .mean()
        .iter()
        .zip(observed)
        .skip(finished)
        .map(|(fraction, m)| (fraction * epochs - m).max(0.0))
        .collect();
    let sum: f64 = expected.iter().sum();
    if sum > 0.0 {
        expected.iter().map(|e| e * left / sum).collect()
    } else {
        let mut all = vec![0.0; ahead];
        all[ahead - 1] = left;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restatement_of_the_paper_by_hand() {
        // N = 100, K = 3: before anything ended, 33.3 each; after a first regime of 20 epochs the
        // other two are restated to 40 each; after 20 and 60, the last one takes 20.
        assert_eq!(Dirichlet::prior(90.0, 3).parameters(), [30.0, 30.0, 30.0]);
        assert_eq!(Dirichlet::restated(100.0, 3, &[20.0]).parameters(), [20.0, 40.0, 40.0]);
        assert_eq!(Dirichlet::restated(100.0, 3, &[20.0, 60.0]).parameters(), [20.0, 60.0, 20.0]);
        assert_eq!(Dirichlet::restated(100.0, 3, &[20.0, 60.0]).mean(), [0.2, 0.6, 0.2]);
    }

    #[test]
    fn standard_update_adds_counts() {
        let posterior = Dirichlet::prior(100.0, 4).updated(&[20.0]);
        assert_eq!(posterior.parameters(), [45.0, 25.0, 25.0, 25.0]);
        assert_eq!(posterior.mean()[0], 45.0 / 120.0);
    }

    #[test]
    fn ongoing_regime_keeps_its_elapsed_epochs() {
        assert_eq!(restated_epochs_left(100.0, 10.0, 4), [15.0, 25.0, 25.0, 25.0]);
        assert_eq!(restated_epochs_left(100.0, 40.0, 4), [15.0, 15.0, 15.0, 15.0]);
        assert_eq!(restated_epochs_left(100.0, 100.0, 1), [0.0]);
    }

    #[test]
    fn standard_update_by_hand() {
        // N = 100, K = 2, 20 epochs seen in the first: (50 + 20, 50) / 120 -> 58.3 and 41.7 of 100.
        // Left: 38.3 and 41.7, which add up to the 80 that are left.
        let left = bayes_epochs_left(100.0, &[20.0], 2);
        assert!((left[0] - (100.0 * 70.0 / 120.0 - 20.0)).abs() < 1e-12);
        assert!((left[1] - 100.0 * 50.0 / 120.0).abs() < 1e-12);
    }

    #[test]
    fn both_rules_start_from_the_prior() {
        assert_eq!(restated_epochs_left(100.0, 0.0, 2), bayes_epochs_left(100.0, &[], 2));
    }
}
