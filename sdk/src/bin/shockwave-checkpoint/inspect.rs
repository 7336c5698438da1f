//! `inspect`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;
use shockwave_sdk::checkpoint::HostTensor;

use crate::find::Choice;
use crate::{Failure, show};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    choice: Choice,
}

#[derive(Debug, Serialize)]
struct Tensor {
    kind: String,
    shape: Vec<usize>,
    bytes: usize,
}

#[derive(Debug, Serialize)]
struct Contents {
    path: String,
    sha256: String,
    model: BTreeMap<String, Tensor>,
    training: BTreeMap<String, Tensor>,
    state: Value,
}

fn described(tensors: &BTreeMap<String, HostTensor>) -> BTreeMap<String, Tensor> {
    let describe = |(name, tensor): (&String, &HostTensor)| {
        let (kind, shape) = (tensor.kind_name(), tensor.shape().to_vec());
        (name.clone(), Tensor { kind, shape, bytes: tensor.size_bytes() })
    };
    tensors.iter().map(describe).collect()
}

pub(crate) fn run(args: &Args, json: bool) -> Result<(), Failure> {
    let loaded = args.choice.load()?;
    let contents = Contents {
        path: loaded.path.display().to_string(),
        sha256: loaded.sha256,
        model: described(&loaded.snapshot.model),
        training: described(&loaded.snapshot.training),
        state: loaded.snapshot.state,
    };
    show(json, &contents, || text(&contents))
}

fn text(contents: &Contents) -> String {
    let mut text = format!("{}\nmodel sha256 {}\n", contents.path, contents.sha256);
    let state = &contents.state;
    for part in ["position", "settings", "fingerprint", "metrics"] {
        let fields = state[part].as_object().into_iter().flatten();
        let fields: Vec<String> = fields.map(|(name, value)| format!("{name} {value}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{part:12} {}", fields.join(", "));
    }
    for decision in state["decisions"].as_array().into_iter().flatten() {
        let (old, new) = (&decision["old_batch"], &decision["new_batch"]);
        let reason = decision["reason"].as_str().unwrap_or_default();
        let _ =
            writeln!(text, "{:12} epoch {}: {old} -> {new}: {reason}", "batch", decision["epoch"]);
    }
    for (file, tensors) in [("model", &contents.model), ("training", &contents.training)] {
        let bytes: usize = tensors.values().map(|tensor| tensor.bytes).sum();
        let (count, megabytes) = (tensors.len(), bytes as f64 / 1e6);
        let _ = writeln!(text, "\n{file}: {count} tensors, {megabytes:.2} MB");
        for (name, tensor) in tensors {
            let _ = writeln!(text, "  {name} {} {:?}", tensor.kind, tensor.shape);
        }
    }
    text
}
