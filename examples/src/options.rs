//! Command-line options of the CIFAR programs.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use shockwave_sdk::data::Images;

use crate::resnet::ResNetConfig;

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
    #[arg(long, default_value_t = 0.0)]
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

/// The optimiser's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OptimizerKind {
    /// SGD with momentum 0.9 and weight decay 5e-4.
    Sgd,
    /// AdamW with weight decay 0.01.
    Adamw,
}

impl OptimizerKind {
    /// The learning rate that is usual for it at batch size 128.
    #[must_use]
    pub fn usual_lr(self) -> f64 {
        match self {
            Self::Sgd => 0.1,
            Self::Adamw => 1e-3,
        }
    }
}

/// How long and with what to train.
#[derive(Debug, Clone, Args)]
pub struct TrainingOptions {
    /// Epochs in all.
    #[arg(long, default_value_t = 10)]
    pub epochs: u64,
    /// Batch size, in samples; a policy starts with it.
    #[arg(long, default_value_t = 32)]
    pub batch: u64,
    /// The optimiser.
    #[arg(long, value_enum, default_value_t = OptimizerKind::Sgd)]
    pub optimizer: OptimizerKind,
    /// Learning rate at --batch [default: the optimiser's usual one, in proportion to --batch].
    #[arg(long)]
    pub lr: Option<f64>,
    /// Seed of the initial weights, the order of samples, dropout and augmentation.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Threads of libtorch [default: its own choice]. Sums depend on it in their last digits.
    #[arg(long)]
    pub threads: Option<i32>,
}

impl TrainingOptions {
    /// Sets libtorch's threads and seed. To be called before the network is made.
    pub fn prepare(&self) {
        if let Some(threads) = self.threads {
            tch::set_num_threads(threads.max(1));
        }
        tch::manual_seed(self.seed as i64);
    }

    /// The learning rate at `--batch`.
    #[must_use]
    pub fn lr(&self) -> f64 {
        self.lr.unwrap_or_else(|| {
            let rate = self.optimizer.usual_lr();
            match self.optimizer {
                // Goyal et al. 2017: in proportion to the batch size.
                OptimizerKind::Sgd => rate * self.batch as f64 / 128.0,
                OptimizerKind::Adamw => rate,
            }
        })
    }
}
