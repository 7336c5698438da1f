//! `shockwave-checkpoint`, as its user sees it.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Images, optimizer, train, with_session};
use safetensors::SafeTensors;
use serde_json::Value;
use shockwave_sdk::policy::Static;
use shockwave_sdk::session::Best;

fn tool(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_shockwave-checkpoint");
    Command::new(program).args(arguments).output().unwrap()
}

/// What it prints, as JSON; it must succeed.
fn json(arguments: &[&str]) -> Value {
    let output = tool(&[&["--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// It must fail with this code and say these things.
fn refused(arguments: &[&str], code: i32, expected: &[&str]) {
    let output = tool(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for text in expected {
        assert!(said.contains(text), "{arguments:?}: {text:?} is not in {said}");
    }
}

/// A run of three epochs with its checkpoints; the weights at its end, by name.
fn trained(folder: &Path) -> Vec<(String, Vec<u8>)> {
    with_session(
        optimizer(true),
        Static::new(10),
        Images::new(40),
        |b| b.epochs(3).checkpoints(folder).keep_best("accuracy", Best::Highest),
        |mut session, vs, net| {
            train(&mut session, net, None).unwrap();
            let bytes = |t: &tch::Tensor| {
                let mut bytes = vec![0; t.numel() * t.kind().elt_size_in_bytes()];
                let n = t.numel();
                t.detach().contiguous().copy_data_u8(&mut bytes, n);
                bytes
            };
            let all = vs.variables();
            let mut all: Vec<_> = all.iter().map(|(n, t)| (n.clone(), bytes(t))).collect();
            all.sort();
            all
        },
    )
    .unwrap()
}

struct Run {
    _folder: tempfile::TempDir,
    path: PathBuf,
    weights: Vec<(String, Vec<u8>)>,
}

fn run() -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoints");
    let weights = trained(&path);
    Run { _folder: folder, path, weights }
}

#[test]
fn checkpoints_are_listed_inspected_and_verified() {
    let run = run();
    let folder = run.path.to_str().unwrap();
    let rows = json(&["list", folder]);
    let steps: Vec<u64> =
        rows.as_array().unwrap().iter().map(|row| row["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [12, 8, 4]);
    let best = rows.as_array().unwrap().iter().filter(|row| row["best"] == true).count();
    assert_eq!(best, 1);
    let table = String::from_utf8(tool(&["list", folder]).stdout).unwrap();
    assert_eq!(table.lines().count(), 4, "{table}");

    let contents = json(&["inspect", folder]);
    assert_eq!(contents["state"]["position"]["step"], 12);
    assert_eq!(contents["model"]["conv.weight"]["shape"], serde_json::json!([8, 3, 3, 3]));
    assert_eq!(contents["model"]["norm.running_mean"]["kind"], "F32");
    assert!(contents["training"]["optimizer.first"].is_object());
    let older = rows[2]["name"].as_str().unwrap();
    let older = run.path.join(older);
    assert_eq!(json(&["inspect", older.to_str().unwrap()])["state"]["position"]["step"], 4);
    let text = String::from_utf8(tool(&["inspect", folder]).stdout).unwrap();
    assert!(text.contains("conv.weight F32 [8, 3, 3, 3]"), "{text}");

    assert_eq!(json(&["verify", folder]).as_array().unwrap().len(), 3);
    let model = older.join("model.safetensors");
    let mut bytes = std::fs::read(&model).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&model, bytes).unwrap();
    refused(&["verify", folder], 1, &["1 of 3 checkpoints are damaged"]);
    let rows = json(&["list", folder]);
    assert_eq!([&rows[0]["damage"], &rows[1]["damage"]], [&Value::Null; 2]);
    let damage = rows[2]["damage"].as_str().unwrap();
    assert!(damage.contains("model.safetensors does not have its SHA-256 sum"), "{damage}");
    let table = String::from_utf8(tool(&["list", folder]).stdout).unwrap();
    let marked: Vec<&str> = table.lines().filter(|line| line.contains("DAMAGED")).collect();
    assert!(marked.len() == 1 && marked[0].contains(rows[2]["name"].as_str().unwrap()), "{table}");
    assert_eq!(json(&["list", folder, "--quick"])[2]["damage"], Value::Null);
    refused(&["export", older.to_str().unwrap(), "-o", "/nowhere/x"], 1, &["SHA-256"]);
}

#[test]
fn weights_are_exported_as_plain_safetensors() {
    let run = run();
    let folder = run.path.to_str().unwrap();
    let file = run.path.join("../weights.safetensors");
    let file = file.to_str().unwrap();
    let done = json(&["export", folder, "--output", file]);
    assert_eq!(done["tensors"].as_u64().unwrap() as usize, run.weights.len());
    let bytes = std::fs::read(file).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(read.len(), run.weights.len());
    for (name, bytes) in &run.weights {
        assert_eq!(read.tensor(name).unwrap().data(), bytes, "{name}");
    }
    // PyTorch's readers look for this entry.
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");

    refused(&["export", folder, "-o", file], 2, &["exists", "--force"]);
    json(&["export", folder, "-o", file, "--force", "--prefix", "model.", "--best"]);
    let bytes = std::fs::read(file).unwrap();
    assert!(SafeTensors::deserialize(&bytes).unwrap().tensor("model.head.bias").is_ok());
}

#[test]
fn what_is_not_there_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    refused(&["list", "/nowhere/at-all"], 2, &["/nowhere/at-all", "no such folder"]);
    refused(&["list", path], 2, &[path, "no checkpoint there"]);
    refused(&["inspect", path], 2, &["no checkpoint there"]);
    refused(&["export", path, "-o", "x"], 2, &["no checkpoint there"]);
    refused(&["inspect", path, "--best"], 2, &["no checkpoint there"]);
    refused(&["remove", path], 2, &["remove"]);
    std::fs::create_dir(empty.path().join("ckpt-g000000-n00000001")).unwrap();
    refused(&["inspect", path], 1, &["not usable", "SHA256SUMS"]);
    refused(&["inspect", path, "--best"], 2, &["no best.json"]);
}
