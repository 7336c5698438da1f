//! No decoder panics: on the kept corpus, and on some thousand changes of it. An input that does it
//! belongs into the corpus (tests/fuzz/corpus/NAME) together with its cure.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;

use shockwave_tests::fuzz::{TARGETS, mutated};

/// Changed inputs of each decoder; `FUZZ_RUNS` sets another number, `FUZZ_SEED` the first seed.
const RUNS: u64 = 3000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn no_decoder_panics() {
    let (runs, first) = (number("FUZZ_RUNS", RUNS), number("FUZZ_SEED", 1));
    for target in &TARGETS {
        let kept = corpus(target.name);
        kept.iter().for_each(|input| (target.run)(input));
        for seed in first..first + runs {
            let input = mutated(&kept, seed);
            let result = std::panic::catch_unwind(|| (target.run)(&input));
            let shown = String::from_utf8_lossy(&input).into_owned();
            assert!(result.is_ok(), "{} panics, seed {seed}: {shown:?}", target.name);
        }
    }
}

/// The corpus is of use: each decoder takes some of it.
#[test]
fn the_corpus_is_understood() {
    let records = corpus("records");
    let taken = records.iter().filter(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        shockwave::service::record::Record::decode(1, &text).is_ok()
    });
    assert!(taken.count() >= 3, "no record of the corpus is one");
    let files = corpus("job-files");
    let taken = files.iter().filter(|bytes| {
        toml::from_str::<shockwave::cli::JobTerms>(&String::from_utf8_lossy(bytes)).is_ok()
    });
    assert!(taken.count() >= 1, "no job file of the corpus is one");
}
