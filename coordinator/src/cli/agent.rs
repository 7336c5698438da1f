//! `shockwave agent`: offers this machine to a coordinator elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::connect::{CliError, CoordinatorArgs, finish};
use super::{serve, table};
use crate::agent::remote::Remote;
use crate::agent::{Agent, AgentConfig};
use crate::devices::DeviceList;

/// Offers this machine's devices to a coordinator elsewhere
///
/// Training goes on when the agent is stopped or killed; the next one on the same folder takes it
/// over.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Devices of this machine: cpu:COUNT, gpu:INDEX,.., gpu or auto
    #[arg(long, default_value = "auto", value_name = "LIST")]
    pub devices: String,
    /// Name of this machine, unique in the cluster [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Host at which other machines reach this one, for gangs that span several [default: the host
    /// name]
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,
    /// Folder for what it must remember of running training [default:
    /// ~/.local/state/shockwave/agent-NODE]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Folder for jobs' logs, unacknowledged events and checkpoints; the same shared folder on every
    /// machine, so that a job can go on anywhere [default: `jobs` in --folder]
    #[arg(long, value_name = "DIR")]
    pub jobs: Option<PathBuf>,
    /// Time until this machine is taken away, seconds [default: never]
    #[arg(long, value_name = "SECONDS")]
    pub walltime_s: Option<f64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &AgentArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    finish(match runtime {
        Ok(runtime) => runtime.block_on(agent(args)),
        Err(error) => Err(CliError::Failed(format!("cannot start: {error}"))),
    })
}

impl AgentArgs {
    fn config(&self) -> Result<AgentConfig, CliError> {
        let usage = |error: &dyn std::fmt::Display| CliError::Usage(error.to_string());
        let list: DeviceList = self.devices.parse().map_err(|error| usage(&error))?;
        let devices = list.resolve().map_err(|error| usage(&error))?;
        let node = self.node.clone().unwrap_or_else(serve::host_name);
        serve::check_node(&node)?;
        let folder = self
            .folder
            .clone()
            .or_else(|| crate::serve::user_dir().map(|user| user.join(format!("agent-{node}"))));
        let folder = folder.ok_or_else(|| {
            CliError::Usage("neither HOME nor XDG_STATE_HOME is set; give --folder DIR".into())
        })?;
        let folder = std::path::absolute(&folder).map_err(|error| usage(&error))?;
        let jobs = self.jobs.clone().unwrap_or_else(|| folder.join("jobs"));
        let program = std::env::current_exe();
        let walltime = self.walltime_s.map(Duration::try_from_secs_f64).transpose();
        let walltime = walltime.map_err(|error| {
            CliError::Usage(format!("--walltime-s: {error}; expected seconds, 0 or more"))
        })?;
        Ok(AgentConfig {
            address: self.address.clone().unwrap_or_else(serve::host_name),
            node,
            devices,
            authority: self.coordinator.authority()?,
            leases_dir: folder.join("leases"),
            jobs_dir: std::path::absolute(jobs).map_err(|error| usage(&error))?,
            program: program.map_err(|error| CliError::Failed(format!("who am I: {error}")))?,
            until: walltime.and_then(|left| Instant::now().checked_add(left)),
        })
    }
}

async fn agent(args: &AgentArgs) -> Result<ExitCode, CliError> {
    let config = args.config()?;
    serve::start_log();
    let (channel, bearer, address) = args.coordinator.lazy_channel()?;
    crate::files::open_files_max();
    let node = config.node.clone();
    let count = config.devices.len();
    let failed = |error: crate::files::FileError| CliError::Failed(error.to_string());
    crate::files::make_folder(&config.jobs_dir).map_err(failed)?;
    let agent =
        Agent::new(config, Arc::new(Remote::new(channel, bearer, address))).map_err(failed)?;
    let (stop, stopped) = watch::channel(false);
    table::print(&format!("machine {node} offers {count} devices"))?;
    let task = tokio::spawn(agent.run(stopped));
    let catch = |kind| {
        signal(kind).map_err(|error| CliError::Failed(format!("cannot catch signals: {error}")))
    };
    let (mut terminate, mut interrupt) =
        (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let _ = stop.send(true);
    task.await.map_err(|error| CliError::Failed(format!("the agent broke: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
