//! A text as a data set: each sample is a stretch of it, its target the same stretch one character on.

use anyhow::{Result, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave_sdk::{Batch, Dataset, Error};
use tch::Tensor;

/// The share of a text that is kept for the test: one in so many.
const TEST_ONE_IN: usize = 10;

/// Words of the generated text.
const WORDS: usize = 50;

/// A part of a text, as numbers of its characters.
#[derive(Debug, Clone)]
pub struct Corpus {
    numbers: Vec<i64>,
    characters: i64,
    context: usize,
}

/// Generates a text of [`WORDS`] invented words, each as likely as the others after any word. Once a word can be told
/// from its first letters, the rest of it is certain; what it will be is not.
#[must_use]
pub(super) fn generate(seed: u64, length: usize) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let words: Vec<String> = (0..WORDS)
        .map(|_| (0..rng.random_range(3..=7)).map(|_| rng.random_range('a'..='z')).collect())
        .collect();
    let mut text = String::with_capacity(length + 8);
    while text.len() < length {
        text.push_str(&words[rng.random_range(0..WORDS)]);
        text.push(' ');
    }
    text.truncate(length);
    text
}

impl Corpus {
    /// The training and the test part of `text`, in stretches of `context` characters.
    ///
    /// # Errors
    /// It is too short for one stretch of each.
    pub fn split(text: &str, context: usize) -> Result<(Self, Self)> {
        let mut alphabet: Vec<char> = text.chars().collect();
        let needed = TEST_ONE_IN * (context + 1);
        ensure!(
            alphabet.len() >= needed,
            "the text has {} characters; a context of {context} needs {needed} at least",
            alphabet.len()
        );
        alphabet.sort_unstable();
        alphabet.dedup();
        let number = |c: char| alphabet.partition_point(|known| *known < c) as i64;
        let mut train: Vec<i64> = text.chars().map(number).collect();
        let test = train.split_off(train.len() - train.len() / TEST_ONE_IN);
        let characters = alphabet.len() as i64;
        let part = |numbers| Self { numbers, characters, context };
        Ok((part(train), part(test)))
    }

    /// Different characters in the whole text.
    #[must_use]
    pub fn characters(&self) -> i64 {
        self.characters
    }
}

impl Dataset for Corpus {
    fn len(&self) -> usize {
        // The last stretch needs one character more, for its target.
        (self.numbers.len() - 1) / self.context
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        let gather = |shift: usize| {
            let mut all = Vec::with_capacity(indices.len() * self.context);
            for &index in indices {
                let start = index * self.context + shift;
                let stretch = self.numbers.get(start..start + self.context);
                let missing = || Error::Data(format!("sample {index} of {}", self.len()));
                all.extend_from_slice(stretch.ok_or_else(missing)?);
            }
            let shape = [indices.len() as i64, self.context as i64];
            Ok::<_, Error>(Tensor::f_from_slice(&all)?.f_view(shape)?)
        };
        Ok(Batch::new(gather(0)?, gather(1)?))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_inputs_one_character_on() {
        let text: String = ('a'..='z').cycle().take(200).collect();
        let (train, test) = Corpus::split(&text, 5).unwrap();
        assert_eq!((train.len(), test.len(), train.characters()), (179 / 5, 19 / 5, 26));
        let batch = train.batch(&[0, 34]).unwrap();
        assert_eq!(batch.x, Tensor::from_slice2(&[[0i64, 1, 2, 3, 4], [14, 15, 16, 17, 18]]));
        assert_eq!(batch.y, Tensor::from_slice2(&[[1i64, 2, 3, 4, 5], [15, 16, 17, 18, 19]]));
        assert!(train.batch(&[35]).is_err());
        assert!(Corpus::split("too short", 5).is_err());
    }

    #[test]
    fn the_generated_text_is_of_few_words() {
        let text = generate(3, 100_000);
        assert_eq!(text.len(), 100_000);
        let words: std::collections::BTreeSet<&str> = text.split(' ').collect();
        // The last word may be cut.
        assert!((45..=WORDS + 1).contains(&words.len()), "{}", words.len());
        assert_eq!(text[..1000], generate(3, 1000));
    }
}
