//! What is measured while training: all on the device, read once per epoch or decision.

mod hessian;
mod host;
mod noise;
mod norms;
mod split;
mod state;

pub use hessian::{Eigenvalue, PowerIteration, top_eigenvalue, trace};
pub use host::HostReads;
pub use noise::{NoiseAverage, NoiseEstimate, NoiseSample};
pub use norms::{dot, squared_norm, squared_norm_by_slot};
pub(crate) use state::MonitorState;

use tch::{Device, Kind, Tensor};

use crate::Error;
use crate::arena::Arena;
use crate::gradient::Settled;
use crate::policy::Needs;
use split::{ROW, Row, Split};

/// Sampled steps that may wait on the device for the next read; at that many there is one extra read.
const MAX_ROWS: usize = 4096;

/// Settings of the noise scale's estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseSettings {
    /// Every this many steps, a step's batch is split in two (default 10). Steps that accumulate over micro-batches
    /// are always used.
    pub every_steps: u64,
    /// Smoothing factor per sampled step (default 0.99: about 100 sampled steps count).
    pub beta: f64,
}

impl Default for NoiseSettings {
    fn default() -> Self {
        Self { every_steps: 10, beta: 0.99 }
    }
}

impl NoiseSettings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.every_steps == 0 {
            return Err(Error::invalid(
                "the noise scale's sampling period",
                0,
                "at least one step",
            ));
        }
        if !(self.beta > 0.0 && self.beta < 1.0) {
            return Err(Error::invalid("the noise scale's beta", self.beta, "a number in (0, 1)"));
        }
        Ok(())
    }
}

/// The numbers of one host read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// Mean loss per sample over the epoch so far.
    pub loss: f64,
    /// L2 norm of the epoch's last step's gradient; not a number before that step.
    pub grad_norm: f64,
    /// See [`crate::policy::Observation::layer_norms`]; empty when it was not asked for.
    pub layer_norms: Vec<f64>,
    /// The sums over the epoch as they lie on the device.
    raw: state::Sums,
    /// What was asked for besides.
    pub extra: Vec<f64>,
}

/// A step as it was taken, up to the optimiser.
pub(crate) struct Taken<'a> {
    /// Mean loss per sample, on the device.
    pub loss: &'a Tensor,
    pub samples: usize,
    /// The batch size over the initial one.
    pub weight: f64,
    /// Whether this is the epoch's last step.
    pub last: bool,
    /// How the gradient is scaled, and whether the step is skipped.
    pub settled: Option<&'a Settled>,
}

/// Measures the loss, gradient norms and gradient noise of a run.
#[derive(Debug)]
pub(crate) struct Monitor {
    needs: Needs,
    settings: NoiseSettings,
    reads: HostReads,
    /// The loss times samples, summed over the epoch: a double-precision scalar on the device.
    loss: Tensor,
    loss_samples: u64,
    /// Samples of skipped steps among them: a double-precision scalar on the device.
    uncounted: Tensor,
    /// Squared norm of the epoch's last step's gradient, on the device.
    last_square: Tensor,
    /// The gradient summed over the epoch (Accordion).
    window: Option<Tensor>,
    /// What the gradient buffer held before a split step's last part.
    before: Option<Tensor>,
    rows: Vec<Row>,
    noise: NoiseAverage,
    split: Option<Split>,
    /// Whether there are other workers: then their gradients are the parts, and no step need be split.
    workers: bool,
}

impl Monitor {
    pub(crate) fn new(needs: Needs, settings: NoiseSettings, arena: &Arena) -> Result<Self, Error> {
        settings.check()?;
        let scalar = |v: f64| crate::optim::scalar(v, Kind::Double, arena.device());
        let buffer = |wanted: bool| wanted.then(|| arena.grads().f_zeros_like()).transpose();
        Ok(Self {
            needs,
            settings,
            reads: HostReads::default(),
            loss: scalar(0.0)?,
            loss_samples: 0,
            uncounted: scalar(0.0)?,
            last_square: scalar(f64::NAN)?,
            window: buffer(needs.layer_norms)?,
            before: buffer(needs.noise)?,
            rows: Vec::new(),
            noise: NoiseAverage::new(settings.beta),
            split: None,
            workers: false,
        })
    }

    /// Says that there are other workers.
    pub(crate) fn with_workers(self, workers: bool) -> Self {
        Self { workers, ..self }
    }

    /// Whether the norms of the workers' gradients are wanted.
    pub(crate) fn measures_workers(&self) -> bool {
        self.workers && self.needs.noise
    }

    /// Notes a step of several workers: `numbers` are sums over them (first of `w^2 |g_i|^2`, second of `w |g_i|^2`),
    /// `parts` their samples; the gradient is summed already.
    pub(crate) fn add_workers(
        &mut self,
        arena: &Arena,
        numbers: &Tensor,
        parts: Vec<usize>,
        inverse: Option<&Tensor>,
    ) -> Result<(), Error> {
        if parts.len() < 2 {
            return Ok(());
        }
        let total = squared_norm(arena.grads())?.f_reshape([1])?;
        let values =
            Tensor::f_cat(&[&numbers.f_narrow(0, 0, 2)?, &total, &total.f_zeros_like()?], 0)?;
        self.push(Row::of_workers(values, parts), inverse)
    }

    /// Keeps a row for the next read; `inverse` is one over the loss scale of the gradients behind it.
    fn push(&mut self, mut row: Row, inverse: Option<&Tensor>) -> Result<(), Error> {
        if let Some(inverse) = inverse {
            // All numbers of a row are squares or products of gradients.
            let _ = row.values.f_mul_(&inverse.f_square()?)?;
        }
        self.rows.push(row);
        if self.rows.len() >= MAX_ROWS {
            self.read(None, None)?;
        }
        Ok(())
    }

