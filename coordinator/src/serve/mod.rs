//! A whole coordinator in one process: store, owner, network, agent.
//!
//! Started by `shockwave serve`, and by tests in their own process.

mod address;
mod snapshots;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use shockwave_proto::v1::Device;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::ServerTlsConfig;

pub use address::{AddressFile, default_state_dir, find, user_dir};

use crate::agent::{Agent, AgentConfig, mark};
use crate::files::{FileError, make_folder};
use crate::grpc::agent::Embedded;
use crate::grpc::{self, Limits};
use crate::incoming;
use crate::launcher::Pass;
use crate::launcher::slurm;
use crate::launcher::slurm::pilot::Pilots;
use crate::launcher::slurm::settings::Pool;
use crate::secrets;
use crate::service::Shared;
use crate::service::carriers::PLACE;
use crate::service::clock::Clock;
use crate::service::owner::{self, Handle, Parts, StoreFailure};
use crate::service::record::Record;
use crate::service::recover::{RecoverError, recover};
use crate::service::settings::{Configuration, ConfigurationError};
use crate::store::{Store, StoreError};
use crate::tls::{ServerFiles, ServerFilesError};
use crate::webhook::Webhook;

/// What a coordinator is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 takes the one it had before, else any that is free.
    pub listen: SocketAddr,
    /// `HOST:PORT` that other machines are told; the address it listens on when nothing is said.
    pub advertise: Option<String>,
    /// Its certificates; none: plain text, on loopback only.
    pub tls: Option<ServerFiles>,
    /// Where the web page and the metrics are, if anywhere; loopback only.
    pub web: Option<SocketAddr>,
    /// Folder of its state.
    pub state_dir: PathBuf,
    /// Folder of the jobs' logs, events and checkpoints.
    pub jobs_dir: PathBuf,
    /// Name of this machine.
    pub node: String,
    /// Devices of this machine; empty: no embedded agent.
    pub devices: Vec<Device>,
    /// What decisions depend on.
    pub configuration: Configuration,
    /// Who is told of jobs' ends and yields.
    pub webhook: Option<Webhook>,
    /// What its server allows.
    pub limits: Limits,
    /// The program that has the command `runner`.
    pub program: PathBuf,
    /// Pools of machines that Slurm lends.
    pub slurm: Vec<Pool>,
    /// Whether its address becomes the one that this user's commands find by default.
    pub is_default: bool,
}

