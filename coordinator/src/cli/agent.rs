//! `shockwave agent`: offers this machine to a coordinator elsewhere.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::connect::{CliError, CoordinatorArgs, finish};
use super::{machine, serve, table};
use crate::agent::remote::Remote;
use crate::agent::{Agent, AgentConfig, Left};
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
    /// Give the machine back in good order: SIGTERM, SIGINT and SIGUSR2 stop what runs (exit code 75
    /// then), the coordinator may end the agent, and nothing outlives it; for batch systems
    #[arg(long)]
    pub pilot: bool,
    /// With --pilot: time between such a signal and the moment at which the machine is taken away,
    /// seconds
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    pub warning_s: f64,
    /// File with the token, readable by its owner only [default: the variable SHOCKWAVE_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
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
        let node = self.node.clone().unwrap_or_else(machine::host_name);
        machine::check_node(&node)?;
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
            address: self.address.clone().unwrap_or_else(machine::host_name),
            node,
            devices,
            authority: self.coordinator.authority()?,
            leases_dir: folder.join("leases"),
            jobs_dir: std::path::absolute(jobs).map_err(|error| usage(&error))?,
            program: program.map_err(|error| CliError::Failed(format!("who am I: {error}")))?,
            until: walltime.and_then(|left| Instant::now().checked_add(left)),
            is_pilot: self.pilot,
        })
    }

    fn warning(&self) -> Result<Duration, CliError> {
        Duration::try_from_secs_f64(self.warning_s).map_err(|error| {
            CliError::Usage(format!("--warning-s: {error}; expected seconds, 0 or more"))
        })
    }

    /// The token in the file, if one is named.
    fn token(&self) -> Result<Option<String>, CliError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let wrong = |what: String| CliError::Usage(format!("{}: {what}", path.display()));
        let meta = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(wrong("others can read this token; chmod 600 it".into()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(text.trim().to_owned()))
    }
}

async fn agent(args: &AgentArgs) -> Result<ExitCode, CliError> {
    let config = args.config()?;
    let warning = args.warning()?;
    serve::start_log();
    let (channel, bearer, address) = args.coordinator.lazy_channel(args.token()?)?;
    crate::files::open_files_max();
    let node = config.node.clone();
    let count = config.devices.len();
    let failed = |error: crate::files::FileError| CliError::Failed(error.to_string());
    crate::files::make_folder(&config.jobs_dir).map_err(failed)?;
    let agent =
        Agent::new(config, Arc::new(Remote::new(channel, bearer, address))).map_err(failed)?;
    let (stop, stopped) = watch::channel(false);
    table::print(&format!("machine {node} offers {count} devices"))?;
    let broken = |error| CliError::Failed(format!("the agent broke: {error}"));
    if args.pilot {
        let signals = until_signal([
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::user_defined2(),
        ])?;
        tokio::spawn(async move {
            signals.await;
            let _ = stop.send(true);
            // The sender stays: a closed channel would look like a signal.
            std::future::pending::<()>().await;
        });
        let left = tokio::spawn(agent.run_as_pilot(stopped, warning)).await.map_err(broken)?;
        return Ok(match left {
            Left::NotNeeded => ExitCode::SUCCESS,
            Left::TakenAway => ExitCode::from(TAKEN_AWAY),
        });
    }
    let task = tokio::spawn(agent.run(stopped));
    until_signal([SignalKind::terminate(), SignalKind::interrupt()])?.await;
    let _ = stop.send(true);
    task.await.map_err(broken)?;
    Ok(ExitCode::SUCCESS)
}

/// Exit code of a pilot whose machine was taken away.
const TAKEN_AWAY: u8 = shockwave_proto::exit::YIELDED as u8;

/// Waits for the first of some signals.
fn until_signal<const N: usize>(
    kinds: [SignalKind; N],
) -> Result<impl Future<Output = ()> + Send, CliError> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    for kind in kinds {
        let mut caught = signal(kind)
            .map_err(|error| CliError::Failed(format!("cannot catch signals: {error}")))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while caught.recv().await.is_some() {
                let _ = sender.try_send(());
            }
        });
    }
    Ok(async move {
        let _ = receiver.recv().await;
    })
}
