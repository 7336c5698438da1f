//! Residual networks for 32 x 32 pictures, of settable depth and width.
//!
//! Source: He et al., "Deep Residual Learning for Image Recognition", 2016: section 4.2 (depth
//! 6n + 2: three stages of n basic blocks) and table 1 (18 and 34 layers: four stages, here with
//! the 3 x 3 first convolution without pooling that is usual for CIFAR).

use anyhow::{Result, bail};
use tch::nn::{self, ModuleT};
use tch::{Kind, Tensor};

/// Shape of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResNetConfig {
    /// Weighted layers: 18, 34, or 6n + 2 (8, 14, 20, ...).
    pub depth: usize,
    /// Channels of the first stage; each later stage has twice as many (ResNet-18: 64).
    pub width: i64,
    /// Number of classes.
    pub classes: i64,
    /// Probability that a feature is dropped before the last layer while training.
    pub dropout: f64,
}

impl ResNetConfig {
    /// Basic blocks in each stage.
    ///
    /// # Errors
    /// A depth that no published network has, or a width under 1.
    pub fn blocks(&self) -> Result<Vec<usize>> {
        if self.width < 1 {
            bail!("width {}: a stage needs at least 1 channel", self.width);
        }
        if !(0.0..1.0).contains(&self.dropout) {
            bail!("dropout {}: must be at least 0 and under 1", self.dropout);
        }
        match self.depth {
            18 => Ok(vec![2; 4]),
            34 => Ok(vec![3, 4, 6, 3]),
            depth if depth >= 8 && (depth - 2).is_multiple_of(6) => Ok(vec![(depth - 2) / 6; 3]),
            depth => bail!("depth {depth}: use 18, 34 or 6n + 2 (8, 14, 20, 26, 32, 44, 56, 110)"),
        }
    }
}

/// A residual network: logits from pictures.
#[derive(Debug)]
pub struct ResNet {
    stem: Convolution,
    blocks: Vec<Block>,
    dropout: f64,
    head: nn::Linear,
}

impl ResNet {
    /// Creates the variables under `path`.
    ///
    /// # Errors
    /// See [`ResNetConfig::blocks`].
    pub fn new(path: &nn::Path, config: &ResNetConfig) -> Result<Self> {
        let stem = Convolution::new(&(path / "stem"), 3, config.width, 3, 1);
        let mut blocks = Vec::new();
        let mut channels = config.width;
        for (stage, &count) in config.blocks()?.iter().enumerate() {
            let wider = config.width << stage;
            for index in 0..count {
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                let name = format!("stage{}_block{}", stage + 1, index + 1);
                blocks.push(Block::new(&(path / name), channels, wider, stride));
                channels = wider;
            }
        }
        let head = nn::linear(path / "head", channels, config.classes, Default::default());
        Ok(Self { stem, blocks, dropout: config.dropout, head })
    }
}

impl ModuleT for ResNet {
    /// Logits `[N, classes]` of pictures `[N, 3, H, W]`.
    fn forward_t(&self, pictures: &Tensor, train: bool) -> Tensor {
        let mut features = self.stem.forward_t(pictures, train).relu();
        for block in &self.blocks {
            features = block.forward_t(&features, train);
        }
        let pooled = features.mean_dim(&[2i64, 3][..], false, None::<Kind>);
        pooled.dropout(self.dropout, train).apply(&self.head)
    }
}

/// Convolution without bias and batch normalisation.
#[derive(Debug)]
struct Convolution {
    convolution: nn::Conv2D,
    normalisation: nn::BatchNorm,
}

impl Convolution {
    fn new(path: &nn::Path, from: i64, to: i64, kernel: i64, stride: i64) -> Self {
        let config = nn::ConvConfig {
            stride,
            padding: kernel / 2,
            bias: false,
            ws_init: nn::init::DEFAULT_KAIMING_NORMAL,
            ..Default::default()
        };
        // tch's own default draws the scales at random; 1 is what the paper and PyTorch use.
        let scales = nn::BatchNormConfig { ws_init: nn::Init::Const(1.0), ..Default::default() };
        Self {
            convolution: nn::conv2d(path / "conv", from, to, kernel, config),
            normalisation: nn::batch_norm2d(path / "norm", to, scales),
        }
    }
}

impl ModuleT for Convolution {
    fn forward_t(&self, features: &Tensor, train: bool) -> Tensor {
        features.apply(&self.convolution).apply_t(&self.normalisation, train)
    }
}

/// A basic block: two 3 x 3 convolutions and the shortcut around them.
#[derive(Debug)]
struct Block {
    first: Convolution,
    second: Convolution,
    shortcut: Option<Convolution>,
}

impl Block {
    fn new(path: &nn::Path, from: i64, to: i64, stride: i64) -> Self {
        let shortcut = (from != to || stride != 1)
            .then(|| Convolution::new(&(path / "shortcut"), from, to, 1, stride));
        Self {
            first: Convolution::new(&(path / "first"), from, to, 3, stride),
            second: Convolution::new(&(path / "second"), to, to, 3, 1),
            shortcut,
        }
    }
}

impl ModuleT for Block {
    fn forward_t(&self, features: &Tensor, train: bool) -> Tensor {
        let inner = self.first.forward_t(features, train).relu();
        let outer = self.second.forward_t(&inner, train);
        let around = match &self.shortcut {
            Some(shortcut) => shortcut.forward_t(features, train),
            None => features.shallow_clone(),
        };
        (outer + around).relu()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tch::{Device, nn::VarStore};

    use super::*;

    fn trainable(depth: usize, width: i64, classes: i64) -> i64 {
        let vars = VarStore::new(Device::Cpu);
        let config = ResNetConfig { depth, width, classes, dropout: 0.0 };
        let net = ResNet::new(&vars.root(), &config).unwrap();
        let logits =
            net.forward_t(&Tensor::zeros([2, 3, 32, 32], (Kind::Float, Device::Cpu)), true);
        assert_eq!(logits.size(), [2, classes]);
        vars.trainable_variables().iter().map(|var| var.numel() as i64).sum()
    }

    #[test]
    fn parameter_counts_are_the_published_ones() {
        // ResNet-18 for CIFAR-10: 11,173,962, in 62 tensors (the count that training.md and many
        // public implementations give). ResNet-20 with projection shortcuts: 272,474 (0.27 M in
        // table 6 of the paper) plus the two projections, 16*32 + 32*64 + 2*(32 + 64) values.
        assert_eq!(trainable(18, 64, 10), 11_173_962);
        assert_eq!(trainable(20, 16, 10), 269_722 + 2_560 + 192);
    }

    #[test]
    fn a_depth_that_no_network_has_is_refused() {
        for depth in [0, 2, 9, 19] {
            let config = ResNetConfig { depth, width: 16, classes: 10, dropout: 0.0 };
            assert!(config.blocks().unwrap_err().to_string().contains("depth"), "{depth}");
        }
    }
}
