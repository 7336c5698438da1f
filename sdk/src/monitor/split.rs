//! Noise from one step whose batch is worked on in parts.
//!
//! With parts of `n_i` samples, weights `w_i = n_i / B` and gradients `g_i` (the step's gradient is `g = sum w_i g_i`):
//! two parts give `G2 = g_a . g_b` and `S = |g_a - g_b|^2 / (1/n_a + 1/n_b)`; more parts give
//! `G2 = (|g|^2 - sum w_i^2 |g_i|^2) / (1 - sum w_i^2)` and `S = B (sum w_i |g_i|^2 - |g|^2) / (A - 1)`. Both are unbiased.
//!
//! The cosine between two halves of the batch is taken from the gradients themselves where there are two parts, and
//! from the norms, `G2 / (G2 + 2 S / B)`, where there are more or where they are other workers'. With two equal parts the
//! two differ only in the mean of the norms: the geometric one there, the arithmetic one here.
//!
//! The two-part form takes `S` from the difference itself, without cancellation. The gradients of the parts are never
//! stored: the flat gradient buffer accumulates `w_i g_i`, and one more buffer keeps what it held before the last part.

use tch::{Kind, Tensor};

use super::noise::NoiseSample;
use super::norms::{pair, squared_difference, squared_norm};
use crate::Error;

/// Numbers that are read per sampled step.
pub(super) const ROW: usize = 4;

/// A sampled step's numbers, on the device until the next read.
#[derive(Debug)]
pub(super) struct Row {
    /// Shape `[ROW]`. A pair: [`pair`]'s numbers. Else `[sum w^2 |g_i|^2, sum w |g_i|^2, |g|^2, 0]`.
    pub values: Tensor,
    parts: Vec<usize>,
    /// Whether the two gradients themselves were at hand, and not only their norms.
    pair: bool,
}

/// The weight of each part.
fn weights(parts: &[usize]) -> Vec<f64> {
    let total: usize = parts.iter().sum();
    parts.iter().map(|&n| n as f64 / total as f64).collect()
}

impl Row {
    /// The row of a step whose parts were other workers': `values` as in [`Row::values`] without a pair.
    pub(super) fn of_workers(values: Tensor, parts: Vec<usize>) -> Self {
        Self { values, parts, pair: false }
    }

    /// The estimates, from the numbers as read on the host.
    pub(super) fn sample(&self, values: &[f64]) -> NoiseSample {
        let w = weights(&self.parts);
        let &[first, second, third, fourth] = values else {
            return NoiseSample { s: f64::NAN, g2: f64::NAN, cosine: f64::NAN };
        };
        if let ([na, nb], true) = (&self.parts[..], self.pair) {
            let (na, nb) = (*na, *nb);
            let (dot, difference) = (first / (w[0] * w[1]), second / (w[1] * w[1]));
            let s = difference / (1.0 / na as f64 + 1.0 / nb as f64);
            return NoiseSample { s, g2: dot, cosine: first / (third * fourth).sqrt() };
        }
        let batch: usize = self.parts.iter().sum();
        let g2 = (third - first) / (1.0 - w.iter().map(|w| w * w).sum::<f64>());
        let s = batch as f64 * (second - third) / (self.parts.len() - 1) as f64;
        // What two halves of the batch would be: E[g_a . g_b] = G2, and E|g_a|^2 = G2 + 2 S / B.
        let half = g2 + 2.0 * s / batch as f64;
        let cosine = if half > 0.0 { g2 / half } else { f64::NAN };
        NoiseSample { s, g2, cosine }
    }
}

/// Follows one step's backward passes.
#[derive(Debug)]
pub(super) struct Split {
    parts: Vec<usize>,
    /// Squared norms of the `w_i g_i` so far, when there are more than two parts.
    squares: Vec<Tensor>,
    done: usize,
}

impl Split {
    /// A step in parts of these many samples (two at least).
    pub(super) fn new(parts: Vec<usize>) -> Self {
        Self { parts, squares: Vec::new(), done: 0 }
    }

    /// To be called after each part's backward: `grads` has accumulated the parts so far, `before` is a buffer of the
    /// same size that this keeps for itself. Returns the row after the last part.
    pub(super) fn after_part(
        &mut self,
        grads: &Tensor,
        before: &mut Tensor,
    ) -> Result<Option<Row>, Error> {
        let last = self.done + 1 == self.parts.len();
        if self.parts.len() > 2 {
            self.squares.push(match self.done {
                0 => squared_norm(grads)?,
                _ => squared_difference(grads, before)?,
            });
        }
        self.done += 1;
        if !last {
            before.f_copy_(grads)?;
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.parts);
        let values = match parts[..] {
            [na, nb] => pair(before, grads, nb as f64 / na as f64)?,
            _ => self.sums(grads, &weights(&parts))?,
        };
        let pair = parts.len() == 2;
        Ok(Some(Row { values, parts, pair }))
    }

