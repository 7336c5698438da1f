//! Data parallel: what a session does together with the other workers.
//!
//! Every worker runs the same loop. The position, the batch size and the order of the samples are global; a worker
//! works on its share of each batch, with its gradient weighted by its share, and one sum over the workers gives every
//! one the gradient of the whole batch. What a worker alone could see (a signal, its metrics, a policy of the user's) is
//! agreed on, so that all take the same decisions at the same step.

use std::collections::BTreeMap;

use tch::{Kind, Tensor};

use super::Session;
use super::state::SessionState;
use crate::Error;
use crate::distributed::{Group, share};
use crate::monitor::squared_norm;

/// The batch that `next_batch` handed out, until a step has used it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Handed {
    /// Samples of all workers together; 0 when there is none.
    pub all: usize,
    /// Samples that are this worker's: their part of `all` is the weight of its gradient.
    pub own: usize,
    /// Samples in the batch that this worker got: `own`, or one that counts nothing when it has no share.
    pub len: usize,
}

impl Handed {
    /// This worker's weight in the step.
    pub(super) fn weight(self) -> f64 {
        if self.own == self.all { 1.0 } else { self.own as f64 / self.all as f64 }
    }
}

/// This worker's part of a batch of `indices`. A worker without a share gets one sample that counts nothing, so that
/// the forward pass of the loop need not know.
pub(super) fn own_share(group: Option<&Group>, indices: &[usize]) -> (Handed, Vec<usize>) {
    let all = indices.len();
    let range = match group {
        Some(group) => share(all, group.rank(), group.size()),
        None => 0..all,
    };
    let own = range.len();
    let taken = if own == 0 { &indices[..all.min(1)] } else { &indices[range] };
    (Handed { all, own, len: taken.len() }, taken.to_vec())
}

impl Session {
    /// The group of workers, when there are several.
    pub fn workers(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Whether any worker says so; alone, whether this one does.
    pub(super) fn any_worker(&self, own: bool) -> Result<bool, Error> {
        self.group.as_ref().map_or(Ok(own), |group| group.any(own))
    }

    /// Scales a loss by this worker's weight in the step.
    pub(super) fn weighted(&self, loss: Tensor, weight: f64) -> Result<Tensor, Error> {
        if weight == 1.0 { Ok(loss) } else { Ok(loss.f_mul_scalar(weight)?) }
    }

    /// After the backward passes: sums gradients and losses over the workers. The norms of the workers' own gradients,
    /// taken before, tell the noise scale. Returns the mean loss of the whole batch.
    pub(super) fn sum_over_workers(&mut self, loss: Tensor) -> Result<Tensor, Error> {
        let Some(group) = &self.group else { return Ok(loss) };
        let Handed { all, own, .. } = self.handed;
        if own == 0 {
            // The sample that counts nothing may have given a gradient that is not finite.
            self.arena.zero_grads()?;
        }
        let noise = self.monitor.measures_workers();
        let zero = Tensor::f_zeros([0i64; 0], (Kind::Double, self.arena.device()))?;
        let square =
            if noise && own > 0 { squared_norm(self.arena.grads())? } else { zero.shallow_clone() };
        let scaled = square.f_mul_scalar(all as f64 / own.max(1) as f64)?;
        let mean = if own > 0 { loss.f_to_kind(Kind::Double)? } else { zero };
        let inverse = self.control.inverse()?;
        let mut numbers = Tensor::f_stack(&[&square, &scaled, &mean], 0)?;
        let (_, grads) = self.arena.buffers();
        group.sum(grads)?;
        group.sum(&mut numbers)?;
        if noise {
            let shares = (0..group.size()).map(|rank| share(all, rank, group.size()).len());
            let parts = shares.filter(|&samples| samples > 0).collect();
            self.monitor.add_workers(&self.arena, &numbers, parts, inverse.as_ref())?;
        }
        Ok(numbers.f_select(0, 2)?.f_to_kind(loss.f_kind()?)?)
    }

    /// Rank 0's choice of the batch size: a policy of the user's might see something of its own on each worker.
    pub(super) fn chiefs_batch(&self, own: u64) -> Result<u64, Error> {
        let Some(group) = &self.group else { return Ok(own) };
        let bytes = group.broadcast_bytes(&own.to_le_bytes())?;
        let bytes = <[u8; 8]>::try_from(bytes.as_slice());
        bytes.map(u64::from_le_bytes).map_err(|_| unlike(group, "the batch size", &"no number"))
    }

    /// Rank 0's metrics of the epoch: only rank 0 need evaluate.
    pub(super) fn chiefs_metrics(
        &self,
        own: BTreeMap<String, f64>,
    ) -> Result<BTreeMap<String, f64>, Error> {
        let Some(group) = &self.group else { return Ok(own) };
        // As bits: JSON has no infinities.
        let bits: Vec<(String, u64)> = own.into_iter().map(|(n, v)| (n, v.to_bits())).collect();
        let text = serde_json::to_vec(&bits).map_err(|e| unlike(group, "the metrics", &e))?;
        let text = group.broadcast_bytes(&text)?;
        let bits: Vec<(String, u64)> =
            serde_json::from_slice(&text).map_err(|e| unlike(group, "the metrics", &e))?;
        Ok(bits.into_iter().map(|(name, bits)| (name, f64::from_bits(bits))).collect())
    }

    /// At the start: every worker takes over rank 0's state, be it fresh or from a checkpoint.
    pub(super) fn start_alike(&mut self) -> Result<(), Error> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let done = tch::no_grad(|| self.take_over(&group));
        self.group = Some(group);
        done
    }

    fn take_over(&mut self, group: &Group) -> Result<(), Error> {
        let own = if group.is_chief() {
            serde_json::to_vec(&self.state()?).map_err(|e| unlike(group, "the state", &e))?
        } else {
            Vec::new()
        };
        let chiefs = group.broadcast_bytes(&own)?;
        if !group.is_chief() {
            let state: SessionState =
                serde_json::from_slice(&chiefs).map_err(|e| unlike(group, "the state", &e))?;
            if let Some((what, chief, here)) = state.settings.difference(&self.settings()) {
                let reason = format!("{what} is {here} here and {chief} on rank 0");
                return Err(unlike(group, "the start", &reason));
            }
            self.adopt(state)?;
        }
        group.broadcast(&mut self.arena.params().shallow_clone())?;
        // BatchNorm's running statistics and the like.
        for (name, mut variable) in self.arena.named_variables() {
            if !self.arena.slots().iter().any(|slot| slot.name == name) {
                group.broadcast(&mut variable)?;
            }
        }
        for (_, mut buffer) in self.training_buffers() {
            group.broadcast(&mut buffer)?;
        }
        Ok(())
    }
}

/// The workers do not agree.
fn unlike(group: &Group, what: &'static str, reason: &dyn std::fmt::Display) -> Error {
    let (rank, size) = (group.rank(), group.size());
    Error::Workers { what, rank, size, reason: reason.to_string() }
}
