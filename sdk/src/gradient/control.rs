//! Carries out the settings on the flat gradient buffer, without a read by the host.

use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use super::scale::SCALE_BOUNDS;
use super::{Gate, GradientSettings, LossScale};
use crate::Error;
use crate::arena::Arena;
use crate::monitor::squared_norm;
use crate::optim::{by_blocks, scalar};

/// Kept away from a norm of zero, as PyTorch's `clip_grad_norm_` does.
const CLIP_EPS: f64 = 1e-6;

/// A run's counts and its loss scale; they live on the device.
#[derive(Debug)]
pub(crate) struct Control {
    settings: GradientSettings,
    /// Each a double-precision scalar on the device.
    taken: Tensor,
    skipped: Tensor,
    scale: Tensor,
    /// Finite steps since the scale's last change.
    streak: Tensor,
    /// As of the last read.
    known: ControlState,
}

/// The numbers of a [`Control`], as read by the host; part of each checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct ControlState {
    pub taken: f64,
    pub skipped: f64,
    pub scale: f64,
    streak: f64,
}

/// A step's gradient, measured but still as the backward passes left it (zero when the step is skipped).
#[derive(Debug)]
pub(crate) struct Settled {
    /// Squared norm of the true gradient: a double-precision scalar.
    pub square: Tensor,
    /// One over the loss scale, when there is one: a double-precision scalar.
    pub inverse: Option<Tensor>,
    /// 1 or 0, when steps may be skipped: a double-precision scalar.
    pub open: Option<Tensor>,
}

fn number(value: f64, device: Device) -> Result<Tensor, Error> {
    scalar(value, Kind::Double, device)
}

/// The number in a scalar, where reading it waits for nothing: on the CPU. There a pass over the gradient that would
/// change nothing can be left out.
fn free_to_read(scalar: &Tensor) -> Result<Option<f64>, Error> {
    match scalar.device() {
        Device::Cpu => Ok(Some(scalar.f_double_value(&[])?)),
        _ => Ok(None),
    }
}

impl Control {
    pub(crate) fn new(settings: GradientSettings, device: Device) -> Result<Self, Error> {
        settings.check()?;
        let scale = settings.loss_scale.initial();
        let known = ControlState { taken: 0.0, skipped: 0.0, scale, streak: 0.0 };
        Ok(Self {
            settings,
            taken: number(known.taken, device)?,
            skipped: number(known.skipped, device)?,
            scale: number(known.scale, device)?,
            streak: number(known.streak, device)?,
            known,
        })
    }

    /// The loss to call backward on.
    pub(crate) fn scaled(&self, loss: &Tensor) -> Result<Tensor, Error> {
        match self.settings.loss_scale {
            LossScale::None => Ok(loss.shallow_clone()),
            _ => Ok(loss.f_mul(&self.scale.f_to_kind(loss.f_kind()?)?)?),
        }
    }

    /// One over the scale of the gradients in the buffer, when there is one.
    pub(crate) fn inverse(&self) -> Result<Option<Tensor>, Error> {
        match self.settings.loss_scale {
            LossScale::None => Ok(None),
            _ => Ok(Some(self.scale.f_reciprocal()?)),
        }
    }

    /// Measures the gradient and, when it is not finite and such steps are skipped, sets it to zero. Nothing (`None`)
    /// when nothing of it was asked for.
    pub(crate) fn settle(&mut self, arena: &mut Arena) -> Result<Option<Settled>, Error> {
        if self.settings == GradientSettings::default() {
            return Ok(None);
        }
        let inverse = self.inverse()?;
        let mut square = squared_norm(arena.grads())?;
        let mut open = None;
        if self.settings.skips() {
            let finite = square.f_isfinite()?;
            let closed = finite.f_logical_not()?;
            if free_to_read(&closed)? != Some(0.0) {
                by_blocks([arena.grads()], |[mut g]| g.f_masked_fill_(&closed, 0.0).map(drop))?;
            }
            let _ = square.f_masked_fill_(&closed, 0.0)?;
            open = Some(finite.f_to_kind(Kind::Double)?);
        }
        if let Some(inverse) = &inverse {
            square = square.f_mul(&inverse.f_square()?)?;
        }
        Ok(Some(Settled { square, inverse, open }))
    }

