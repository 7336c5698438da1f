//! `shockwave cluster`, `drain` and `resume`: the machines.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use shockwave_proto::v1::{BatchJobInfo, ClusterRequest, DrainNodeRequest, NodeInfo, PoolInfo};

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
    pools: Vec<Pool>,
}

/// A pool of machines that a batch system lends.
#[derive(Debug, Serialize)]
pub(crate) struct Pool {
    name: String,
    mode: String,
    nodes_max: u32,
    trouble: String,
    asked_again_s: f64,
    jobs: Vec<BatchJob>,
}

/// A job of the batch system.
#[derive(Debug, Serialize)]
struct BatchJob {
    name: String,
    state: String,
    reason: String,
    host: String,
    asked_ago_s: f64,
    joined: bool,
    job: Option<u64>,
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

impl From<PoolInfo> for Pool {
    fn from(pool: PoolInfo) -> Self {
        let job = |it: BatchJobInfo| BatchJob {
            name: it.name,
            state: it.state,
            reason: it.reason,
            host: it.host,
            asked_ago_s: it.asked_ago_s,
            joined: it.joined,
            job: (it.job_id > 0).then_some(it.job_id),
        };
        Self {
            name: pool.name,
            mode: pool.mode,
            nodes_max: pool.nodes_max,
            trouble: pool.trouble,
            asked_again_s: pool.asked_again_s,
            jobs: pool.jobs.into_iter().map(job).collect(),
        }
    }
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
            pools: reply.pools.into_iter().map(Pool::from).collect(),
        };
        if args.coordinator.json {
            json::print("cluster", &cluster)?;
        } else {
            table::print(&render(&cluster.nodes, &cluster.pools))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The table of machines.
pub(super) fn table_of(reply: shockwave_proto::v1::ClusterReply) -> String {
    let nodes: Vec<Node> = reply.nodes.into_iter().map(Node::from).collect();
    let pools: Vec<Pool> = reply.pools.into_iter().map(Pool::from).collect();
    render(&nodes, &pools)
}

fn render(nodes: &[Node], pools: &[Pool]) -> String {
    let mut text = table_of_nodes(nodes);
    for pool in pools {
        text.push_str("\n\n");
        text.push_str(&about(pool));
    }
    text
}

/// A pool in one sentence, and what waits in the batch system's queue for it.
fn about(pool: &Pool) -> String {
    let joined = pool.jobs.iter().filter(|job| job.joined).count();
    let (asked, most) = (pool.jobs.len(), pool.nodes_max);
    let mut text = match pool.mode.as_str() {
        "job" => format!("pool {}: {joined} of {asked} Slurm jobs carry a lease", pool.name),
        _ => format!(
            "pool {}: {joined} of {asked} Slurm jobs carry a machine, at most {most}",
            pool.name
        ),
    };
    if !pool.trouble.is_empty() {
        text.push_str(&format!("; {}", pool.trouble));
    }
    if pool.asked_again_s > 0.0 {
        text.push_str(&format!("; asked again in {:.0} s", pool.asked_again_s));
    }
    let row = |job: &BatchJob| {
        vec![
            job.name.clone(),
            if job.state.is_empty() { "asked for".into() } else { job.state.clone() },
            job.reason.clone(),
            job.host.clone(),
            format!("{:.0} s", job.asked_ago_s),
            job.job.map_or_else(|| "any".into(), |job| format!("job {job}")),
        ]
    };
    let waiting: Vec<_> = pool.jobs.iter().filter(|job| !job.joined).map(row).collect();
    if !waiting.is_empty() {
        let head = ["SLURM JOB", "STATE", "REASON", "HOST", "ASKED", "FOR"];
        text.push('\n');
        text.push_str(&table::table(&head, &waiting));
    }
    text
}

fn table_of_nodes(nodes: &[Node]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_the_queue_is_shown_with_slurms_reason() {
        let job = |name: &str, state: &str, reason: &str, joined, job_id| BatchJobInfo {
            name: name.into(),
            state: state.into(),
            reason: reason.into(),
            asked_ago_s: 12.3,
            joined,
            job_id,
            ..BatchJobInfo::default()
        };
        let pilots = PoolInfo {
            name: "gpu".into(),
            mode: "pilot".into(),
            nodes_max: 8,
            jobs: vec![
                job("sw1-gpu-a", "RUNNING", "", true, 0),
                job("sw1-gpu-b", "PENDING", "Resources", false, 0),
            ],
            ..PoolInfo::default()
        };
        let leases = PoolInfo {
            name: "acct".into(),
            mode: "job".into(),
            jobs: vec![job("sw1-acct-c", "", "", false, 7)],
            trouble: "sbatch: invalid account".into(),
            asked_again_s: 20.0,
            ..PoolInfo::default()
        };
        let text = render(&[], &[Pool::from(pilots), Pool::from(leases)]);
        insta::assert_snapshot!(text, @r"
        MACHINE  STATE  DEVICE  MODEL  RUNS

        pool gpu: 1 of 2 Slurm jobs carry a machine, at most 8
        SLURM JOB  STATE    REASON     HOST  ASKED  FOR
        sw1-gpu-b  PENDING  Resources        12 s   any

        pool acct: 0 of 1 Slurm jobs carry a lease; sbatch: invalid account; asked again in 20 s
        SLURM JOB   STATE      REASON  HOST  ASKED  FOR
        sw1-acct-c  asked for                12 s   job 7
        ");
    }
}
