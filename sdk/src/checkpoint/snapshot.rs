//! A training run's whole state, copied to host memory: what a checkpoint is written from.

use std::borrow::Cow;
use std::collections::BTreeMap;

use safetensors::{Dtype, View};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use crate::Error;

/// A tensor's bytes in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// The names of element kinds on both sides.
const KINDS: [(Kind, Dtype); 10] = [
    (Kind::Float, Dtype::F32),
    (Kind::Double, Dtype::F64),
    (Kind::Half, Dtype::F16),
    (Kind::BFloat16, Dtype::BF16),
    (Kind::Int64, Dtype::I64),
    (Kind::Int, Dtype::I32),
    (Kind::Int16, Dtype::I16),
    (Kind::Int8, Dtype::I8),
    (Kind::Uint8, Dtype::U8),
    (Kind::Bool, Dtype::BOOL),
];

impl HostTensor {
    /// Copies a tensor to host memory, into the memory of `spare` if it has the right size: fresh memory costs as much
    /// time as the copy itself.
    ///
    /// # Errors
    /// [`Error::Torch`]; [`Error::Unsupported`] for complex and quantised kinds.
    pub fn copy_of(name: &str, tensor: &Tensor, spare: Option<Self>) -> Result<Self, Error> {
        let kind = tensor.f_kind()?;
        let Some((_, dtype)) = KINDS.iter().find(|(k, _)| *k == kind) else {
            let what = format!("a checkpoint cannot hold the kind {kind:?}");
            return Err(Error::Unsupported { name: name.to_owned(), what });
        };
        let host = tensor.f_detach()?.f_to(Device::Cpu)?.f_contiguous()?;
        let elements = host.numel();
        let length = elements * kind.elt_size_in_bytes();
        let spare = spare.map(|s| s.bytes).filter(|bytes| bytes.len() == length);
        let mut bytes = spare.unwrap_or_else(|| vec![0; length]);
        host.f_copy_data_u8(&mut bytes, elements)?;
        let shape = host.size().into_iter().map(|n| n as usize).collect();
        Ok(Self { dtype: *dtype, shape, bytes })
    }

    /// The element kind by safetensors' name, such as "F32".
    pub fn kind_name(&self) -> String {
        format!("{:?}", self.dtype)
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn from_view(view: &safetensors::tensor::TensorView<'_>) -> Self {
        let (shape, bytes) = (view.shape().to_vec(), view.data().to_vec());
        Self { dtype: view.dtype(), shape, bytes }
    }

    /// Writes the bytes into `target`, which must have the same shape and kind.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when shape or kind differ.
    pub fn restore(&self, name: &str, target: &mut Tensor) -> Result<(), Error> {
        let kind = target.f_kind()?;
        let shape: Vec<usize> = target.size().into_iter().map(|n| n as usize).collect();
        let own = KINDS.iter().find(|(_, d)| *d == self.dtype).map(|(k, _)| *k);
        if own != Some(kind) || shape != self.shape {
            return Err(Error::Mismatch {
                what: format!("the tensor '{name}'"),
                checkpoint: format!("{:?} of shape {:?}", self.dtype, self.shape),
                now: format!("{kind:?} of shape {shape:?}"),
            });
        }
        let size: Vec<i64> = self.shape.iter().map(|&n| n as i64).collect();
        let source = Tensor::f_from_data_size(&self.bytes, &size, kind)?;
        tch::no_grad(|| target.f_copy_(&source))?;
        Ok(())
    }
}

impl View for &HostTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Everything that a checkpoint holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// All named variables of the model.
    pub model: BTreeMap<String, HostTensor>,
    /// Optimiser moments and other buffers, by name.
    pub training: BTreeMap<String, HostTensor>,
    /// Everything that is not a tensor.
    pub state: Value,
}
