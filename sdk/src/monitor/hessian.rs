//! The Hessian's largest eigenvalue and trace, by products of the Hessian with vectors (double backward).
//!
//! A product costs two backward passes (Pearlmutter 1994). Power iteration: Yao et al., "Hessian-based analysis of large
//! batch training", 2018; the trace by Hutchinson's estimator with signs. Not valid where the loss draws random numbers
//! anew in each pass (dropout); BatchNorm in training mode couples the samples of the batch.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tch::{Kind, Tensor};

use crate::Error;

/// How long power iteration goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerIteration {
    /// Most products of the Hessian with a vector (default 50).
    pub iterations: u32,
    /// It ends when the estimate has changed by less than this share (default 1e-3).
    pub tolerance: f64,
    /// Seed of the vector that it begins with (default 0).
    pub seed: u64,
}

impl Default for PowerIteration {
    fn default() -> Self {
        Self { iterations: 50, tolerance: 1e-3, seed: 0 }
    }
}

/// An eigenvalue as power iteration found it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eigenvalue {
    /// The eigenvalue of largest magnitude, with its sign.
    pub value: f64,
    /// Products that it took.
    pub iterations: u32,
    /// Whether the tolerance was reached.
    pub converged: bool,
}

/// The gradient of a loss with its graph, to be multiplied with vectors.
struct Curvature {
    variables: Vec<Tensor>,
    gradients: Vec<Tensor>,
}

/// The dot product of two lists of tensors, in double precision.
fn dot(a: &[Tensor], b: &[Tensor]) -> Result<Tensor, tch::TchError> {
    let products: Result<Vec<Tensor>, _> =
        a.iter().zip(b).map(|(a, b)| a.f_mul(b)?.f_sum(Kind::Double)).collect();
    Tensor::f_stack(&products?, 0)?.f_sum(Kind::Double)
}

fn scale(list: &mut [Tensor], factor: f64) -> Result<(), tch::TchError> {
    list.iter_mut().try_for_each(|tensor| tensor.f_mul_scalar_(factor).map(drop))
}

/// Zeros for the variables that the differentiated number does not depend on.
fn defined(derivatives: Vec<Tensor>, of: &[Tensor]) -> Result<Vec<Tensor>, tch::TchError> {
    let filled = |(d, v): (Tensor, &Tensor)| if d.defined() { Ok(d) } else { v.f_zeros_like() };
    derivatives.into_iter().zip(of).map(filled).collect()
}

impl Curvature {
    fn new(variables: Vec<Tensor>, loss: &Tensor) -> Result<Self, Error> {
        if variables.is_empty() {
            return Err(Error::invalid("the number of variables", 0, "at least one"));
        }
        let gradients = Tensor::f_run_backward(&[loss], &variables, true, true)?;
        let gradients = defined(gradients, &variables)?;
        Ok(Self { variables, gradients })
    }

    /// The Hessian times `vector`.
    fn times(&self, vector: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let product = dot(&self.gradients, vector)?;
        let times = Tensor::f_run_backward(&[product], &self.variables, true, false)?;
        Ok(defined(times, &self.variables)?)
    }

    /// A vector like the variables, of drawn numbers.
    fn drawn(&self, mut draw: impl FnMut() -> f32) -> Result<Vec<Tensor>, Error> {
        let like = |variable: &Tensor| {
            let values: Vec<f32> = (0..variable.numel()).map(|_| draw()).collect();
            let flat = Tensor::f_from_slice(&values)?.f_to_kind(variable.f_kind()?)?;
            Ok(flat.f_to(variable.device())?.f_view_(variable.size())?)
        };
        self.variables.iter().map(like).collect()
    }
}

/// The eigenvalue of largest magnitude of the Hessian of `loss` (a scalar with its graph) over `variables`. One host
/// read per product.
///
/// # Errors
/// [`Error::Torch`], also when an operation in the loss has no second derivative; [`Error::Invalid`] without variables.
pub fn top_eigenvalue(
    loss: &Tensor,
    variables: Vec<Tensor>,
    settings: PowerIteration,
) -> Result<Eigenvalue, Error> {
    let curvature = Curvature::new(variables, loss)?;
    let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
    // Not of signs: in small models such a vector may be at right angles to the one that is sought.
    let mut vector = curvature.drawn(|| rng.random_range(-1.0..1.0))?;
    let length = dot(&vector, &vector)?.f_double_value(&[])?.sqrt();
    scale(&mut vector, 1.0 / length)?;
    let mut value = f64::NAN;
    for iterations in 1..=settings.iterations {
        let mut product = curvature.times(&vector)?;
        let numbers = [dot(&vector, &product)?, dot(&product, &product)?];
        let numbers = Vec::<f64>::try_from(Tensor::f_stack(&numbers, 0)?)?;
        let (next, length) = (numbers[0], numbers[1].sqrt());
        if length == 0.0 || !length.is_finite() {
            let converged = length == 0.0;
            return Ok(Eigenvalue { value: next, iterations, converged });
        }
        if (next - value).abs() <= settings.tolerance * next.abs() {
            return Ok(Eigenvalue { value: next, iterations, converged: true });
        }
        value = next;
        scale(&mut product, 1.0 / length)?;
        vector = product;
    }
    Ok(Eigenvalue { value, iterations: settings.iterations, converged: false })
}