    pub(crate) fn host_reads(&self) -> u64 {
        self.reads.count()
    }

    /// In how many parts the step number `step` should work on its batch of `samples`, at most `micro` samples each.
    /// Also gets ready to measure them.
    pub(crate) fn plan(&mut self, step: u64, samples: usize, micro: Option<usize>) -> Vec<usize> {
        let mut count = micro.map_or(1, |m| samples.div_ceil(m.max(1)));
        let sampled = self.needs.noise && step.is_multiple_of(self.settings.every_steps);
        if sampled && count == 1 && samples >= 2 && !self.workers {
            count = 2;
        }
        // The first `samples % count` parts have one sample more.
        let parts: Vec<usize> =
            (0..count).map(|i| samples / count + usize::from(i < samples % count)).collect();
        let splits = self.needs.noise && count >= 2 && !self.workers;
        self.split = splits.then(|| Split::new(parts.clone()));
        parts
    }

    /// To be called after each part's backward; `inverse` is one over the loss scale, when there is one.
    pub(crate) fn after_part(
        &mut self,
        arena: &Arena,
        inverse: Option<&Tensor>,
    ) -> Result<(), Error> {
        let (Some(split), Some(before)) = (&mut self.split, &mut self.before) else {
            return Ok(());
        };
        match split.after_part(arena.grads(), before)? {
            Some(row) => self.push(row, inverse),
            None => Ok(()),
        }
    }

    /// To be called after a step's last backward, before the gradient is clipped.
    pub(crate) fn after_backward(&mut self, arena: &Arena, step: &Taken<'_>) -> Result<(), Error> {
        let samples = step.samples as f64;
        let mut part = step.loss.f_to_kind(Kind::Double)?.f_mul_scalar(samples)?;
        let settled = step.settled;
        if let Some(open) = settled.and_then(|s| s.open.as_ref()) {
            let shut = open.f_eq(0.0)?;
            part = part.f_masked_fill(&shut, 0.0)?;
            let _ = self.uncounted.f_add_(&shut.f_to_kind(Kind::Double)?.f_mul_scalar(samples)?)?;
        }
        let _ = self.loss.f_add_(&part)?;
        self.loss_samples += step.samples as u64;
        if let Some(window) = &mut self.window {
            match settled.and_then(|s| s.inverse.as_ref()) {
                None if step.weight == 1.0 => drop(window.f_add_(arena.grads())?),
                None => {
                    let weight = crate::optim::scalar(step.weight, arena.kind(), arena.device())?;
                    let _ = window.f_addcmul_(arena.grads(), &weight)?;
                }
                Some(inverse) => {
                    let weight = inverse.f_mul_scalar(step.weight)?.f_to_kind(arena.kind())?;
                    let _ = window.f_addcmul_(arena.grads(), &weight)?;
                }
            }
        }
        if step.last {
            self.last_square = match settled {
                Some(settled) => settled.square.shallow_clone(),
                None => squared_norm(arena.grads())?,
            };
        }
        Ok(())
    }

    /// One host read of everything that is waiting on the device; `arena` asks for the norms of the window too, `extra`
    /// for numbers of somebody else.
    pub(crate) fn read(
        &mut self,
        arena: Option<&Arena>,
        extra: Option<Tensor>,
    ) -> Result<Reading, Error> {
        let mut tensors = vec![
            self.loss.shallow_clone(),
            self.last_square.shallow_clone(),
            self.uncounted.shallow_clone(),
        ];
        let more = extra.as_ref().map_or(0, Tensor::numel);
        tensors.extend(extra);
        tensors.extend(self.rows.iter().map(|r| r.values.shallow_clone()));
        let layers = match (arena, &self.window) {
            (Some(arena), Some(window)) => Some(squared_norm_by_slot(window, arena.slots())?),
            _ => None,
        };
        tensors.extend(layers);
        let values = self.reads.read(&tensors)?;
        let (head, rest) = values.split_at(3);
        let (extra, rest) = rest.split_at(more);
        let (rows, layers) = rest.split_at(ROW * self.rows.len());
        for (row, values) in self.rows.drain(..).zip(rows.chunks(ROW)) {
            self.noise.add(row.sample(values));
        }
        let raw = state::Sums { loss: head[0], last_square: head[1], uncounted: head[2] };
        Ok(Reading {
            loss: raw.loss / (self.loss_samples as f64 - raw.uncounted),
            grad_norm: raw.last_square.sqrt(),
            layer_norms: layers.iter().map(|square| square.sqrt()).collect(),
            raw,
            extra: extra.to_vec(),
        })
    }

    /// The noise scale as of the last read.
    pub(crate) fn noise(&self) -> Option<NoiseEstimate> {
        self.noise.estimate()
    }

    /// Forgets what depends on the batch size.
    pub(crate) fn batch_changed(&mut self) {
        self.noise.forget_cosine();
    }

    /// Begins a new epoch.
    pub(crate) fn reset_epoch(&mut self) -> Result<(), Error> {
        let _ = self.loss.f_zero_()?;
        self.loss_samples = 0;
        let _ = self.uncounted.f_zero_()?;
        let _ = self.last_square.f_fill_(f64::NAN)?;
        if let Some(window) = &mut self.window {
            let _ = window.f_zero_()?;
        }
        Ok(())
    }

    pub(crate) fn device(&self) -> Device {
        self.loss.device()
    }
}
