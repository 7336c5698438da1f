//! Stochastic gradient descent with momentum, weight decay and Nesterov momentum.

use tch::Tensor;

use super::{Optimizer, by_blocks, check, factor};
use crate::Error;
use crate::gradient::Gate;

/// SGD as PyTorch defines it (no dampening): `d = g + wd p; m = momentum m + d; p = p - lr m`
/// (Nesterov: `p = p - lr (d + momentum m)`).
#[derive(Debug)]
pub struct Sgd {
    lr: f64,
    momentum: f64,
    weight_decay: f64,
    nesterov: bool,
    buffer: Option<Tensor>,
    steps: u64,
}

impl Sgd {
    /// Plain SGD with learning rate `lr` at the reference batch size.
    pub fn new(lr: f64) -> Self {
        Self { lr, momentum: 0.0, weight_decay: 0.0, nesterov: false, buffer: None, steps: 0 }
    }

    /// Sets the momentum, in [0, 1).
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }

    /// Sets the weight decay (L2 penalty added to the gradient).
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }

    /// Uses Nesterov momentum.
    pub fn nesterov(mut self) -> Self {
        self.nesterov = true;
        self
    }
}

impl Optimizer for Sgd {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn base_lr(&self) -> f64 {
        self.lr
    }

    fn prepare(&mut self, params: &Tensor) -> Result<(), Error> {
        check("the learning rate", self.lr, 0.0, f64::INFINITY)?;
        check("momentum", self.momentum, 0.0, 1.0)?;
        check("weight decay", self.weight_decay, 0.0, f64::INFINITY)?;
        if self.nesterov && self.momentum == 0.0 {
            return Err(Error::invalid("Nesterov's momentum", 0, "a momentum above 0"));
        }
        if self.momentum > 0.0 {
            self.buffer = Some(params.f_zeros_like()?);
        }
        Ok(())
    }

    fn step(
        &mut self,
        params: &mut Tensor,
        grads: &mut Tensor,
        lr: f64,
        gate: Option<Gate<'_>>,
    ) -> Result<(), Error> {
        let nesterov = self.nesterov;
        let decays = self.weight_decay != 0.0;
        let decay = factor(params, gate, self.weight_decay, 0.0)?;
        let rate = factor(params, gate, -lr, 0.0)?;
        let look_ahead = factor(params, None, self.momentum, self.momentum)?;
        let keep = factor(params, gate, self.momentum, 1.0)?;
        // Without momentum the buffer is not used: the gradients stand in for it.
        let buffer = self.buffer.as_ref();
        by_blocks([params, grads, buffer.unwrap_or(grads)], |[mut p, mut g, mut m]| {
            if decays {
                let _ = g.f_addcmul_(&p, &decay)?;
            }
            if buffer.is_some() {
                let _ = m.f_mul_(&keep)?.f_add_(&g)?;
            }
            if nesterov {
                let _ = g.f_addcmul_(&m, &look_ahead)?;
            }
            let _ = p.f_addcmul_(if nesterov { &g } else { &m }, &rate)?;
            // For the next step, while they are in the processor's cache.
            g.f_zero_().map(drop)
        })?;
        self.steps += 1;
        Ok(())
    }

    fn clears_gradients(&self) -> bool {
        true
    }

    fn moments(&self) -> Vec<(&'static str, Tensor)> {
        self.buffer.iter().map(|b| ("momentum", b.shallow_clone())).collect()
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn set_steps(&mut self, steps: u64) {
        self.steps = steps;
    }
}
