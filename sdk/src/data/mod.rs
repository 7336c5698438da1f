//! Data sets, and the order in which their samples are visited.

mod augment;
pub mod cifar;
mod decode;
mod folder;
mod images;
mod loader;
mod sampler;
pub mod synthetic;

pub use augment::Normalisation;
pub use folder::{Fit, ImageFolder};
pub use images::Images;
pub(crate) use loader::{Loader, Request};
pub(crate) use sampler::step_seed;
pub use sampler::{Draw, Sampler};

use tch::{Device, Tensor};

use crate::Error;

/// One batch: inputs and targets, both with the samples along the first dimension.
#[derive(Debug)]
pub struct Batch {
    /// Inputs, shape `[samples, ..]`.
    pub x: Tensor,
    /// Targets, shape `[samples, ..]`.
    pub y: Tensor,
    /// Further tensors of shape `[samples, ..]`, for models with several inputs or targets.
    pub extra: Vec<Tensor>,
}

impl Batch {
    /// A batch of inputs and targets.
    pub fn new(x: Tensor, y: Tensor) -> Self {
        Self { x, y, extra: Vec::new() }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.x.size().first().map_or(0, |&n| n as usize)
    }

    /// Whether there is no sample in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies `f` to every tensor.
    fn map(&self, f: impl Fn(&Tensor) -> Result<Tensor, tch::TchError>) -> Result<Self, Error> {
        let extra: Result<Vec<Tensor>, _> = self.extra.iter().map(&f).collect();
        Ok(Self { x: f(&self.x)?, y: f(&self.y)?, extra: extra? })
    }

    /// The samples `start .. start + len` as views.
    ///
    /// # Errors
    /// [`Error::Torch`] when the range is outside the batch.
    pub fn narrow(&self, start: usize, len: usize) -> Result<Self, Error> {
        self.map(|t| t.f_narrow(0, start as i64, len as i64))
    }

    /// The batch on `device`.
    ///
    /// # Errors
    /// [`Error::Torch`].
    pub fn to_device(&self, device: Device) -> Result<Self, Error> {
        self.map(|t| t.f_to(device))
    }

    /// Refuses a batch whose tensors do not hold `samples` samples each.
    pub(crate) fn check(&self, samples: usize) -> Result<(), Error> {
        for tensor in [&self.x, &self.y].into_iter().chain(&self.extra) {
            let size = tensor.size();
            if size.first() != Some(&(samples as i64)) {
                return Err(Error::Data(format!(
                    "the data set returned a tensor of shape {size:?} for {samples} samples; \
                     the first dimension must be the number of samples"
                )));
            }
        }
        Ok(())
    }
}

/// A set of samples that are addressed by their index.
///
/// It is `Send` so that a loader may fetch batches on a thread of its own.
pub trait Dataset: Send {
    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether it has no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples at `indices` (each below [`len`](Self::len)), in that order, on the CPU.
    ///
    /// # Errors
    /// [`Error::Data`] when a sample cannot be read.
    fn batch(&self, indices: &[usize]) -> Result<Batch, Error>;

    /// The samples at `indices` for training, with random augmentation if the data set has any.
    ///
    /// Every random choice for sample `i` must come from [`draw.rng(i)`](Draw::rng): then it depends on the seed, the
    /// epoch and the sample only, and neither a change of the batch size nor a resume changes it.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        let _ = draw;
        self.batch(indices)
    }
}

impl<D: Dataset + ?Sized> Dataset for Box<D> {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        (**self).batch(indices)
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        (**self).training_batch(indices, draw)
    }
}