/// The trace of the Hessian of `loss` over `variables`: its mean over `probes` vectors of random signs, and the standard
/// error of that mean (0 for a diagonal Hessian; not a number for one probe).
///
/// # Errors
/// As [`top_eigenvalue`].
pub fn trace(
    loss: &Tensor,
    variables: Vec<Tensor>,
    probes: u32,
    seed: u64,
) -> Result<(f64, f64), Error> {
    let curvature = Curvature::new(variables, loss)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut samples = Vec::new();
    for _ in 0..probes.max(1) {
        let vector = curvature.drawn(|| if rng.random() { 1.0 } else { -1.0 })?;
        samples.push(dot(&vector, &curvature.times(&vector)?)?.f_double_value(&[])?);
    }
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Ok((mean, (variance / count).sqrt()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tch::Device;

    use super::*;

    /// `w^T A w / 2`, whose Hessian is A.
    fn quadratic(a: &[f64], n: i64) -> (Tensor, Vec<Tensor>) {
        let a = Tensor::from_slice(a).view([n, n]);
        let w = Tensor::ones([n], (Kind::Double, Device::Cpu)).set_requires_grad(true);
        (w.dot(&a.mv(&w)) * 0.5, vec![w])
    }

    #[test]
    fn the_largest_eigenvalue_of_a_quadratic() {
        // [[2, 1], [1, 2]] has the eigenvalues 3 and 1; [[1, 2], [2, -4]] has 1.70 and -4.70 (roots of x^2 + 3x - 8).
        let settings = PowerIteration { tolerance: 1e-12, iterations: 500, seed: 3 };
        let (loss, w) = quadratic(&[2.0, 1.0, 1.0, 2.0], 2);
        let found = top_eigenvalue(&loss, w, settings).unwrap();
        assert!((found.value - 3.0).abs() < 1e-6 && found.converged, "{found:?}");
        let (loss, w) = quadratic(&[1.0, 2.0, 2.0, -4.0], 2);
        let found = top_eigenvalue(&loss, w, settings).unwrap();
        assert!((found.value - (-3.0 - 41f64.sqrt()) / 2.0).abs() < 1e-6, "{found:?}");
        assert!(found.converged);
    }

    #[test]
    fn several_variables_are_one_vector() {
        // f = 3 a^2 + a b + 0.5 b^2 with a, b in variables of their own: [[6, 1], [1, 1]].
        let leaf = || Tensor::ones([1], (Kind::Double, Device::Cpu)).set_requires_grad(true);
        let (a, b) = (leaf(), leaf());
        let loss = (&a * &a * 3.0 + &a * &b + &b * &b * 0.5).sum(Kind::Double);
        let settings = PowerIteration { tolerance: 1e-12, ..PowerIteration::default() };
        let found = top_eigenvalue(&loss, vec![a, b], settings).unwrap();
        assert!((found.value - (7.0 + 29f64.sqrt()) / 2.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn hutchinsons_trace() {
        // Signs give the trace of a diagonal matrix exactly, whatever they are.
        let (loss, w) = quadratic(&[4.0, 0.0, 0.0, 0.0, -1.5, 0.0, 0.0, 0.0, 7.0], 3);
        let (mean, error) = trace(&loss, w, 5, 1).unwrap();
        assert!((mean - 9.5).abs() < 1e-9 && error < 1e-9, "{mean} +- {error}");
        // Else each probe is off by twice the sum of s_i s_j a_ij: standard deviation 2 sqrt(1 + 4 + 9) here.
        let (loss, w) = quadratic(&[2.0, 1.0, 2.0, 1.0, 5.0, 3.0, 2.0, 3.0, 1.0], 3);
        let (mean, error) = trace(&loss, w, 2000, 1).unwrap();
        let expected = 2.0 * 14f64.sqrt() / 2000f64.sqrt();
        assert!((error / expected - 1.0).abs() < 0.1, "{error} against {expected}");
        assert!((mean - 8.0).abs() < 4.0 * expected, "{mean}");
    }

    #[test]
    fn a_flat_loss_has_no_curvature() {
        let w = Tensor::ones([3], (Kind::Double, Device::Cpu)).set_requires_grad(true);
        // Its gradient has a graph, and the Hessian is 0.
        let loss = (&w - &w).square().sum(Kind::Double);
        let found = top_eigenvalue(&loss, vec![w], PowerIteration::default()).unwrap();
        assert_eq!((found.value, found.iterations, found.converged), (0.0, 1, true));
        let loss = Tensor::ones([1], (Kind::Double, Device::Cpu));
        assert!(top_eigenvalue(&loss, vec![], PowerIteration::default()).is_err());
    }
}
