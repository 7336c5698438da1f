//! Predictors by name.

use super::{Agnostic, Bayes, Greedy, Hierarchical, Predictor, Profile, Restatement};

/// Names of all predictors, as on the command line.
pub const NAMES: [&str; 5] = ["hierarchical", "restatement", "bayes", "greedy", "agnostic"];

/// The predictor that is used unless another is asked for.
pub const DEFAULT: &str = NAMES[0];

/// A predictor that does not exist.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("there is no predictor {got:?}, expected one of {}", NAMES.join(", "))]
pub struct UnknownPredictor {
    /// The name that was given.
    pub got: String,
}

/// The predictor called `name`, with step times that were measured beforehand
/// ([`Profile::default`] when there are none).
///
/// # Errors
/// [`UnknownPredictor`] when there is none of that name.
pub fn by_name(name: &str, profile: Profile) -> Result<Box<dyn Predictor>, UnknownPredictor> {
    match name {
        "hierarchical" => Ok(Box::new(Hierarchical::new(profile))),
        "restatement" => Ok(Box::new(Restatement::new(profile))),
        "bayes" => Ok(Box::new(Bayes::new(profile))),
        "greedy" => Ok(Box::new(Greedy::new(profile))),
        "agnostic" => Ok(Box::new(Agnostic::new(profile))),
        _ => Err(UnknownPredictor { got: name.to_owned() }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        for name in NAMES {
            assert_eq!(by_name(name, Profile::default()).unwrap().name(), name);
        }
        let error = by_name("oracle", Profile::default()).err().unwrap();
        assert!(error.to_string().contains("restatement"));
    }
}
