//! `shockwave serve`: runs the coordinator.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::connect::{CliError, finish};
use super::serve_settings::{ServeSettings, read};
use super::table;
use crate::serve::{self, Options, ServeError};

/// Runs the coordinator, with an agent for this machine
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Settings file (TOML); what is given here as an option wins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Prints where it listens as JSON, for programs
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub settings: ServeSettings,
}

/// Runs the command.
pub(super) fn run(args: &ServeArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    finish(match runtime {
        Ok(runtime) => runtime.block_on(serve(args)),
        Err(error) => Err(CliError::Failed(format!("cannot start: {error}"))),
    })
}

async fn serve(args: &ServeArgs) -> Result<ExitCode, CliError> {
    let settings = match &args.config {
        Some(file) => args.settings.clone().or(read(file)?),
        None => args.settings.clone(),
    };
    let options = settings.options()?;
    start_log();
    let files_max = crate::files::open_files_max();
    if files_max < options.limits.connections_max as u64 {
        tracing::warn!(files_max, "few open files are allowed: not more connections than that");
    }
    let devices = describe(&options);
    let state_dir = options.state_dir.clone();
    let running = serve::start(options).await.map_err(failure)?;
    if args.json {
        let ready = serde_json::json!({
            "version": super::json::VERSION,
            "coordinator": running.address.coordinator,
            "web": running.web.map(|address| format!("http://{address}/")),
            "state": running.address.state,
            "epoch": running.epoch,
            "recovered": running.recovered,
        });
        table::print(&ready.to_string())?;
    } else {
        let address = &running.address.coordinator;
        let state = state_dir.display();
        table::print(&format!("listening on {address} ({devices}), state in {state}"))?;
        if let Some(web) = running.web {
            table::print(&format!("web page on http://{web}/"))?;
        }
        if running.recovered > 0 {
            table::print(&format!("took up {} records of its log", running.recovered))?;
        }
    }
    running.until(stop_signal()?).await.map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: ServeError) -> CliError {
    match error {
        ServeError::Configuration(_)
        | ServeError::PlainText { .. }
        | ServeError::OpenPage { .. }
        | ServeError::Tls(_) => CliError::Usage(error.to_string()),
        error => CliError::Failed(error.to_string()),
    }
}

/// Structured lines on standard error; `RUST_LOG` chooses which.
pub(super) fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Said on standard error, by a macro that panics when that is what cannot be written.
        .log_internal_errors(false);
    let _ = lines.try_init();
}

fn stop_signal() -> Result<impl Future<Output = ()>, CliError> {
    let catch = |kind| {
        signal(kind).map_err(|error| CliError::Failed(format!("cannot catch signals: {error}")))
    };
    let mut terminate = catch(SignalKind::terminate())?;
    let mut interrupt = catch(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn describe(options: &Options) -> String {
    let count = options.devices.len();
    match options.devices.first() {
        None => "no devices of its own".into(),
        Some(first) if first.kind == "cpu" => format!("{count} CPU slots"),
        Some(first) => format!("{count} GPUs: {}", first.model),
    }
}
