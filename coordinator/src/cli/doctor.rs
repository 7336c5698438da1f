//! `shockwave doctor`: looks for what is usually wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use shockwave_proto::v1::ClusterRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::{json, table};
use crate::devices::DeviceList;
use crate::serve;

/// Looks for what is usually wrong; fails when something is
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    good: bool,
    what: String,
}

/// Runs the command.
pub(super) fn run(args: &DoctorArgs) -> ExitCode {
    run_async(async {
        let mut findings = vec![devices(), secrets()];
        findings.extend(coordinator(&args.coordinator).await);
        let all_good = findings.iter().all(|finding| finding.good);
        if args.coordinator.json {
            json::print("findings", &findings)?;
        } else {
            let row = |it: &Finding| {
                let good = if it.good { "good" } else { "WRONG" };
                vec![it.check.to_owned(), good.to_owned(), it.what.clone()]
            };
            let rows: Vec<_> = findings.iter().map(row).collect();
            table::print(&table::table(&["CHECK", "", "FOUND"], &rows))?;
        }
        Ok::<_, CliError>(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn devices() -> Finding {
    let what = match DeviceList::AllGpus.resolve() {
        Ok(gpus) => format!("{} GPUs", gpus.len()),
        // A machine without GPUs is a machine for CPU slots.
        Err(error) => error.to_string(),
    };
    Finding { check: "devices", good: true, what }
}

/// Nobody else may read the files with tokens.
fn secrets() -> Finding {
    let check = "files with tokens";
    let Some(folder) = serve::user_dir() else {
        let what = "neither HOME nor XDG_STATE_HOME is set".into();
        return Finding { check, good: false, what };
    };
    let mut files = vec![folder.join("coordinator.json")];
    let by_address = std::fs::read_dir(folder.join("coordinators")).into_iter().flatten();
    files.extend(by_address.flatten().map(|entry| entry.path()));
    let open = files.iter().find(|path| is_open(path));
    match open {
        Some(path) => {
            let what = format!("others can read {}: chmod 600 it", path.display());
            Finding { check, good: false, what }
        }
        None => Finding { check, good: true, what: "only their owner can read them".into() },
    }
}

fn is_open(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

async fn coordinator(args: &CoordinatorArgs) -> Vec<Finding> {
    let check = "coordinator";
    let reply = async {
        let mut client = args.connect().await?;
        Ok::<_, CliError>(client.cluster(ClusterRequest {}).await?.into_inner())
    };
    let reply = match reply.await {
        Ok(reply) => reply,
        Err(error) => return vec![Finding { check, good: false, what: error.to_string() }],
    };
    let same = reply.version == env!("CARGO_PKG_VERSION");
    let versions = format!("version {}, this command {}", reply.version, env!("CARGO_PKG_VERSION"));
    let mut findings = vec![Finding { check, good: same, what: versions }];
    findings.extend(reply.nodes.iter().map(|node| Finding {
        check: "machine",
        good: node.state == "up",
        what: format!("{} is {}, {} devices", node.name, node.state, node.devices.len()),
    }));
    findings
}
