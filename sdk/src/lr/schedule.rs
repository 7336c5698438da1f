//! Schedules of the learning rate over epochs, with fractions: the position counts samples.

use std::f64::consts::PI;

use crate::Error;

/// The factor on the base learning rate as a function of the epoch (with its fraction), before the batch rule.
#[non_exhaustive]
pub enum Schedule {
    /// Always 1.
    Constant,
    /// From each epoch on, the factor beside it (1 before the first).
    Step(Vec<(f64, f64)>),
    /// Half a cosine from 1 to `floor` over `epochs` epochs, then `floor`.
    Cosine {
        /// Length in epochs.
        epochs: f64,
        /// The last factor.
        floor: f64,
    },
    /// A user's own function of the epoch.
    User(Box<dyn Fn(f64) -> f64 + Send>),
}

impl Schedule {
    /// A user's own function of the epoch (with its fraction) to the factor.
    pub fn user(factor: impl Fn(f64) -> f64 + Send + 'static) -> Self {
        Self::User(Box::new(factor))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Step(points) => {
                if points.windows(2).any(|w| w[1].0 <= w[0].0) {
                    let epochs: Vec<f64> = points.iter().map(|p| p.0).collect();
                    let got = format!("{epochs:?}");
                    return Err(Error::invalid(
                        "the learning-rate steps' epochs",
                        got,
                        "rising epochs",
                    ));
                }
                if let Some(p) = points.iter().find(|p| !(p.1 >= 0.0 && p.1.is_finite())) {
                    return Err(Error::invalid("a learning-rate factor", p.1, "zero or more"));
                }
                Ok(())
            }
            Self::Cosine { epochs, .. } if !(*epochs > 0.0 && epochs.is_finite()) => {
                Err(Error::invalid("the cosine's length in epochs", epochs, "a number above 0"))
            }
            _ => Ok(()),
        }
    }

    /// The factor at `epoch`.
    pub(super) fn factor(&self, epoch: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Step(points) => {
                points.iter().take_while(|p| p.0 <= epoch).last().map_or(1.0, |p| p.1)
            }
            Self::Cosine { epochs, floor } => {
                let x = (epoch / epochs).min(1.0);
                floor + (1.0 - floor) * 0.5 * (1.0 + (PI * x).cos())
            }
            Self::User(factor) => factor(epoch),
        }
    }
}
