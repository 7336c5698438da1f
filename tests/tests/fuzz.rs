//! No decoder panics: on the kept corpus, and on some thousand changes of it. An input that does it
//! belongs into the corpus (tests/fuzz/corpus/NAME) together with its cure.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;

use shockwave_tests::fuzz::TARGETS;
use shockwave_tests::fuzz::mutate::{kept, mutated, number};

/// Changed inputs of each decoder; `FUZZ_RUNS` sets another number, `FUZZ_SEED` the first seed.
const RUNS: u64 = 3000;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let inputs = kept(&folder).unwrap();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    inputs
}

#[test]
fn no_decoder_panics() {
    let (runs, first) = (number("FUZZ_RUNS", RUNS), number("FUZZ_SEED", 1));
    for target in &TARGETS {
        let mut inputs = corpus(target.name);
        inputs.extend((target.seeds)());
        inputs.iter().for_each(|input| (target.run)(input));
        for seed in first..first + runs {
            let input = mutated(&inputs, seed);
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
    // What is made of today's layout is taken, too.
    for target in TARGETS.iter().filter(|target| target.name == "snapshots") {
        for body in (target.seeds)() {
            let snapshot = shockwave::store::Snapshot { number: 1, now_s: 1.0, body };
            shockwave::service::apply::State::load(&snapshot, "secret").unwrap();
        }
    }
}
