//! The gradient noise scale from smoothed squared norms, with a confidence interval.
//!
//! McCandlish et al. 2018, appendix A.1: `B_noise = tr(Sigma) / |G|^2`, estimated from unbiased `S` and `G2`. Both are
//! smoothed separately and divided last: the mean of ratios would be biased, and one sample's `G2` may be negative.

use serde::{Deserialize, Serialize};

/// The two-sided 95 % point of the normal distribution.
const Z95: f64 = 1.959_963_984_540_054;

/// Samples (in effect, after smoothing) below which no interval is claimed.
const MIN_EFFECTIVE: f64 = 4.0;

/// What one step that was split into parts says about the gradient's noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseSample {
    /// Unbiased estimate of `tr(Sigma)`, per sample.
    pub s: f64,
    /// Unbiased estimate of `|G|^2`.
    pub g2: f64,
    /// Cosine between the gradients of two halves of the batch; not a number when the parts do not tell it.
    pub cosine: f64,
}

/// An estimate of the gradient noise scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseEstimate {
    /// Trace of the gradients' covariance per sample, `tr(Sigma)`.
    pub s: f64,
    /// Squared norm of the true gradient, `|G|^2`.
    pub g2: f64,
    /// The simple noise scale `s / g2`, in samples; infinite when `g2` is not above zero.
    pub b_noise: f64,
    /// 95 % confidence interval of the noise scale, in samples; the upper end may be infinite.
    pub interval: (f64, f64),
    /// Smoothed cosine between the gradients of two halves of a batch.
    pub cosine: f64,
    /// Number of sampled steps behind it.
    pub samples: u64,
}

impl NoiseEstimate {
    /// Pollux's statistical efficiency of a batch of `batch` samples against one of `reference` samples: the progress
    /// per sample, 1 at the reference (Qiao et al. 2021). Advice only.
    pub fn efficiency(&self, batch: u64, reference: u64) -> f64 {
        if self.b_noise.is_infinite() {
            return 1.0;
        }
        (self.b_noise + reference as f64) / (self.b_noise + batch as f64)
    }

    /// AdaScale's gain of a batch of `batch` samples over one of `reference` samples (Johnson et al. 2020).
    pub fn gain(&self, batch: u64, reference: u64) -> f64 {
        let ratio = batch as f64 / reference as f64;
        if self.b_noise.is_infinite() {
            return ratio;
        }
        crate::lr::gain(self.b_noise, batch as f64, reference as f64)
    }
}

/// Bias-corrected exponential moving averages of `S` and `G2`, with their covariance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseAverage {
    beta: f64,
    samples: u64,
    /// Averages of s, g2, s^2, g2^2, s g2, not yet corrected for their start at zero.
    sums: [f64; 5],
    cosine: f64,
    cosine_weight: f64,
}

impl NoiseAverage {
    /// Averages that forget with the factor `beta` (in (0, 1)) at each sample: about `1 / (1 - beta)` samples count.
    pub fn new(beta: f64) -> Self {
        Self { beta, samples: 0, sums: [0.0; 5], cosine: 0.0, cosine_weight: 0.0 }
    }

    /// Adds one sample. One that is not finite (a step that overflowed) is left out.
    pub fn add(&mut self, sample: NoiseSample) {
        let NoiseSample { s, g2, cosine } = sample;
        if !(s.is_finite() && g2.is_finite()) {
            return;
        }
        self.samples += 1;
        for (sum, x) in self.sums.iter_mut().zip([s, g2, s * s, g2 * g2, s * g2]) {
            *sum = self.beta * *sum + (1.0 - self.beta) * x;
        }
        if cosine.is_finite() {
            self.cosine = self.beta * self.cosine + (1.0 - self.beta) * cosine;
            self.cosine_weight = self.beta * self.cosine_weight + (1.0 - self.beta);
        }
    }

    /// Forgets the cosine, which depends on the batch size; `S` and `G2` do not.
    pub(crate) fn forget_cosine(&mut self) {
        (self.cosine, self.cosine_weight) = (0.0, 0.0);
    }

