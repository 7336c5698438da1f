//! `export`.

use std::path::PathBuf;

use serde::Serialize;
use shockwave_sdk::checkpoint::write_safetensors;

use crate::find::Choice;
use crate::{Failure, show};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    choice: Choice,
    /// The file to write (`safetensors.torch.load_file` reads it)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Put before every tensor's name, such as "model."
    #[arg(long, default_value = "")]
    prefix: String,
}

#[derive(Debug, Serialize)]
struct Done {
    checkpoint: String,
    output: String,
    tensors: usize,
    bytes: usize,
}

pub(crate) fn run(args: &Args, json: bool) -> Result<(), Failure> {
    let output = &args.output;
    if output.exists() && !args.force {
        return Err(Failure::Usage(format!("{}: exists; --force replaces it", output.display())));
    }
    let loaded = args.choice.load()?;
    let named = loaded.snapshot.model.into_iter();
    let model = named.map(|(name, tensor)| (format!("{}{name}", args.prefix), tensor)).collect();
    write_safetensors(output, &model)?;
    let done = Done {
        checkpoint: loaded.path.display().to_string(),
        output: output.display().to_string(),
        tensors: model.len(),
        bytes: model.values().map(|tensor| tensor.size_bytes()).sum(),
    };
    show(json, &done, || {
        let Done { checkpoint, output, tensors, .. } = &done;
        format!("{checkpoint}: {tensors} tensors written to {output}")
    })
}
