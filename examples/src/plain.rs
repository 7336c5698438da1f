//! What a plain tch loop needs and a session of the SDK brings along.

use anyhow::Result;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use tch::nn::{self, OptimizerConfig, VarStore};

use crate::options::{OptimizerKind, TrainingOptions};

impl TrainingOptions {
    /// tch's own optimiser.
    ///
    /// # Errors
    /// libtorch refuses it.
    pub fn plain_optimizer(&self, vars: &VarStore) -> Result<nn::Optimizer> {
        Ok(match self.optimizer {
            OptimizerKind::Sgd => {
                let sgd = nn::Sgd { momentum: 0.9, wd: 5e-4, ..Default::default() };
                sgd.build(vars, self.lr())?
            }
            OptimizerKind::Adamw => {
                nn::AdamW { wd: 0.01, ..Default::default() }.build(vars, self.lr())?
            }
        })
    }

    /// The samples of an epoch in batches, in a new random order each epoch.
    #[must_use]
    pub fn shuffled(&self, samples: usize, epoch: u64) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..samples).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed ^ (epoch << 32)));
        order.chunks(self.batch.max(1) as usize).map(<[usize]>::to_vec).collect()
    }
}

/// Samples 0.. in batches of `batch`.
#[must_use]
pub fn in_order(samples: usize, batch: usize) -> Vec<Vec<usize>> {
    (0..samples).collect::<Vec<_>>().chunks(batch).map(<[usize]>::to_vec).collect()
}
