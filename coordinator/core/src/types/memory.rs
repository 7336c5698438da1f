//! What policies and predictors remember across a restart.

/// A memory that cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory of {owner} cannot be read: {why}")]
pub struct MemoryError {
    /// The policy or predictor that was asked to take it over.
    pub owner: String,
    /// What is wrong with it.
    pub why: String,
}

impl MemoryError {
    /// An error of `owner`'s.
    #[must_use]
    pub fn new(owner: &str, why: impl ToString) -> Self {
        Self { owner: owner.to_owned(), why: why.to_string() }
    }
}
