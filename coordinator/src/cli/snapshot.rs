//! `shockwave snapshot`: a copy of the store, taken while the coordinator runs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::SnapshotRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::{json, table};

/// Copies the store while the coordinator runs; `serve --state` starts on the copy
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// Folder to write, which must not exist
    pub folder: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &SnapshotArgs) -> ExitCode {
    run_async(async {
        let folder = std::path::absolute(&args.folder);
        let folder = folder.map_err(|error| CliError::Usage(format!("the folder: {error}")))?;
        let mut admin = args.coordinator.connect_admin().await?;
        let request = SnapshotRequest { folder: folder.display().to_string() };
        let reply = admin.snapshot(request).await?.into_inner();
        if args.coordinator.json {
            let value = serde_json::json!({
                "folder": folder, "number": reply.number, "size_bytes": reply.size_bytes,
            });
            json::print("snapshot", &value)?;
        } else {
            let (number, size) = (reply.number, reply.size_bytes);
            let folder = folder.display();
            table::print(&format!("{number} records, {size} bytes, in {folder}"))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