    /// The row of a step in more than two parts.
    fn sums(&self, grads: &Tensor, weights: &[f64]) -> Result<Tensor, Error> {
        let scaled: Result<Vec<Tensor>, tch::TchError> =
            self.squares.iter().zip(weights).map(|(q, w)| q.f_mul_scalar(1.0 / w)).collect();
        let plain = Tensor::f_stack(&self.squares, 0)?.f_sum(Kind::Double)?;
        let scaled = Tensor::f_stack(&scaled?, 0)?.f_sum(Kind::Double)?;
        let total = squared_norm(grads)?;
        Ok(Tensor::f_stack(&[&plain, &scaled, &total, &total.f_zeros_like()?], 0)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::arena::CHUNK;

    /// Runs parts with these gradients and returns the sample.
    fn run(gradients: &[Tensor], parts: &[usize]) -> NoiseSample {
        let mut grads = gradients[0].zeros_like();
        let mut before = grads.zeros_like();
        let mut split = Split::new(parts.to_vec());
        let mut row = None;
        for (g, w) in gradients.iter().zip(weights(parts)) {
            let _ = grads.g_add_(&(g * w));
            row = split.after_part(&grads, &mut before).unwrap();
        }
        let row = row.unwrap();
        row.sample(&Vec::<f64>::try_from(&row.values).unwrap())
    }

    fn random(seed: i64) -> Tensor {
        tch::manual_seed(seed);
        Tensor::randn([2 * CHUNK], (Kind::Double, Device::Cpu))
    }

    fn dot(a: &Tensor, b: &Tensor) -> f64 {
        (a * b).sum(Kind::Double).double_value(&[])
    }

    #[test]
    fn two_parts_give_the_dot_product_and_the_scaled_difference() {
        let (a, b) = (random(1), random(2) + 0.5);
        let d = &a - &b;
        let got = run(&[a.copy(), b.copy()], &[24, 40]);
        assert!((got.g2 / dot(&a, &b) - 1.0).abs() < 1e-9);
        assert!((got.s / (dot(&d, &d) / (1.0 / 24.0 + 1.0 / 40.0)) - 1.0).abs() < 1e-9);
        let cosine = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
        assert!((got.cosine - cosine).abs() < 1e-9);
    }

    #[test]
    fn two_workers_norms_give_what_their_gradients_give() {
        let (a, b) = (random(1), random(2) + 0.5);
        let (na, nb) = (24usize, 40usize);
        let expected = run(&[a.copy(), b.copy()], &[na, nb]);
        // What each worker knows: the norm of its own weighted gradient; and of the sum.
        let w = weights(&[na, nb]);
        let weighted = [&a * w[0], &b * w[1]];
        let squares = weighted.each_ref().map(|g| dot(g, g));
        let sum = &weighted[0] + &weighted[1];
        let scaled = squares[0] / w[0] + squares[1] / w[1];
        let numbers = [squares[0] + squares[1], scaled, dot(&sum, &sum), 0.0];
        let got = Row::of_workers(Tensor::from_slice(&numbers), vec![na, nb]).sample(&numbers);
        assert!((got.g2 / expected.g2 - 1.0).abs() < 1e-9, "{got:?}, {expected:?}");
        assert!((got.s / expected.s - 1.0).abs() < 1e-9, "{got:?}, {expected:?}");
    }

    #[test]
    fn the_cosine_of_halves_is_known_from_any_parts() {
        let g = random(3) * 2.0;
        // Eight gradients of 8 samples each around g: in eight, four and two parts of the same batch.
        let eighths: Vec<Tensor> = (20..28).map(|i| &g + random(i) * 4.0).collect();
        let merge = |parts: &[Tensor]| -> Vec<Tensor> {
            parts.chunks(2).map(|pair| (&pair[0] + &pair[1]) * 0.5).collect()
        };
        let quarters = merge(&eighths);
        let halves = merge(&quarters);
        let exact = run(&halves, &[32, 32]).cosine;
        assert!((0.3..0.9).contains(&exact), "{exact}");
        for (parts, samples) in [(&eighths, 8), (&quarters, 16)] {
            let cosine = run(parts, &vec![samples; parts.len()]).cosine;
            assert!((cosine - exact).abs() < 0.05, "{} parts: {cosine}, {exact}", parts.len());
        }
        // Two workers know the norms alone.
        let (a, b) = (&halves[0] * 0.5, &halves[1] * 0.5);
        let (aa, bb, sum) = (dot(&a, &a), dot(&b, &b), &a + &b);
        let numbers = [aa + bb, 2.0 * (aa + bb), dot(&sum, &sum), 0.0];
        let row = Row::of_workers(Tensor::from_slice(&numbers), vec![32, 32]);
        let cosine = row.sample(&numbers).cosine;
        assert!((cosine - exact).abs() < 1e-3, "{cosine}, {exact}");
        assert!((cosine - dot(&a, &b) / (0.5 * (aa + bb))).abs() < 1e-12);
    }

    #[test]
    fn more_parts_give_the_mean_over_all_pairs() {
        // An independent way to the same numbers: U-statistics over the pairs of parts.
        let parts = [8usize, 16, 8, 32];
        let g: Vec<Tensor> = (1..=4).map(|i| random(10 + i) + 0.3).collect();
        let w = weights(&parts);
        let (mut num, mut den) = (0.0, 0.0);
        for i in 0..4 {
            for j in (0..4).filter(|&j| j != i) {
                num += w[i] * w[j] * dot(&g[i], &g[j]);
                den += w[i] * w[j];
            }
        }
        let mean = g.iter().zip(&w).fold(g[0].zeros_like(), |m, (g, w)| m + g * *w);
        let spread: f64 = g.iter().zip(&w).map(|(g, w)| w * dot(&(g - &mean), &(g - &mean))).sum();
        let got = run(&g, &parts);
        assert!((got.g2 / (num / den) - 1.0).abs() < 1e-9, "{got:?}");
        assert!((got.s / (64.0 * spread / 3.0) - 1.0).abs() < 1e-9, "{got:?}");
    }
}
