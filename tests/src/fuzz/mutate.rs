//! Inputs for decoders: a kept corpus, and changes of it that a seed plays again.

use std::io;
use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A number from the environment, such as `FUZZ_RUNS`, or the default.
#[must_use]
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The kept inputs of a folder, in the order of their names.
///
/// # Errors
/// It cannot be read.
pub fn kept(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(std::fs::read).collect()
}

/// Bytes for a seed: one of the corpus changed in some places, or (without one) any at all.
#[must_use]
pub fn mutated(corpus: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    if corpus.is_empty() || random.random_bool(0.1) {
        let mut bytes = vec![0; random.random_range(0..400)];
        random.fill(bytes.as_mut_slice());
        return bytes;
    }
    let mut bytes = corpus[random.random_range(0..corpus.len())].clone();
    for _ in 0..random.random_range(1..6) {
        change(&mut bytes, corpus, &mut random);
    }
    bytes
}

/// Words on which decoders have stumbled before.
const WORDS: [&str; 14] = [
    "NaN",
    "inf",
    "-1",
    "1e308",
    "1e999",
    "18446744073709551616",
    "4294967295",
    "\"",
    "{",
    "[[",
    "\0",
    "\u{feff}",
    "null",
    "-0.0",
];

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut ChaCha8Rng) {
    let at = random.random_range(0..=bytes.len());
    match random.random_range(0..6) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = random.random(),
        2 => bytes.truncate(at),
        3 => {
            let word = WORDS[random.random_range(0..WORDS.len())].bytes();
            bytes.splice(at..at, word);
        }
        4 => {
            let end = (at + random.random_range(0..20)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let other = &corpus[random.random_range(0..corpus.len())];
            let from = random.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}
