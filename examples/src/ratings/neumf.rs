//! Neural matrix factorisation: a product of embeddings beside a small network of them.
//!
//! Source: He et al., "Neural collaborative filtering", 2017, section 3.4.

use tch::nn::{self, Module};
use tch::{Kind, Tensor};

use super::RatingsOptions;

/// Logits of whether a user uses an item.
#[derive(Debug)]
pub struct NeuMf {
    users: Pair,
    items: Pair,
    hidden: [nn::Linear; 2],
    head: nn::Linear,
}

/// Embeddings for the product and for the network.
#[derive(Debug)]
struct Pair {
    product: nn::Embedding,
    network: nn::Embedding,
}

impl Pair {
    fn new(path: &nn::Path, count: usize, width: i64) -> Self {
        // As the authors begin: normal with deviation 0.01.
        let ws_init = nn::Init::Randn { mean: 0.0, stdev: 0.01 };
        let config = nn::EmbeddingConfig { ws_init, ..Default::default() };
        let embedding = |name: &str| nn::embedding(path / name, count as i64, width, config);
        Self { product: embedding("product"), network: embedding("network") }
    }
}

impl NeuMf {
    /// Creates the variables under `path`.
    #[must_use]
    pub fn new(path: &nn::Path, options: &RatingsOptions) -> Self {
        let width = options.width;
        let linear = |name: &str, from, to| nn::linear(path / name, from, to, Default::default());
        Self {
            users: Pair::new(&(path / "users"), options.users, width),
            items: Pair::new(&(path / "items"), options.items, width),
            hidden: [linear("hidden1", 2 * width, width), linear("hidden2", width, width)],
            head: linear("head", 2 * width, 1),
        }
    }
}

impl Module for NeuMf {
    /// Logits `[..]` of pairs of user and item `[.., 2]`.
    fn forward(&self, pairs: &Tensor) -> Tensor {
        let (user, item) = (pairs.select(-1, 0), pairs.select(-1, 1));
        let product = self.users.product.forward(&user) * self.items.product.forward(&item);
        let both = [self.users.network.forward(&user), self.items.network.forward(&item)];
        let mut features = Tensor::cat(&both, -1);
        for layer in &self.hidden {
            features = features.apply(layer).relu();
        }
        Tensor::cat(&[product, features], -1).apply(&self.head).squeeze_dim(-1).to_kind(Kind::Float)
    }
}
