//! A language model of characters, on a text file or on generated text.

mod corpus;
mod transformer;

pub use corpus::Corpus;
pub use transformer::{Transformer, TransformerConfig};

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tch::Tensor;

use crate::options::TrainingOptions;

/// Trains a Transformer that predicts the next character of a text
#[derive(Debug, Parser)]
#[command(args_override_self = true)]
pub struct TextOptions {
    /// The text; its last tenth is kept for the test. Without it a text is generated.
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
    /// Length of the generated text.
    #[arg(long, default_value_t = 60_000, value_name = "N")]
    pub characters: usize,
    /// Characters that the model sees at once.
    #[arg(long, default_value_t = 32, value_name = "N")]
    pub context: usize,
    /// Layers of the Transformer.
    #[arg(long, default_value_t = 2)]
    pub layers: usize,
    /// Features of each character; a multiple of --heads.
    #[arg(long, default_value_t = 64)]
    pub width: i64,
    /// Heads of each attention.
    #[arg(long, default_value_t = 4)]
    pub heads: i64,
    /// Probability of dropping a feature while training.
    #[arg(long, default_value_t = 0.1, allow_negative_numbers = true)]
    pub dropout: f64,
    /// How it is trained.
    #[command(flatten)]
    pub training: TrainingOptions,
}

impl AsRef<TrainingOptions> for TextOptions {
    fn as_ref(&self) -> &TrainingOptions {
        &self.training
    }
}

impl TextOptions {
    /// The training and the test part of the text.
    ///
    /// # Errors
    /// The file cannot be read, or is too short.
    pub fn load(&self) -> Result<(Corpus, Corpus)> {
        ensure!(self.context >= 1, "--context 0: at least 1 character is needed");
        let text = match &self.text {
            Some(file) => std::fs::read_to_string(file)
                .with_context(|| format!("--text {}", file.display()))?,
            None => corpus::generate(1, self.characters),
        };
        Corpus::split(&text, self.context)
    }

    /// The network's shape for the characters of `corpus`.
    #[must_use]
    pub fn config(&self, corpus: &Corpus) -> TransformerConfig {
        TransformerConfig {
            characters: corpus.characters(),
            context: self.context as i64,
            layers: self.layers,
            width: self.width,
            heads: self.heads,
            dropout: self.dropout,
        }
    }
}

/// The mean cross entropy of logits `[N, context, characters]` against characters `[N, context]`.
pub fn loss(logits: &Tensor, characters: &Tensor) -> Tensor {
    logits.flatten(0, 1).cross_entropy_for_logits(&characters.flatten(0, 1))
}
