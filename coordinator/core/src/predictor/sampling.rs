//! Trajectories drawn from a posterior, reproducibly (Appendix F).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Gamma, StandardNormal};

use super::RegimeForecast;
use super::throughput::{EpochModel, Estimate};
use crate::types::JobSpec;

/// A generator for one job: equal seeds and jobs give equal draws, whatever else is drawn.
pub(super) fn generator(spec: &JobSpec, seed: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(spec.id.0);
    rng
}

/// Dirichlet draw with these parameters: fractions that sum to 1.
///
/// Parameters of 0 and below get a fraction of 0; without any above 0 the last takes all.
pub(super) fn dirichlet(rng: &mut ChaCha8Rng, parameters: impl Iterator<Item = f64>) -> Vec<f64> {
    let draw = |parameter: f64| match Gamma::new(parameter, 1.0) {
        Ok(gamma) if parameter > 0.0 => gamma.sample(rng),
        _ => 0.0,
    };
    let mut draws: Vec<f64> = parameters.map(draw).collect();
    let sum: f64 = draws.iter().sum();
    if sum > 0.0 {
        draws.iter_mut().for_each(|d| *d /= sum);
    } else if let Some(last) = draws.last_mut() {
        *last = 1.0;
    }
    draws
}

/// One draw of an epoch's duration, log-normal so that it stays above 0.
pub(super) fn epoch_s(rng: &mut ChaCha8Rng, estimate: Estimate) -> f64 {
    let variance = (estimate.sd_s / estimate.mean_s).powi(2).ln_1p();
    let normal: f64 = StandardNormal.sample(rng);
    estimate.mean_s * (normal * variance.sqrt() - 0.5 * variance).exp()
}

/// Turns epochs per configuration into regimes, each batch size's epoch time drawn once.
pub(super) fn regimes(
    rng: &mut ChaCha8Rng,
    batches: &[u32],
    epochs: &[f64],
    model: &EpochModel,
) -> Vec<RegimeForecast> {
    let mut drawn: Vec<RegimeForecast> = Vec::with_capacity(batches.len());
    for (batch, epochs) in batches.iter().zip(epochs) {
        let known = drawn.iter().find(|r| r.batch == *batch).map(|r| r.epoch_s);
        let epoch_s = known.unwrap_or_else(|| epoch_s(rng, model.epoch(*batch)));
        drawn.push(RegimeForecast { batch: *batch, epochs: *epochs, epoch_s });
    }
    drawn
}
