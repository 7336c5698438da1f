//! Residual networks on pictures in CIFAR-10's layout.

mod resnet;

pub use resnet::{ResNet, ResNetConfig};

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser};
use shockwave_sdk::data::Images;

use crate::options::TrainingOptions;

/// Trains a ResNet on CIFAR-10
#[derive(Debug, Parser)]
#[command(args_override_self = true)]
pub struct CifarOptions {
    /// The pictures.
    #[command(flatten)]
    pub data: DataOptions,
    /// The network.
    #[command(flatten)]
    pub network: NetworkOptions,
    /// How it is trained.
    #[command(flatten)]
    pub training: TrainingOptions,
}

/// Where the pictures come from.
#[derive(Debug, Clone, Args)]
pub struct DataOptions {
    /// Folder with CIFAR-10's binary version (data_batch_*.bin, test_batch.bin), of any length.
    /// Without it a generated data set of the same layout is used.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Use only the first N training pictures (generated: 4096 without this).
    #[arg(long, value_name = "N")]
    pub train_samples: Option<usize>,
    /// Use only the first N test pictures (generated: 1024 without this).
    #[arg(long, value_name = "N")]
    pub test_samples: Option<usize>,
    /// Crop and mirror training pictures at random.
    #[arg(long)]
    pub augment: bool,
}

impl DataOptions {
    /// The training and the test pictures.
    ///
    /// # Errors
    /// The folder or a file in it cannot be used, or no picture is left.
    pub fn load(&self) -> Result<(Images, Images)> {
        let limits = [self.train_samples, self.test_samples];
        ensure!(
            !limits.contains(&Some(0)),
            "--train-samples and --test-samples must be at least 1"
        );
        let (train, test) = match &self.data {
            Some(folder) => Images::cifar10(folder).context("--data")?,
            None => {
                let [train, test] = [(limits[0], 4096), (limits[1], 1024)]
                    .map(|(limit, default)| limit.unwrap_or(default));
                // One data set for every --seed: runs differ in their course, not in their data.
                Images::generated(1, train, test)
            }
        };
        let train = train.take(limits[0].unwrap_or(usize::MAX)).augmented(self.augment);
        Ok((train, test.take(limits[1].unwrap_or(usize::MAX))))
    }
}

/// The network's shape.
#[derive(Debug, Clone, Args)]
pub struct NetworkOptions {
    /// Weighted layers: 18, 34 or 6n + 2 (8, 14, 20, ...).
    #[arg(long, default_value_t = 8)]
    pub depth: usize,
    /// Channels of the first stage [default: 64 for 18 and 34 layers, else 16].
    #[arg(long)]
    pub width: Option<i64>,
    /// Probability of dropping a feature before the last layer while training.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub dropout: f64,
}

impl NetworkOptions {
    /// The network's configuration for CIFAR-10.
    #[must_use]
    pub fn config(&self) -> ResNetConfig {
        let usual = if matches!(self.depth, 18 | 34) { 64 } else { 16 };
        let width = self.width.unwrap_or(usual);
        ResNetConfig { depth: self.depth, width, classes: 10, dropout: self.dropout }
    }
}
