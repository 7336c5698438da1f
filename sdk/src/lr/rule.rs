//! How the learning rate follows the batch size.

/// A user's rule: (batch size, reference batch size) to the factor on the base rate.
type UserRule = Box<dyn Fn(u64, u64) -> f64 + Send>;

/// The factor on the learning rate at a batch size, against the reference batch size.
#[non_exhaustive]
pub enum BatchRule {
    /// The rate does not follow the batch size.
    None,
    /// In proportion (Goyal et al. 2017): valid for SGD while the batch is below the noise scale.
    Linear,
    /// With the square root (Krizhevsky 2014; the usual rule for Adam, Malladi et al. 2022).
    Sqrt,
    /// AdaScale's gain (Johnson et al. 2020): `r = (B_noise/B0 + 1) / (B_noise/B + 1)`, between 1 and linear. Linear
    /// while the noise scale is not known.
    AdaScale,
    /// A user's own rule.
    User(UserRule),
}

impl BatchRule {
    /// A user's own rule: (batch size, reference batch size) to the factor on the base rate.
    pub fn user(rule: impl Fn(u64, u64) -> f64 + Send + 'static) -> Self {
        Self::User(Box::new(rule))
    }

    /// The factor at `batch`, with the noise scale in samples if it is known.
    pub(crate) fn factor(&self, batch: u64, reference: u64, noise: Option<f64>) -> f64 {
        let ratio = batch as f64 / reference as f64;
        match self {
            Self::None => 1.0,
            Self::Linear => ratio,
            Self::Sqrt => ratio.sqrt(),
            Self::AdaScale => match noise {
                Some(noise) if noise.is_finite() => gain(noise, batch as f64, reference as f64),
                _ => ratio,
            },
            Self::User(rule) => rule(batch, reference),
        }
    }
}

/// AdaScale's gain ratio of `batch` over `reference` samples at the noise scale `noise`.
pub(crate) fn gain(noise: f64, batch: f64, reference: f64) -> f64 {
    (noise / reference + 1.0) / (noise / batch + 1.0)
}
