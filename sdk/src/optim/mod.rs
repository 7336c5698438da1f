//! Optimisers on the flat buffers: in place, and with a state that can be exported and imported (tch's own cannot).

mod adamw;
mod sgd;

pub use adamw::AdamW;
pub use sgd::Sgd;

use tch::{Device, Kind, Tensor};

use crate::Error;
use crate::gradient::Gate;

/// An optimiser over one flat parameter buffer.
///
/// All buffers have the shape `[len]` and the kind and device of the parameters. The gaps between variables hold zero
/// parameters and zero gradients, and must stay zero.
pub trait Optimizer: Send {
    /// A stable name, kept in checkpoints: a checkpoint of another optimiser is refused.
    fn name(&self) -> &'static str;

    /// The learning rate at the reference batch size, before schedule, warm-up and batch rule.
    fn base_lr(&self) -> f64;

    /// Checks the settings and allocates the moments for parameters like `params`.
    ///
    /// # Errors
    /// [`Error::Invalid`] names a setting out of range.
    fn prepare(&mut self, params: &Tensor) -> Result<(), Error>;

    /// One step at the learning rate `lr`. May overwrite `grads`. With a `gate`, only the device knows whether the step
    /// is taken: parameters and moments must stay as they are where it is shut.
    ///
    /// # Errors
    /// [`Error::Torch`].
    fn step(
        &mut self,
        params: &mut Tensor,
        grads: &mut Tensor,
        lr: f64,
        gate: Option<Gate<'_>>,
    ) -> Result<(), Error>;

    /// Whether [`step`](Self::step) leaves all gradients zero. Then the next step begins without a pass over them.
    fn clears_gradients(&self) -> bool {
        false
    }

    /// The moments by name: shallow clones of the buffers themselves, so writing into them restores them.
    fn moments(&self) -> Vec<(&'static str, Tensor)>;

    /// Number of calls of [`step`](Self::step) (without a gate, bias correction depends on it).
    fn steps(&self) -> u64;

    /// Sets the number of steps, when a checkpoint is restored.
    fn set_steps(&mut self, steps: u64);
}

impl Optimizer for Box<dyn Optimizer> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn base_lr(&self) -> f64 {
        (**self).base_lr()
    }

    fn prepare(&mut self, params: &Tensor) -> Result<(), Error> {
        (**self).prepare(params)
    }

    fn step(
        &mut self,
        params: &mut Tensor,
        grads: &mut Tensor,
        lr: f64,
        gate: Option<Gate<'_>>,
    ) -> Result<(), Error> {
        (**self).step(params, grads, lr, gate)
    }

    fn clears_gradients(&self) -> bool {
        (**self).clears_gradients()
    }

    fn moments(&self) -> Vec<(&'static str, Tensor)> {
        (**self).moments()
    }

    fn steps(&self) -> u64 {
        (**self).steps()
    }

    fn set_steps(&mut self, steps: u64) {
        (**self).set_steps(steps);
    }
}

/// Elements that a step works on at a time on the CPU: several passes over them stay in the processor's cache.
const CPU_BLOCK: i64 = 1 << 17;

/// Calls `f` with the same part of all `buffers`: small blocks on the CPU, the whole on other devices.
pub(crate) fn by_blocks<const N: usize>(
    buffers: [&Tensor; N],
    mut f: impl FnMut([Tensor; N]) -> Result<(), tch::TchError>,
) -> Result<(), Error> {
    let len = buffers[0].numel() as i64;
    let block = if buffers[0].device() == Device::Cpu { CPU_BLOCK } else { len.max(1) };
    let mut start = 0;
    while start < len {
        let n = block.min(len - start);
        let mut parts = buffers.map(Tensor::shallow_clone);
        for part in &mut parts {
            *part = part.f_narrow(0, start, n)?;
        }
        f(parts)?;
        start += n;
    }
    Ok(())
}

/// A scalar on the parameters' device, made without a host synchronisation.
pub(crate) fn scalar(value: f64, kind: Kind, device: Device) -> Result<Tensor, Error> {
    Ok(Tensor::f_full([0i64; 0], value, (kind, device))?)
}

/// A factor of a step, on the parameters' device: `taken`, or `skipped` where a gate is shut.
pub(crate) fn factor(
    params: &Tensor,
    gate: Option<Gate<'_>>,
    taken: f64,
    skipped: f64,
) -> Result<Tensor, Error> {
    let (kind, device) = (params.f_kind()?, params.device());
    let Some(Gate { open, .. }) = gate else { return scalar(taken, kind, device) };
    let mut value = open.f_mul_scalar(taken)?;
    if skipped != 0.0 {
        // One of the two is zero, so the sum is exact.
        let shut = open.f_neg()?.f_add_scalar(1.0)?;
        value = value.f_add(&shut.f_mul_scalar(skipped)?)?;
    }
    Ok(value.f_to_kind(kind)?)
}

/// Refuses a hyper-parameter outside `[low, high)`.
pub(crate) fn check(what: &str, value: f64, low: f64, high: f64) -> Result<(), Error> {
    if value >= low && value < high {
        return Ok(());
    }
    Err(Error::invalid(what, value, format!("a number in [{low}, {high})")))
}
