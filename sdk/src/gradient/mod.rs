//! What happens to the gradient between the backward passes and the optimiser: unscaling, skipping, clipping.
//!
//! All of it stays on the device. Whether a step is skipped is a number there, which the optimiser multiplies by; the
//! host learns how many were skipped with the numbers that it reads anyway, once per epoch or decision.

mod control;
mod scale;

pub(crate) use control::{Control, ControlState, Settled};
pub use scale::LossScale;

use tch::Tensor;

use crate::Error;

/// What is done to the gradient of each step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GradientSettings {
    /// Largest L2 norm of the whole gradient: a longer one is shortened to it (Pascanu et al. 2013), as PyTorch's
    /// `clip_grad_norm_` does. `None` (the default): never. What policies and metrics see is not clipped.
    pub clip_norm: Option<f64>,
    /// Whether a step whose gradient is not finite is left out: parameters and moments stay as they are, and the step's
    /// loss is not counted (default false). Always so with a loss scale.
    pub skip_non_finite: bool,
    /// The factor on the loss that keeps small gradients from vanishing in half precision (default none).
    pub loss_scale: LossScale,
}

impl GradientSettings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(norm) = self.clip_norm.filter(|norm| !(*norm > 0.0 && norm.is_finite())) {
            return Err(Error::invalid("the norm to clip gradients to", norm, "a number above 0"));
        }
        self.loss_scale.check()
    }

    /// Whether steps with a gradient that is not finite are left out.
    fn skips(&self) -> bool {
        self.skip_non_finite || self.loss_scale != LossScale::None
    }
}

/// Whether a step is taken, known only on the device: what an optimiser gets when steps may be skipped.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// 1 when the step is to be taken; 0 when parameters and moments must stay as they are (the gradients are 0 then).
    /// A scalar in double precision.
    pub open: &'a Tensor,
    /// Steps taken so far, with this one if it is taken: a scalar in double precision.
    pub taken: &'a Tensor,
}
