//! One training step: forward and backward in one or more parts, then the optimiser.

use tch::Tensor;

use super::{Phase, Session};
use crate::Error;
use crate::data::Batch;
use crate::monitor::Taken;
use crate::precision::with_precision;

/// What a loss closure may return: a tensor, or a `Result` of one.
pub trait IntoLoss {
    /// The loss tensor.
    ///
    /// # Errors
    /// Whatever the closure returned as an error.
    fn into_loss(self) -> Result<Tensor, Error>;
}

impl IntoLoss for Tensor {
    fn into_loss(self) -> Result<Tensor, Error> {
        Ok(self)
    }
}

impl<E: Into<Error>> IntoLoss for Result<Tensor, E> {
    fn into_loss(self) -> Result<Tensor, Error> {
        self.map_err(Into::into)
    }
}

/// What a step leaves behind.
#[derive(Debug)]
pub struct Step {
    /// Mean loss per sample: a scalar on the model's device. Reading it costs a host read of your own.
    pub loss: Tensor,
    /// The number of the step, from 0.
    pub step: u64,
    /// Samples in the step.
    pub samples: usize,
}

impl Session {
    /// One step on `batch`: the closure computes the mean loss per sample of the batch that it is given.
    ///
    /// The closure runs in the session's [`Precision`](crate::Precision). It may be called more than once, each time with a part of the batch: the noise scale is measured by
    /// splitting a step's batch in two. BatchNorm then sees the statistics of each part, and its running statistics are
    /// updated once per part.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] outside an epoch; [`Error::Invalid`] when the loss is no scalar; the closure's own error.
    pub fn step<L: IntoLoss>(
        &mut self,
        batch: &Batch,
        mut loss: impl FnMut(&Batch) -> L,
    ) -> Result<Step, Error> {
        let samples = batch.len();
        self.begin_step("step", samples)?;
        loop {
            match self.accumulate(batch, &mut loss) {
                Ok(total) => return self.end_step(total),
                Err(error) if self.lower_ceiling(&error, samples)? => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Forward and backward on all parts of the batch. Returns the mean loss per sample, times this worker's weight.
    fn accumulate<L: IntoLoss>(
        &mut self,
        batch: &Batch,
        loss: &mut impl FnMut(&Batch) -> L,
    ) -> Result<Tensor, Error> {
        let samples = batch.len();
        let parts = self.monitor.plan(self.position.step, samples, self.ceiling.samples);
        let weight = self.handed.weight();
        if parts.len() == 1 {
            let loss = self.weighted(self.forward(batch, loss)?, weight)?;
            self.backward(&loss)?;
            return Ok(loss.f_detach()?);
        }
        let inverse = self.control.inverse()?;
        let mut total: Option<Tensor> = None;
        let mut start = 0;
        for part in parts {
            let loss = self.forward(&batch.narrow(start, part)?, loss)?;
            let weighted = loss.f_mul_scalar(part as f64 / samples as f64 * weight)?;
            self.backward(&weighted)?;
            tch::no_grad(|| self.monitor.after_part(&self.arena, inverse.as_ref()))?;
            let weighted = weighted.f_detach()?;
            total = Some(match total {
                Some(total) => total.f_add(&weighted)?,
                None => weighted,
            });
            start += part;
        }
        total.ok_or_else(|| Error::Data("the batch is empty".into()))
    }

    /// The loss of a part of the batch, in the session's precision.
    fn forward<L: IntoLoss>(
        &self,
        part: &Batch,
        loss: &mut impl FnMut(&Batch) -> L,
    ) -> Result<Tensor, Error> {
        let (precision, device) = (self.precision, self.device());
        self.ceiling.call(|| with_precision(precision, device, || loss(part).into_loss())?)
    }

    /// Backward and optimiser step on a loss that was computed on the whole batch, for loops that keep the forward pass
    /// to themselves. The noise scale cannot be measured this way, nor can micro-batches be used.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] outside an epoch, or when the policy needs what only [`step`](Session::step) can measure;
    /// [`Error::Invalid`] when the loss is no scalar.
    pub fn backward_and_step(&mut self, loss: &Tensor) -> Result<Step, Error> {
        self.begin_step("backward_and_step", self.handed.len)?;
        let splits = self.policy.needs().noise && self.group.is_none();
        if splits || self.ceiling.samples.is_some() {
            return Err(Error::OutOfOrder {
                call: "backward_and_step",
                when: "although the batch must be split (noise scale or micro-batches)".into(),
                instead: "call step with a closure that computes the loss of a part of the batch",
            });
        }
        let loss = self.weighted(loss.shallow_clone(), self.handed.weight())?;
        self.backward(&loss)?;
        self.end_step(loss.f_detach()?)
    }

    fn begin_step(&mut self, call: &'static str, samples: usize) -> Result<(), Error> {
        let given = self.handed.len;
        if self.phase != Phase::Inside || given == 0 || samples != given {
            let when = format!("with {samples} samples after next_batch gave {given}");
            let instead = "call it once for each batch of next_batch, with that batch";
            return Err(Error::OutOfOrder { call, when, instead });
        }
        self.arena.begin_step()
    }

    fn backward(&self, loss: &Tensor) -> Result<(), Error> {
        if loss.numel() != 1 {
            let shape = format!("of shape {:?}", loss.size());
            return Err(Error::invalid("the loss", shape, "a scalar: the mean loss per sample"));
        }
        Ok(self.control.scaled(loss)?.f_backward()?)
    }

    fn end_step(&mut self, loss: Tensor) -> Result<Step, Error> {
        let samples = self.handed.all;
        let loss = tch::no_grad(|| self.sum_over_workers(loss))?;
        let weight = self.position.batch as f64 / self.initial_batch as f64;
        let last = self.sampler.cursor() + samples >= self.sampler.len();
        let lr = self.optimizer.base_lr() * self.rate.at(self.position.sample);
        tch::no_grad(|| {
            let settled = self.control.settle(&mut self.arena)?;
            let settled = settled.as_ref();
            let taken = Taken { loss: &loss, samples, weight, last, settled };
            self.monitor.after_backward(&self.arena, &taken)?;
            if let Some(settled) = settled {
                self.control.apply(&mut self.arena, settled)?;
            }
            let gate = self.control.gate(settled.and_then(|s| s.open.as_ref()));
            let (params, grads) = self.arena.buffers();
            self.optimizer.step(params, grads, lr, gate)
        })?;
        self.arena.end_step(self.optimizer.clears_gradients());
        let step = self.position.step;
        self.take_pending();
        let every = self.policy.needs().every_steps.filter(|&n| n > 0);
        if !last && every.is_some_and(|n| self.position.step.is_multiple_of(n)) {
            tch::no_grad(|| self.decide(false))?;
        }
        self.show_step();
        self.save_if_due(false)?;
        Ok(Step { loss, step, samples })
    }
}
