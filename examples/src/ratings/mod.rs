//! A recommender that learns from who has used what.

mod interactions;
mod neumf;

pub use interactions::{Interactions, Ranking};
pub use neumf::NeuMf;

use anyhow::{Result, ensure};
use clap::Parser;
use tch::{Reduction, Tensor};

use crate::options::TrainingOptions;

/// Trains a recommender on generated interactions of users with items
#[derive(Debug, Parser)]
#[command(args_override_self = true)]
pub struct RatingsOptions {
    /// Users.
    #[arg(long, default_value_t = 600, value_name = "N")]
    pub users: usize,
    /// Items.
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub items: usize,
    /// Items that each user has used.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub each: usize,
    /// Features of each user and item.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub width: i64,
    /// How it is trained.
    #[command(flatten)]
    pub training: TrainingOptions,
}

impl AsRef<TrainingOptions> for RatingsOptions {
    fn as_ref(&self) -> &TrainingOptions {
        &self.training
    }
}

impl RatingsOptions {
    /// The training interactions, and for each user one that was kept for the test.
    ///
    /// # Errors
    /// Numbers with which there is nothing to choose from.
    pub fn load(&self) -> Result<(Interactions, Ranking)> {
        ensure!(self.users >= 1, "--users 0: at least 1 is needed");
        ensure!(self.width >= 1, "--width {}: at least 1 is needed", self.width);
        ensure!(
            self.each >= 2 && self.items >= 100 + self.each,
            "--items {} with --each {}: at least 2 for each, and 100 items more than that",
            self.items,
            self.each
        );
        // One data set for every --seed: runs differ in their course, not in their data.
        Ok(interactions::generate(1, self.users, self.items, self.each))
    }
}

/// The mean cross entropy of logits against 0 or 1.
pub fn loss(logits: &Tensor, used: &Tensor) -> Tensor {
    logits.binary_cross_entropy_with_logits::<Tensor>(used, None, None, Reduction::Mean)
}
