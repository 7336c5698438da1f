//! What carries the sums of the workers: gloo, or NCCL between GPUs.

use std::fmt;
use std::str::FromStr;

use tch::Device;

use crate::Error;

/// Why NCCL is not built into this program; empty when it is.
const NCCL_MISSING: &str = env!("SHOCKWAVE_NCCL_MISSING");

/// What carries the sums and broadcasts of a [`Group`](super::Group).
///
/// NCCL is for tensors on GPUs only. A group with NCCL has gloo beside it for what the workers agree on without a
/// device: who wants to stop, the batch size, metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// By the device: NCCL where the model is on a GPU and NCCL is built in, else gloo.
    #[default]
    Auto,
    /// libtorch's own gloo, over TCP; tensors on a GPU go through the host's memory.
    Gloo,
    /// NCCL; an error where it cannot be had.
    Nccl,
}

impl Backend {
    /// Why NCCL is not built into this program; nothing when it is.
    #[must_use]
    pub fn nccl_missing() -> Option<&'static str> {
        Some(NCCL_MISSING).filter(|reason| !reason.is_empty())
    }

    /// What this one means for a model on `device`; never [`Backend::Auto`].
    ///
    /// # Errors
    /// [`Error::Invalid`] when NCCL is asked for and cannot be had.
    pub fn on(self, device: Device) -> Result<Self, Error> {
        let missing = Self::nccl_missing();
        let no_gpu = device.is_cuda() && tch::Cuda::device_count() == 0;
        self.choose(device, missing.or(no_gpu.then_some("libtorch finds no GPU")))
    }

    fn choose(self, device: Device, missing: Option<&str>) -> Result<Self, Error> {
        let refused = |reason: &str| {
            let expected = format!("gloo or auto: NCCL cannot be used by this program, {reason}");
            Err(Error::invalid("the workers' backend (SHOCKWAVE_BACKEND)", self, expected))
        };
        match (self, missing) {
            (Self::Auto, None) if device.is_cuda() => Ok(Self::Nccl),
            (Self::Auto | Self::Gloo, _) => Ok(Self::Gloo),
            (Self::Nccl, Some(reason)) => refused(reason),
            (Self::Nccl, None) if device.is_cuda() => Ok(Self::Nccl),
            (Self::Nccl, None) => refused("its model is not on a GPU"),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Gloo => "gloo",
            Self::Nccl => "nccl",
        })
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = [Self::Auto, Self::Gloo, Self::Nccl];
        let found = known.into_iter().find(|b| text.trim().eq_ignore_ascii_case(&b.to_string()));
        found.ok_or_else(|| {
            Error::invalid("SHOCKWAVE_BACKEND", format!("'{text}'"), "auto, gloo or nccl")
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_device_decides_unless_somebody_does() {
        let (cpu, gpu) = (Device::Cpu, Device::Cuda(1));
        let chosen = |backend: Backend, device, missing| backend.choose(device, missing).unwrap();
        assert_eq!(chosen(Backend::Auto, cpu, None), Backend::Gloo);
        assert_eq!(chosen(Backend::Auto, gpu, None), Backend::Nccl);
        assert_eq!(chosen(Backend::Auto, gpu, Some("no CUDA")), Backend::Gloo);
        assert_eq!(chosen(Backend::Gloo, gpu, None), Backend::Gloo);
        assert_eq!(chosen(Backend::Nccl, gpu, None), Backend::Nccl);
    }

    #[test]
    fn nccl_where_there_is_none_is_one_clear_error() {
        let error = Backend::Nccl.choose(Device::Cuda(0), Some("it has no CUDA")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the workers' backend (SHOCKWAVE_BACKEND) is nccl; expected gloo or auto: \
             NCCL cannot be used by this program, it has no CUDA"
        );
        let error = Backend::Nccl.choose(Device::Cpu, None).unwrap_err().to_string();
        assert!(error.ends_with("its model is not on a GPU"), "{error}");
    }

    #[test]
    fn names_are_read() {
        assert_eq!("NCCL".parse::<Backend>().unwrap(), Backend::Nccl);
        let error = "mpi".parse::<Backend>().unwrap_err().to_string();
        assert_eq!(error, "SHOCKWAVE_BACKEND is 'mpi'; expected auto, gloo or nccl");
    }
}
