//! Residual networks on pictures: CIFAR's, generated ones like them, or a folder of one's own.

mod resnet;

pub use resnet::{ResNet, ResNetConfig};

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, ValueEnum};
use shockwave_sdk::Dataset;
use shockwave_sdk::data::{Fit, ImageFolder, Images};

use crate::options::TrainingOptions;

/// Trains a ResNet on pictures
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

impl AsRef<TrainingOptions> for CifarOptions {
    fn as_ref(&self) -> &TrainingOptions {
        &self.training
    }
}

/// What lies in `--data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// CIFAR-10's binary version: data_batch_*.bin, test_batch.bin, of any length.
    Cifar10,
    /// CIFAR-100's binary version: train.bin, test.bin, of any length.
    Cifar100,
    /// PNG and JPEG files: train/CLASS/FILE and test/CLASS/FILE.
    Folder,
}

/// Where the pictures come from.
#[derive(Debug, Clone, Args)]
pub struct DataOptions {
    /// Folder with pictures, see --format. Without it, generated pictures like CIFAR-10's are used.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// What lies in --data.
    #[arg(long, value_enum, default_value_t = Format::Cifar10)]
    pub format: Format,
    /// Height and width to which pictures of --format folder are scaled and cut.
    #[arg(long, default_value_t = 32, value_name = "PIXELS")]
    pub side: usize,
    /// Use only the first N training pictures (generated: 4096 without this; not with --format folder).
    #[arg(long, value_name = "N")]
    pub train_samples: Option<usize>,
    /// Use only the first N test pictures (generated: 1024 without this; not with --format folder).
    #[arg(long, value_name = "N")]
    pub test_samples: Option<usize>,
    /// Crop and mirror training pictures at random.
    #[arg(long)]
    pub augment: bool,
}

/// Training and test pictures.
pub struct Pictures {
    /// For training.
    pub train: Box<dyn Dataset>,
    /// For the test.
    pub test: Box<dyn Dataset>,
    /// Number of classes.
    pub classes: usize,
}

impl DataOptions {
    /// The training and the test pictures.
    ///
    /// # Errors
    /// The folder or a file in it cannot be used, or no picture is left.
    pub fn load(&self) -> Result<Pictures> {
        let limits = [self.train_samples, self.test_samples];
        ensure!(
            !limits.contains(&Some(0)),
            "--train-samples and --test-samples must be at least 1"
        );
        let (train, test) = match (&self.data, self.format) {
            (None, Format::Cifar10) => {
                let [train, test] = [(limits[0], 4096), (limits[1], 1024)]
                    .map(|(limit, default)| limit.unwrap_or(default));
                // One data set for every --seed: runs differ in their course, not in their data.
                Images::generated(1, train, test)
            }
            (None, _) => bail!("--format wants --data, the folder with the pictures"),
            (Some(folder), Format::Folder) => {
                ensure!(limits == [None; 2], "--format folder takes all pictures there are");
                return self.folder(folder).context("--data");
            }
            (Some(folder), Format::Cifar10) => Images::cifar10(folder).context("--data")?,
            (Some(folder), Format::Cifar100) => Images::cifar100(folder).context("--data")?,
        };
        let classes = train.classes();
        let train = train.take(limits[0].unwrap_or(usize::MAX)).augmented(self.augment);
        let test = test.take(limits[1].unwrap_or(usize::MAX));
        Ok(Pictures { train: Box::new(train), test: Box::new(test), classes })
    }

    fn folder(&self, folder: &Path) -> Result<Pictures> {
        let (train, test) = ImageFolder::pair(folder, self.side, self.side)?;
        let (train, test) = (train.fit(Fit::Crop), test.fit(Fit::Crop));
        // A damaged picture is found now, and not after hours of training.
        let levels = train.check()?;
        test.check()?;
        let train = train.normalised(&levels).augmented(self.augment);
        let (test, classes) = (test.normalised(&levels), train.classes().len());
        Ok(Pictures { train: Box::new(train), test: Box::new(test), classes })
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
    /// The network's configuration for pictures of `classes` classes.
    #[must_use]
    pub fn config(&self, classes: usize) -> ResNetConfig {
        let usual = if matches!(self.depth, 18 | 34) { 64 } else { 16 };
        let width = self.width.unwrap_or(usual);
        ResNetConfig { depth: self.depth, width, classes: classes as i64, dropout: self.dropout }
    }
}
