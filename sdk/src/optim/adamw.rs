//! AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

use tch::Tensor;

use super::{Optimizer, by_blocks, check, factor};
use crate::Error;
use crate::gradient::Gate;

/// AdamW as PyTorch defines it:
/// `p = p (1 - lr wd); m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p = p - lr/(1-b1^t) m / (sqrt(v/(1-b2^t)) + eps)`.
#[derive(Debug)]
pub struct AdamW {
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    buffers: Option<Buffers>,
    steps: u64,
}

#[derive(Debug)]
struct Buffers {
    first: Tensor,
    /// `v / (1 - b2)`: one multiplication of the whole buffer less each step.
    second: Tensor,
}

impl AdamW {
    /// AdamW with learning rate `lr` at the reference batch size, betas (0.9, 0.999), eps 1e-8, weight decay 0.01.
    pub fn new(lr: f64) -> Self {
        Self { lr, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.01, buffers: None, steps: 0 }
    }

    /// Sets the decay rates of the two moments, each in [0, 1).
    pub fn betas(mut self, first: f64, second: f64) -> Self {
        self.betas = (first, second);
        self
    }

    /// Sets the term that keeps the denominator away from zero.
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Sets the decoupled weight decay.
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }
}

/// What a step multiplies by: scalars on the device, of the parameters' kind.
///
/// With `v = (1-b2) u` and `s = sqrt((1-b2)/c2)`, where `c1 = 1-b1^t` and `c2 = 1-b2^t`:
/// `lr/c1 m / (sqrt(v/c2) + eps) = m / ((sqrt(u) + eps/s) s c1/lr)`. At `lr` = 0 the denominator is infinite, and p stays.
struct Factors {
    decay: Tensor,
    first: Tensor,
    second: Tensor,
    eps: Tensor,
    rate: Tensor,
}

impl AdamW {
    fn factors(&self, params: &Tensor, lr: f64) -> Result<Factors, Error> {
        let (b1, b2) = self.betas;
        // powi takes i32; beyond that many steps both corrections are 1 in double precision.
        let t = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let (c1, c2) = (1.0 - b1.powi(t), 1.0 - b2.powi(t));
        let s = ((1.0 - b2) / c2).sqrt();
        let eps = factor(params, None, self.eps / s, 0.0)?;
        self.with(params, None, lr, eps, factor(params, None, -s * c1 / lr, 0.0)?)
    }

    /// The same where only the device knows the number of steps taken, and whether this is one: a skipped step has an
    /// infinite denominator, and leaves the moments.
    fn gated_factors(&self, params: &Tensor, lr: f64, gate: Gate<'_>) -> Result<Factors, Error> {
        let kind = params.f_kind()?;
        let (b1, b2) = self.betas;
        // Not 0 when none was taken: 0 times infinity would be no number.
        let t = gate.taken.f_clamp_min(1.0)?;
        let correction = |beta: f64| t.f_mul_scalar(beta.ln())?.f_expm1()?.f_neg();
        let s = correction(b2)?.f_reciprocal()?.f_mul_scalar(1.0 - b2)?.f_sqrt()?;
        let rate = s.f_mul(&correction(b1)?)?.f_mul_scalar(-1.0 / lr)?.f_div(gate.open)?;
        let eps = s.f_reciprocal()?.f_mul_scalar(self.eps)?.f_to_kind(kind)?;
        self.with(params, Some(gate), lr, eps, rate.f_to_kind(kind)?)
    }

    /// Together with what depends on nothing but the settings and the gate.
    fn with(
        &self,
        params: &Tensor,
        gate: Option<Gate<'_>>,
        lr: f64,
        eps: Tensor,
        rate: Tensor,
    ) -> Result<Factors, Error> {
        Ok(Factors {
            decay: factor(params, gate, 1.0 - lr * self.weight_decay, 1.0)?,
            first: factor(params, gate, 1.0 - self.betas.0, 0.0)?,
            second: factor(params, gate, self.betas.1, 1.0)?,
            eps,
            rate,
        })
    }
}

impl Optimizer for AdamW {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn base_lr(&self) -> f64 {
        self.lr
    }

    fn prepare(&mut self, params: &Tensor) -> Result<(), Error> {
        check("the learning rate", self.lr, 0.0, f64::INFINITY)?;
        check("the first beta", self.betas.0, 0.0, 1.0)?;
        check("the second beta", self.betas.1, 0.0, 1.0)?;
        check("eps", self.eps, f64::MIN_POSITIVE, f64::INFINITY)?;
        check("weight decay", self.weight_decay, 0.0, f64::INFINITY)?;
        let zeros = || params.f_zeros_like();
        self.buffers = Some(Buffers { first: zeros()?, second: zeros()? });
        Ok(())
    }

    fn step(
        &mut self,
        params: &mut Tensor,
        grads: &mut Tensor,
        lr: f64,
        gate: Option<Gate<'_>>,
    ) -> Result<(), Error> {
        if self.buffers.is_none() {
            self.prepare(params)?;
        }
        self.steps += 1;
        let factors = match gate {
            Some(gate) => self.gated_factors(params, lr, gate)?,
            None => self.factors(params, lr)?,
        };
        let Some(buffers) = &self.buffers else { return Ok(()) };
        let Factors { decay, first, second, eps, rate } = factors;
        by_blocks(
            [params, grads, &buffers.first, &buffers.second],
            |[mut p, mut g, mut m, mut u]| {
                let _ = p.f_mul_(&decay)?;
                let _ = m.f_lerp_tensor_(&g, &first)?;
                let _ = u.f_mul_(&second)?;
                let _ = u.f_addcmul_(&g, &g)?;
                // The gradients are used up: their buffer takes the denominator.
                let _ = u.f_sqrt_out(&g)?;
                let _ = g.f_add_(&eps)?;
                let _ = g.f_mul_(&rate)?;
                let _ = p.f_addcdiv_(&m, &g)?;
                // For the next step, while they are in the processor's cache.
                g.f_zero_().map(drop)
            },
        )?;
        Ok(())
    }

    fn clears_gradients(&self) -> bool {
        true
    }

    fn moments(&self) -> Vec<(&'static str, Tensor)> {
        let Some(b) = &self.buffers else { return Vec::new() };
        vec![("first", b.first.shallow_clone()), ("second", b.second.shallow_clone())]
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn set_steps(&mut self, steps: u64) {
        self.steps = steps;
    }
}
