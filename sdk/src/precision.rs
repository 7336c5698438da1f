//! Mixed precision: libtorch's own autocast, on the CPU and on GPUs.
//!
//! tch offers it for CUDA only and without a choice of the kind. Variables, gradients and moments stay in single
//! precision; matrix products and convolutions of the forward pass (and of its backward) compute in half precision.

use std::ffi::c_int;

use tch::Device;

use crate::Error;
use crate::gradient::LossScale;
use crate::shim;

/// The kind in which a session computes the forward pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precision {
    /// That of the variables.
    #[default]
    Full,
    /// bf16 where libtorch's autocast uses it: the exponents of single precision, so no loss scale is needed.
    Bf16,
    /// fp16 where libtorch's autocast uses it, with a dynamic loss scale unless another is set.
    Fp16,
}

impl Precision {
    /// The loss scale that it needs.
    pub(crate) fn loss_scale(self) -> LossScale {
        match self {
            Self::Full | Self::Bf16 => LossScale::None,
            Self::Fp16 => LossScale::dynamic(),
        }
    }
}

/// Autocast on this thread, as long as it lives.
struct Autocast {
    cuda: bool,
    before: c_int,
}

impl Autocast {
    fn begin(fp16: bool, device: Device) -> Result<Self, Error> {
        let cuda = device.is_cuda();
        // SAFETY: plain values.
        let begun =
            shim::call(|error| unsafe { shim::shockwave_autocast_begin(cuda, fp16, error) });
        Ok(Self { cuda, before: begun.map_err(shim::torch)? })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        let (cuda, before) = (self.cuda, self.before);
        // SAFETY: plain values. An error would be one of memory, and changes nothing for whoever drops this.
        let _ = shim::call(|error| unsafe { shim::shockwave_autocast_end(cuda, before, error) });
    }
}

/// Runs `forward` in `precision` on `device`: for evaluation, or for loops that keep the forward pass to themselves. A
/// session does so by itself with the closure of each step.
///
/// # Errors
/// [`Error::Torch`] when libtorch has no autocast for the device.
///
/// ```no_run
/// # use shockwave_sdk::{Error, Precision, with_precision};
/// # fn run(net: impl Fn(&tch::Tensor) -> tch::Tensor, x: tch::Tensor) -> Result<(), Error> {
/// let logits = with_precision(Precision::Bf16, x.device(), || net(&x))?;
/// # Ok(()) }
/// ```
pub fn with_precision<T>(
    precision: Precision,
    device: Device,
    forward: impl FnOnce() -> T,
) -> Result<T, Error> {
    let _autocast = match precision {
        Precision::Full => None,
        Precision::Bf16 => Some(Autocast::begin(false, device)?),
        Precision::Fp16 => Some(Autocast::begin(true, device)?),
    };
    Ok(forward())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tch::{Kind, Tensor};

    use super::*;

    #[test]
    fn products_are_in_half_precision_inside_and_only_there() {
        let a = Tensor::ones([4, 4], (Kind::Float, Device::Cpu));
        let kind = |p| with_precision(p, Device::Cpu, || a.matmul(&a).kind()).unwrap();
        assert_eq!(kind(Precision::Full), Kind::Float);
        assert_eq!(kind(Precision::Bf16), Kind::BFloat16);
        assert_eq!(kind(Precision::Fp16), Kind::Half);
        assert_eq!(a.matmul(&a).kind(), Kind::Float);
        let nested = with_precision(Precision::Bf16, Device::Cpu, || {
            (kind(Precision::Fp16), a.matmul(&a).kind())
        });
        assert_eq!(nested.unwrap(), (Kind::Half, Kind::BFloat16));
    }
}
