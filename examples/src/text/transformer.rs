//! A decoder-only Transformer with normalisation before each block.
//!
//! Sources: Vaswani et al., "Attention is all you need", 2017; Radford et al., "Language models are unsupervised
//! multitask learners", 2019 (normalisation first, learned positions).

use anyhow::{Result, ensure};
use tch::nn::{self, Module, ModuleT};
use tch::{Kind, Tensor};

/// Shape of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransformerConfig {
    /// Different characters.
    pub characters: i64,
    /// Characters seen at once.
    pub context: i64,
    /// Blocks of attention and feed-forward network.
    pub layers: usize,
    /// Features of each character; a multiple of `heads`.
    pub width: i64,
    /// Heads of each attention.
    pub heads: i64,
    /// Probability of dropping a feature while training.
    pub dropout: f64,
}

/// Logits of the next character, from the characters so far.
#[derive(Debug)]
pub struct Transformer {
    characters: nn::Embedding,
    positions: nn::Embedding,
    blocks: Vec<Block>,
    normalisation: nn::LayerNorm,
    head: nn::Linear,
    dropout: f64,
}

impl Transformer {
    /// Creates the variables under `path`.
    ///
    /// # Errors
    /// A width that the heads cannot share, or a dropout outside 0..1.
    pub fn new(path: &nn::Path, config: &TransformerConfig) -> Result<Self> {
        let TransformerConfig { characters, context, layers, width, heads, dropout } = *config;
        ensure!(
            heads >= 1 && width >= heads && width % heads == 0,
            "width {width} with {heads} heads: the width must be a multiple of the heads"
        );
        ensure!((0.0..1.0).contains(&dropout), "dropout {dropout}: must be at least 0 and under 1");
        let block = |index: usize| Block::new(&(path / format!("block{}", index + 1)), config);
        Ok(Self {
            characters: nn::embedding(path / "characters", characters, width, small()),
            positions: nn::embedding(path / "positions", context, width, small()),
            blocks: (0..layers).map(block).collect(),
            normalisation: nn::layer_norm(path / "norm", vec![width], Default::default()),
            head: nn::linear(path / "head", width, characters, Default::default()),
            dropout,
        })
    }
}

/// Embeddings that begin small, as in GPT-2.
fn small() -> nn::EmbeddingConfig {
    let ws_init = nn::Init::Randn { mean: 0.0, stdev: 0.02 };
    nn::EmbeddingConfig { ws_init, ..Default::default() }
}

impl ModuleT for Transformer {
    /// Logits `[N, context, characters]` of characters `[N, context]`.
    fn forward_t(&self, text: &Tensor, train: bool) -> Tensor {
        let length = text.size().get(1).copied().unwrap_or(0);
        let places = Tensor::arange(length, (Kind::Int64, text.device()));
        let embedded = self.characters.forward(text) + self.positions.forward(&places);
        let mut features = embedded.dropout(self.dropout, train);
        for block in &self.blocks {
            features = block.forward_t(&features, train);
        }
        features.apply(&self.normalisation).apply(&self.head)
    }
}

/// Causal self-attention and a feed-forward network, each added to what it is given.
#[derive(Debug)]
struct Block {
    first: nn::LayerNorm,
    mix: nn::Linear,
    join: nn::Linear,
    second: nn::LayerNorm,
    wide: nn::Linear,
    narrow: nn::Linear,
    heads: i64,
    dropout: f64,
}

impl Block {
    fn new(path: &nn::Path, config: &TransformerConfig) -> Self {
        let width = config.width;
        let norm = |name: &str| nn::layer_norm(path / name, vec![width], Default::default());
        let linear = |name: &str, from, to| nn::linear(path / name, from, to, Default::default());
        Self {
            first: norm("norm1"),
            mix: linear("mix", width, 3 * width),
            join: linear("join", width, width),
            second: norm("norm2"),
            wide: linear("wide", width, 4 * width),
            narrow: linear("narrow", 4 * width, width),
            heads: config.heads,
            dropout: config.dropout,
        }
    }

    /// Attention of each place to itself and those before it.
    fn attend(&self, features: &Tensor) -> Tensor {
        let size = features.size();
        let (samples, length, width) = (size[0], size[1], size[2]);
        let each = width / self.heads;
        let parts = features.apply(&self.mix).view([samples, length, 3, self.heads, each]);
        // [N, heads, length, each] of queries, keys and values.
        let part = |index: i64| parts.select(2, index).transpose(1, 2);
        let scores = part(0).matmul(&part(1).transpose(-2, -1)) / (each as f64).sqrt();
        let ahead = Tensor::ones([length, length], (Kind::Bool, features.device())).triu(1);
        let weights = scores.masked_fill(&ahead, f64::NEG_INFINITY).softmax(-1, None::<Kind>);
        let mixed = weights.matmul(&part(2)).transpose(1, 2).contiguous();
        mixed.view([samples, length, width]).apply(&self.join)
    }
}

impl ModuleT for Block {
    fn forward_t(&self, features: &Tensor, train: bool) -> Tensor {
        let attended = self.attend(&features.apply(&self.first)).dropout(self.dropout, train);
        let features = features + attended;
        let inner = features.apply(&self.second).apply(&self.wide).gelu("none");
        &features + inner.apply(&self.narrow).dropout(self.dropout, train)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tch::Device;
    use tch::nn::VarStore;

    use super::*;

    const CONFIG: TransformerConfig = TransformerConfig {
        characters: 27,
        context: 8,
        layers: 2,
        width: 16,
        heads: 4,
        dropout: 0.0,
    };

    #[test]
    fn a_place_sees_nothing_of_what_comes_after_it() {
        tch::manual_seed(1);
        let vars = VarStore::new(Device::Cpu);
        let net = Transformer::new(&vars.root(), &CONFIG).unwrap();
        let text = Tensor::from_slice2(&[[1i64, 2, 3, 4, 5, 6, 7, 8]]);
        let other = Tensor::from_slice2(&[[1i64, 2, 3, 4, 9, 9, 9, 9]]);
        let (a, b) = (net.forward_t(&text, false), net.forward_t(&other, false));
        assert_eq!(a.size(), [1, 8, 27]);
        let gap = |from: i64, count: i64| {
            let difference = a.narrow(1, from, count) - b.narrow(1, from, count);
            difference.abs().max().double_value(&[])
        };
        assert!(gap(0, 4) < 1e-6, "{}", gap(0, 4));
        assert!(gap(4, 4) > 1e-3);
    }

    #[test]
    fn parameters_are_those_of_the_formula() {
        let vars = VarStore::new(Device::Cpu);
        let _net = Transformer::new(&vars.root(), &CONFIG).unwrap();
        let count: usize = vars.trainable_variables().iter().map(Tensor::numel).sum();
        // 12 d^2 + 13 d a block; embeddings, last normalisation, head.
        let (d, v, t) = (16, 27, 8);
        assert_eq!(count, 2 * (12 * d * d + 13 * d) + (v + t) * d + 2 * d + (d + 1) * v);
        let uneven = TransformerConfig { heads: 3, ..CONFIG };
        assert!(Transformer::new(&vars.root(), &uneven).is_err());
    }
}
