//! Loss scaling (Micikevicius et al., "Mixed precision training", 2018).

use crate::Error;

/// The factor on the loss before the backward pass; gradients are divided by it afterwards.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum LossScale {
    /// No factor: right for single precision and bf16, which has the same exponents.
    #[default]
    None,
    /// Always this factor.
    Fixed(f64),
    /// Halved by each step whose gradient is not finite, doubled after `growth_interval` finite ones in a row.
    Dynamic {
        /// The factor at the start.
        initial: f64,
        /// Finite steps in a row before it doubles.
        growth_interval: u64,
    },
}

/// A dynamic factor stays within these: below 1 it would do harm, above it single precision overflows.
pub(super) const SCALE_BOUNDS: (f64, f64) = (1.0, 16_777_216.0);

impl LossScale {
    /// PyTorch's usual one for fp16: from 65536, doubling after 2000 finite steps.
    #[must_use]
    pub fn dynamic() -> Self {
        Self::Dynamic { initial: 65_536.0, growth_interval: 2000 }
    }

    /// The factor at the start.
    pub(super) fn initial(self) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Fixed(factor) => factor,
            Self::Dynamic { initial, .. } => initial,
        }
    }

    pub(super) fn check(self) -> Result<(), Error> {
        let factor = self.initial();
        let (low, high) = SCALE_BOUNDS;
        if !(factor >= low && factor <= high) {
            let expected = format!("a number from {low} to {high}");
            return Err(Error::invalid("the loss scale", factor, expected));
        }
        if let Self::Dynamic { growth_interval: 0, .. } = self {
            return Err(Error::invalid("the loss scale's growth interval", 0, "at least one step"));
        }
        Ok(())
    }
}