    /// The estimate, or `None` before the first sample.
    pub fn estimate(&self) -> Option<NoiseEstimate> {
        if self.samples == 0 {
            return None;
        }
        let weight = 1.0 - self.beta.powf(self.samples as f64);
        let [s, g2, ss, gg, sg] = self.sums.map(|x| x / weight);
        // Sum of the squared weights: the variance of a weighted mean is this share of one sample's variance.
        let share = (1.0 - self.beta) * (1.0 - self.beta.powf(2.0 * self.samples as f64))
            / ((1.0 + self.beta) * weight * weight);
        let effective = 1.0 / share;
        let interval = if effective < MIN_EFFECTIVE {
            (0.0, f64::INFINITY)
        } else {
            let scale = share / (1.0 - share);
            let var = [ss - s * s, gg - g2 * g2, sg - s * g2].map(|v| v * scale);
            fieller(s, g2, var, student95(effective - 1.0))
        };
        let b_noise = if g2 > 0.0 { s / g2 } else { f64::INFINITY };
        let cosine = self.cosine / self.cosine_weight;
        Some(NoiseEstimate { s, g2, b_noise, interval, cosine, samples: self.samples })
    }
}

/// The two-sided 95 % point of Student's distribution with `freedom` degrees (Cornish and Fisher's expansion).
fn student95(freedom: f64) -> f64 {
    let z = Z95;
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * freedom)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * freedom * freedom)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * freedom.powi(3))
}

/// Fieller's interval for the ratio of two means `s / g` with the variances `[var s, var g, cov]` of the means, cut at
/// zero. When `g` is not clearly above zero the upper end is infinite.
fn fieller(s: f64, g: f64, [vs, vg, vsg]: [f64; 3], t: f64) -> (f64, f64) {
    let t2 = t * t;
    let (a, b, c) = (g * g - t2 * vg, s * g - t2 * vsg, s * s - t2 * vs);
    let root = (b * b - a * c).max(0.0).sqrt();
    if a > 0.0 && g > 0.0 {
        return (((b - root) / a).max(0.0), ((b + root) / a).max(0.0));
    }
    // The ratios that agree with the data are all beyond one bound: written so that it does not divide by a = 0.
    let low = if b + root > 0.0 { c / (b + root) } else { 0.0 };
    (low.max(0.0), f64::INFINITY)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn student_points_agree_with_tables() {
        for (freedom, point) in [(5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (120.0, 1.980)] {
            assert!(
                (student95(freedom) - point).abs() < 0.005,
                "{freedom}: {}",
                student95(freedom)
            );
        }
    }

    #[test]
    fn constant_samples_give_their_ratio_and_a_point_interval() {
        let mut average = NoiseAverage::new(0.9);
        assert!(average.estimate().is_none());
        for n in 0..50 {
            average.add(NoiseSample { s: 300.0, g2: 2.0, cosine: 0.25 });
            let e = average.estimate().unwrap();
            assert!((e.b_noise - 150.0).abs() < 1e-9 && (e.cosine - 0.25).abs() < 1e-12);
            if n > 20 {
                assert!((e.interval.0 - 150.0).abs() < 1e-3 && (e.interval.1 - 150.0).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn samples_that_are_not_finite_are_left_out() {
        let mut average = NoiseAverage::new(0.9);
        average.add(NoiseSample { s: 10.0, g2: 1.0, cosine: f64::NAN });
        average.add(NoiseSample { s: f64::NAN, g2: 1.0, cosine: 0.0 });
        average.add(NoiseSample { s: 10.0, g2: f64::INFINITY, cosine: 0.0 });
        let e = average.estimate().unwrap();
        assert_eq!((e.samples, e.b_noise.round()), (1, 10.0));
        assert_eq!(e.interval, (0.0, f64::INFINITY));
    }

    #[test]
    fn no_signal_means_no_upper_end() {
        let mut average = NoiseAverage::new(0.95);
        for i in 0..200 {
            let g2 = if i % 2 == 0 { 1.0 } else { -0.9 };
            average.add(NoiseSample { s: 100.0, g2, cosine: 0.0 });
        }
        let e = average.estimate().unwrap();
        assert_eq!(e.interval.1, f64::INFINITY);
        assert!(e.interval.0 > 100.0 && e.interval.0 < 1000.0, "{e:?}");
    }

    #[test]
    fn the_state_survives_json_exactly() {
        let mut average = NoiseAverage::new(0.99);
        (0..37).for_each(|i| {
            average.add(NoiseSample {
                s: 1.0 / f64::from(i + 3),
                g2: f64::from(i).sin(),
                cosine: 0.1,
            });
        });
        let text = serde_json::to_string(&average).unwrap();
        assert_eq!(serde_json::from_str::<NoiseAverage>(&text).unwrap(), average);
    }
}
