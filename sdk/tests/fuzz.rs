//! What training reads from a disk, given bytes of all kinds: each decoder may refuse, none may
//! panic. An input that does it belongs into the corpus (sdk/tests/corpus/NAME) with its cure.
#![allow(clippy::unwrap_used)] // Tests.

mod common;
#[path = "../../tests/src/fuzz/mutate.rs"]
mod mutate;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use common::{Images, optimizer, train, with_session};
use mutate::{kept, mutated, number};
use sha2::{Digest, Sha256};
use shockwave_sdk::Error;
use shockwave_sdk::checkpoint::{Checkpoints, Name};
use shockwave_sdk::client::spool::Spool;
use shockwave_sdk::data::cifar::{Layout, read_test, read_train};
use shockwave_sdk::data::{Dataset, Fit, ImageFolder};
use shockwave_sdk::policy::Accordion;
use shockwave_sdk::session::Every;

const MODEL: &str = "model.safetensors";
const TRAINING: &str = "training.safetensors";
const STATE: &str = "state.json";
const SUMS: &str = "SHA256SUMS";

/// Changed inputs of each decoder; `FUZZ_RUNS` sets another number, `FUZZ_SEED` the first seed.
const RUNS: u64 = 1000;

/// Feeds a decoder the kept inputs, those made now, and changes of both.
fn check(name: &str, more: Vec<Vec<u8>>, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let mut inputs = kept(&folder).unwrap();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    inputs.extend(more);
    inputs.iter().for_each(|input| run(input));
    let (runs, first) = (number("FUZZ_RUNS", RUNS), number("FUZZ_SEED", 1));
    for seed in first..first + runs {
        let input = mutated(&inputs, seed);
        let result = catch_unwind(AssertUnwindSafe(|| run(&input)));
        let shown = String::from_utf8_lossy(&input).into_owned();
        assert!(result.is_ok(), "{name} panics, seed {seed}: {shown:?}");
    }
}

/// Trains some steps on (or, with `steps` 0, only goes on from) the checkpoints in a folder.
fn go_on(folder: &Path, steps: u64) -> Result<(), Error> {
    let policy = Accordion::new(4, 8).window(1);
    with_session(
        optimizer(false),
        policy,
        Images::new(16),
        |builder| builder.epochs(3).checkpoints(folder).checkpoint_every(Every::Steps(1)),
        |mut session, _, net| {
            if steps > 0 {
                return train(&mut session, net, Some(steps));
            }
            session.next_epoch().map(drop)
        },
    )?
}

/// A checkpoint as training writes it: its folder and files.
struct Whole {
    _folder: tempfile::TempDir,
    name: Name,
    files: [Vec<u8>; 3],
}

fn whole() -> Whole {
    let folder = tempfile::tempdir().unwrap();
    go_on(folder.path(), 5).unwrap();
    let checkpoints = Checkpoints::new(folder.path(), 3).unwrap();
    let name = checkpoints.list().unwrap()[0];
    let path = checkpoints.path(name);
    let files = [MODEL, TRAINING, STATE].map(|file| fs::read(path.join(file)).unwrap());
    Whole { _folder: folder, name, files }
}

/// Writes a checkpoint whose sums are right whatever its files hold.
fn write(folder: &Path, name: Name, files: [&[u8]; 3], sums: Option<&[u8]>) {
    let path = folder.join(name.to_string());
    fs::create_dir_all(&path).unwrap();
    let mut right = String::new();
    for (file, bytes) in [MODEL, TRAINING, STATE].into_iter().zip(files) {
        fs::write(path.join(file), bytes).unwrap();
        let sum: String = Sha256::digest(bytes).iter().map(|it| format!("{it:02x}")).collect();
        right.push_str(&format!("{sum}  {file}\n"));
    }
    fs::write(path.join(SUMS), sums.unwrap_or(right.as_bytes())).unwrap();
}

#[test]
fn checkpoints() {
    let whole = whole();
    let [model, training, state] = whole.files.each_ref().map(Vec::as_slice);
    let folder = tempfile::tempdir().unwrap();
    let at = Checkpoints::new(folder.path(), 3).unwrap();
    // The header of the tensors' file alone: its bodies are plain numbers.
    let header_bytes = 8 + u64::from_le_bytes(model[..8].try_into().unwrap()) as usize;
    let header = model[..header_bytes].to_vec();
    check("tensors", vec![header, model.to_vec()], |bytes| {
        write(folder.path(), whole.name, [bytes, training, state], None);
        let _ = at.load(whole.name);
    });
    check("sums", vec![], |bytes| {
        write(folder.path(), whole.name, [model, training, state], Some(bytes));
        let _ = at.load(whole.name);
    });
    check("names", vec![whole.name.to_string().into_bytes()], |bytes| {
        let _ = Name::parse(&String::from_utf8_lossy(bytes));
    });
    check("best", vec![], |bytes| {
        fs::write(folder.path().join("best.json"), bytes).unwrap();
        let _ = at.best();
    });
}

#[test]
fn states_to_go_on_from() {
    let whole = whole();
    let [model, training, state] = whole.files.each_ref().map(Vec::as_slice);
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), whole.name, [model, training, state], None);
    go_on(folder.path(), 0).unwrap();
    check("states", vec![state.to_vec()], |bytes| {
        write(folder.path(), whole.name, [model, training, bytes], None);
        // Taken or refused: nothing of it may be half.
        let _ = go_on(folder.path(), 0);
    });
}

#[test]
fn events_that_were_left() {
    check("spool", vec![], |bytes| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(format!("events-{:020}.jsonl", 1)), bytes).unwrap();
        let mut spool = Spool::open(folder.path(), 2).unwrap();
        let _ = spool.batch(10);
        spool.acknowledge(3).unwrap();
        spool.synchronise(5).unwrap();
        spool.discard_oldest().unwrap();
        drop(spool);
        Spool::open(folder.path(), 3).unwrap();
    });
}

#[test]
fn data_sets() {
    let folder = tempfile::tempdir().unwrap();
    check("records", vec![vec![1; 3073], vec![99; 3074]], |bytes| {
        for file in ["data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin"] {
            fs::write(folder.path().join(file), bytes).unwrap();
        }
        for layout in [Layout::Cifar10, Layout::Cifar100, Layout::Cifar100Coarse] {
            let _ = (read_train(folder.path(), layout), read_test(folder.path(), layout));
        }
    });
    let pictures = tempfile::tempdir().unwrap();
    fs::create_dir_all(pictures.path().join("class")).unwrap();
    check("pictures", vec![], |bytes| {
        fs::write(pictures.path().join("class/one.png"), bytes).unwrap();
        if let Ok(set) = ImageFolder::open(pictures.path(), 4, 4) {
            let _ = set.fit(Fit::Crop).batch(&[0]);
        }
    });
}