    /// Unscales and clips the gradient, and counts the step. The counts are those that [`gate`](Self::gate) shows.
    pub(crate) fn apply(&mut self, arena: &mut Arena, settled: &Settled) -> Result<(), Error> {
        let mut factor = settled.inverse.as_ref().map(Tensor::shallow_clone);
        if let Some(limit) = self.settings.clip_norm {
            let norm = settled.square.f_sqrt()?.f_add_scalar(CLIP_EPS)?;
            let clip = norm.f_reciprocal()?.f_mul_scalar(limit)?.f_clamp_max(1.0)?;
            factor = Some(match factor {
                Some(factor) => factor.f_mul(&clip)?,
                None => clip,
            });
        }
        if let Some(factor) = factor {
            let factor = factor.f_to_kind(arena.kind())?;
            if free_to_read(&factor)? != Some(1.0) {
                by_blocks([arena.grads()], |[mut g]| g.f_mul_(&factor).map(drop))?;
            }
        }
        if let Some(open) = &settled.open {
            self.count(open)?;
        }
        Ok(())
    }

    fn count(&mut self, open: &Tensor) -> Result<(), Error> {
        let _ = self.taken.f_add_(open)?;
        let _ = self.skipped.f_add_(&open.f_neg()?.f_add_scalar(1.0)?)?;
        let LossScale::Dynamic { growth_interval, .. } = self.settings.loss_scale else {
            return Ok(());
        };
        let _ = self.streak.f_add_scalar_(1.0)?.f_mul_(open)?;
        let grown = self.streak.f_ge(growth_interval as f64)?.f_to_kind(Kind::Double)?;
        // A half when the step was skipped, twice when the streak is long enough, else one.
        let factor = open.f_mul_scalar(0.5)?.f_add_scalar(0.5)?.f_mul(&grown.f_add_scalar(1.0)?)?;
        let _ = self.scale.f_mul_(&factor)?.f_clamp_(SCALE_BOUNDS.0, SCALE_BOUNDS.1)?;
        let _ = self.streak.f_mul_(&grown.f_neg()?.f_add_scalar(1.0)?)?;
        Ok(())
    }

    /// What the optimiser must know, with [`Settled::open`].
    pub(crate) fn gate<'a>(&'a self, open: Option<&'a Tensor>) -> Option<Gate<'a>> {
        open.map(|open| Gate { open, taken: &self.taken })
    }

    /// The numbers for the next host read: [`hear`](Self::hear) takes them back. None when nothing is counted.
    pub(crate) fn unread(&self) -> Result<Option<Tensor>, Error> {
        if !self.settings.skips() {
            return Ok(None);
        }
        let numbers = [&self.taken, &self.skipped, &self.scale, &self.streak];
        Ok(Some(Tensor::f_stack(&numbers, 0)?))
    }

    /// Takes the numbers that the host has read. Returns how many steps were skipped since the last time.
    pub(crate) fn hear(&mut self, numbers: &[f64]) -> u64 {
        let &[taken, skipped, scale, streak] = numbers else { return 0 };
        let before =
            std::mem::replace(&mut self.known, ControlState { taken, skipped, scale, streak });
        (skipped - before.skipped).max(0.0) as u64
    }

    /// The numbers as of the last read; `None` when nothing is counted.
    pub(crate) fn known(&self) -> Option<ControlState> {
        self.settings.skips().then_some(self.known)
    }

    /// Brings the numbers back; a checkpoint without them has taken all of its `steps`.
    pub(crate) fn restore(&mut self, state: Option<ControlState>, steps: u64) -> Result<(), Error> {
        let scale = self.settings.loss_scale.initial();
        let fresh = ControlState { taken: steps as f64, skipped: 0.0, scale, streak: 0.0 };
        let mut state = state.unwrap_or(fresh);
        if !matches!(self.settings.loss_scale, LossScale::Dynamic { .. }) {
            state.scale = scale;
        }
        let device = self.taken.device();
        self.taken = number(state.taken, device)?;
        self.skipped = number(state.skipped, device)?;
        self.scale = number(state.scale, device)?;
        self.streak = number(state.streak, device)?;
        self.known = state;
        Ok(())
    }
}