/// Why a coordinator does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The address.
    #[error("cannot listen on {address}: {source}; choose another address with {option}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// The option that sets it.
        option: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// Plain text beyond this machine.
    #[error(
        "{address} can be reached from other machines, and without TLS everybody there could read \
         and change what is sent; listen on 127.0.0.1, or make certificates with `shockwave \
         certificate DIR`"
    )]
    PlainText {
        /// The address.
        address: SocketAddr,
    },
    /// The page beyond this machine.
    #[error(
        "--web {address} can be reached from other machines, and the page asks for no token; listen \
         on 127.0.0.1, and let a proxy that knows its users reach it there"
    )]
    OpenPage {
        /// The address.
        address: SocketAddr,
    },
    /// The certificates.
    #[error("TLS: {0}")]
    Tls(ServerFilesError),
    /// The server.
    #[error("the server ended: {0}")]
    Server(#[from] tonic::transport::Error),
    /// The log can be written no more.
    #[error(transparent)]
    Ended(#[from] StoreFailure),
    /// A task of its own broke.
    #[error("the coordinator broke: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// A coordinator that runs.
pub struct Running {
    /// Where it is found, and by which token.
    pub address: AddressFile,
    /// Where its web page is.
    pub web: Option<SocketAddr>,
    /// Asks its owner.
    pub handle: Handle,
    /// Starts of a coordinator on this store, with this one.
    pub epoch: u64,
    /// Records that were in the log.
    pub recovered: u64,
    stop: watch::Sender<bool>,
    owner: tokio::task::JoinHandle<Result<(), StoreFailure>>,
    server: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
    agent: Option<tokio::task::JoinHandle<()>>,
    _store: Store,
}

/// Starts a coordinator: takes the store, replays its log, listens, enters this machine.
///
/// # Errors
/// One sentence with what to do; nothing has been changed then.
pub async fn start(options: Options) -> Result<Running, ServeError> {
    refuse_plain_text(&options)?;
    options.configuration.engine()?;
    let tls = options.tls.as_ref().map(ServerFiles::config).transpose().map_err(ServeError::Tls)?;
    let secured = (options.limits.clone(), tls);
    let (store, writer) = Store::open(&options.state_dir)?;
    let (listener, listen, web) = listen(&options)?;
    let info = store.info.clone();
    let reader = store.reader()?;
    let state = recover(&info, &reader, &options.configuration, &info.secret)?;
    let recovered = state.book.number;
    let had_places = state.book.nodes.values().any(|node| node.instance == PLACE);
    let (stop, stopped) = watch::channel(false);
    let parts = Parts {
        state,
        clock: Clock::new(&info),
        policy: options.configuration.policy()?,
        store: info.clone(),
        writer,
        started: Record::Started {
            configuration: Box::new(options.configuration.clone()),
            program: env!("CARGO_PKG_VERSION").into(),
        },
    };
    // Refused where the owner has ended with the reason, or the disk is full.
    let refused = |status: tonic::Status| StoreError::Refused(status.message().to_owned());
    let (handle, owner) = owner::start(parts, stopped.clone()).map_err(refused)?;
    // Answered once the start is durable.
    let accounts = handle.ask(|owner| Ok(owner.accounts())).await.map_err(refused)?;
    let address = AddressFile::new(&options, listen, &info.secret);
    let jobs_dir =
        std::path::absolute(&options.jobs_dir).unwrap_or_else(|_| options.jobs_dir.clone());
    make_folder(&jobs_dir)?;
    let pilots = Pilots::open(&options.state_dir, &info.secret)?;
    let passes = watch::channel(Arc::new(pilots.passes()));
    let shared = Arc::new(Shared {
        handle: handle.clone(),
        secret: info.secret.clone(),
        local_token_digest: secrets::digest(&address.token),
        local_user: address::user_name(),
        database: info.path.clone(),
        jobs_mark: mark::make(&jobs_dir)?,
        jobs_dir,
        pilots: passes.1,
        address: address.coordinator.clone(),
        accounts,
        agents_show_certificates: options.tls.as_ref().is_some_and(|tls| tls.agents.is_some()),
    });
    let server = tokio::spawn(serve(listener, Arc::clone(&shared), secured, stopped.clone()));
    let web = beside(&options, web, &shared, &stopped);
    let agent = embedded_agent(&options, &shared, stopped.clone())?;
    launch(&options, &shared, (pilots, passes.0, had_places), stopped.clone())?;
    snapshots::start(handle.clone(), stopped);
    address.write(&options.state_dir, options.is_default)?;
    Ok(Running {
        address,
        web,
        handle,
        epoch: info.epoch,
        recovered,
        stop,
        owner,
        server,
        agent,
        _store: store,
    })
}

/// Starts what others than agents and trainings look at: the page, and notices to a webhook. Gives
/// the page's address.
fn beside(
    options: &Options,
    web: Option<TcpListener>,
    shared: &Arc<Shared>,
    stopped: &watch::Receiver<bool>,
) -> Option<SocketAddr> {
    let address = web.as_ref().and_then(|listener| listener.local_addr().ok());
    if let Some(listener) = web {
        let limits = options.limits.clone();
        tokio::spawn(crate::web::serve(listener, Arc::clone(shared), limits, stopped.clone()));
    }
    if let Some(webhook) = options.webhook.clone() {
        tokio::spawn(crate::webhook::run(webhook, Arc::clone(shared), stopped.clone()));
    }
    address
}

fn refuse_plain_text(options: &Options) -> Result<(), ServeError> {
    let is_open = |address: &SocketAddr| !address.ip().is_loopback();
    if let Some(address) = options.web.filter(is_open) {
        return Err(ServeError::OpenPage { address });
    }
    match Some(options.listen).filter(|address| options.tls.is_none() && is_open(address)) {
        Some(address) => Err(ServeError::PlainText { address }),
        None => Ok(()),
    }
}

/// The coordinator's socket, its address, and the web page's socket.
fn listen(options: &Options) -> Result<(TcpListener, SocketAddr, Option<TcpListener>), ServeError> {
    let failed = |option, address| move |source| ServeError::Listen { address, option, source };
    let listener = address::bind(options.listen, &options.state_dir)?;
    let bound = listener.local_addr().map_err(failed("--listen", options.listen))?;
    let web = match options.web {
        Some(address) => Some(incoming::listen(address).map_err(failed("--web", address))?),
        None => None,
    };
    Ok((listener, bound, web))
}

async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    (limits, tls): (Limits, Option<ServerTlsConfig>),
    stop: watch::Receiver<bool>,
) -> Result<(), tonic::transport::Error> {
    grpc::serve(listener, shared, &limits, tls, stop).await
}

fn embedded_agent(
    options: &Options,
    shared: &Arc<Shared>,
    stop: watch::Receiver<bool>,
) -> Result<Option<tokio::task::JoinHandle<()>>, FileError> {
    if options.devices.is_empty() {
        return Ok(None);
    }
    let config = AgentConfig {
        node: options.node.clone(),
        devices: options.devices.clone(),
        leases_dir: options.state_dir.join("leases"),
        jobs_dir: shared.jobs_dir.clone(),
        program: options.program.clone(),
        address: "127.0.0.1".into(),
        authority: options.tls.as_ref().map(|tls| tls.authority.clone()),
        until: None,
        is_pilot: false,
    };
    let agent = Agent::new(config, Arc::new(Embedded(Arc::clone(shared))))?;
    Ok(Some(tokio::spawn(agent.run(stop))))
}

/// Starts what brings machines from Slurm.
fn launch(
    options: &Options,
    shared: &Arc<Shared>,
    (pilots, passes, had_places): (Pilots, watch::Sender<Arc<Vec<Pass>>>, bool),
    stop: watch::Receiver<bool>,
) -> Result<(), FileError> {
    if options.slurm.is_empty() && pilots.all.is_empty() && !had_places {
        return Ok(());
    }
    if options.listen.ip().is_loopback() {
        tracing::warn!("Slurm's nodes reach this coordinator only where they are this machine");
    }
    let parts = slurm::Parts {
        shared: Arc::clone(shared),
        state_dir: options.state_dir.clone(),
        program: options.program.clone(),
        authority: options.tls.as_ref().map(|tls| tls.authority.clone()),
        pools: options.slurm.clone(),
        pilots,
        passes,
    };
    slurm::start(parts, stop)
}

impl Running {
    /// Waits until `signal` comes or the coordinator ends by itself; then ends it in good order.
    /// Training that runs goes on running.
    ///
    /// # Errors
    /// Why it ended, when nobody asked it to.
    pub async fn until(mut self, signal: impl Future<Output = ()>) -> Result<(), ServeError> {
        tokio::select! {
            () = signal => {}
            ended = &mut self.owner => {
                let _ = self.stop.send(true);
                ended??;
                return Ok(());
            }
            ended = &mut self.server => {
                let _ = self.stop.send(true);
                ended??;
                return Ok(());
            }
        }
        tracing::info!(
            "the coordinator stops; what trains goes on, and is taken up again by the next \
             `shockwave serve` on this state"
        );
        snapshots::take(&self.handle).await;
        let _ = self.stop.send(true);
        if let Some(agent) = self.agent {
            agent.await?;
        }
        self.owner.await??;
        // Streams of clients that do not end are not waited for.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), self.server).await;
        self.address.remove();
        Ok(())
    }
}
