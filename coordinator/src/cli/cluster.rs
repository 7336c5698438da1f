//! `shockwave cluster`, `drain` and `resume`: the machines.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use shockwave_proto::v1::{ClusterRequest, DrainNodeRequest, NodeInfo};

use super::connect::{CoordinatorArgs, run_async};
use super::json;
use super::table;

/// Shows the machines and what runs on them
#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// A machine to drain or to use again
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Name of the machine
    pub node: String,
    /// Why, for the log
    #[arg(long, default_value = "")]
    pub reason: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

#[derive(Debug, Serialize)]
struct Cluster {
    coordinator_epoch: u64,
    coordinator_version: String,
    active_jobs: u32,
    nodes: Vec<Node>,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    state: String,
    heard_ago_s: f64,
    devices: Vec<Device>,
}

#[derive(Debug, Serialize)]
struct Device {
    index: u32,
    kind: String,
    model: String,
    memory_bytes: u64,
    job: Option<u64>,
}

impl From<NodeInfo> for Node {
    fn from(node: NodeInfo) -> Self {
        let device = |it: shockwave_proto::v1::DeviceInfo| {
            let device = it.device.unwrap_or_default();
            Device {
                index: device.index,
                kind: device.kind,
                model: device.model,
                memory_bytes: device.memory_bytes,
                job: (it.job_id > 0).then_some(it.job_id),
            }
        };
        Self {
            name: node.name,
            state: node.state,
            heard_ago_s: node.heard_ago_s,
            devices: node.devices.into_iter().map(device).collect(),
        }
    }
}

/// Runs `cluster`.
pub(super) fn run(args: &ClusterArgs) -> ExitCode {
    run_async(async {
        let mut client = args.coordinator.connect().await?;
        let reply = client.cluster(ClusterRequest {}).await?.into_inner();
        let cluster = Cluster {
            coordinator_epoch: reply.coordinator_epoch,
            coordinator_version: reply.version,
            active_jobs: reply.active_jobs,
            nodes: reply.nodes.into_iter().map(Node::from).collect(),
        };
        if args.coordinator.json {
            json::print("cluster", &cluster)?;
        } else {
            table::print(&render(&cluster.nodes))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The table of machines.
pub(super) fn table_of(reply: shockwave_proto::v1::ClusterReply) -> String {
    render(&reply.nodes.into_iter().map(Node::from).collect::<Vec<_>>())
}

fn render(nodes: &[Node]) -> String {
    let row = |node: &Node, device: &Device| {
        vec![
            node.name.clone(),
            node.state.clone(),
            format!("{}:{}", device.kind, device.index),
            device.model.clone(),
            device.job.map_or_else(|| "idle".into(), |job| format!("job {job}")),
        ]
    };
    let rows: Vec<_> =
        nodes.iter().flat_map(|node| node.devices.iter().map(|device| row(node, device))).collect();
    table::table(&["MACHINE", "STATE", "DEVICE", "MODEL", "RUNS"], &rows)
}

/// Runs `drain` (or, with `drained` false, `resume`).
pub(super) fn drain(args: &DrainArgs, drained: bool) -> ExitCode {
    run_async(async {
        let mut admin = args.coordinator.connect_admin().await?;
        let request =
            DrainNodeRequest { node: args.node.clone(), drained, reason: args.reason.clone() };
        let node = Node::from(admin.drain_node(request).await?.into_inner());
        if args.coordinator.json {
            json::print("node", &node)?;
        } else {
            table::print(&format!("machine {} is {}", node.name, node.state))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
