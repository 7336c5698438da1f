//! Command-line options of every training program.

use clap::{Args, ValueEnum};

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
    // A negative one is refused by the optimiser, by its name.
    #[arg(long, allow_negative_numbers = true)]
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
