//! What `shockwave serve` can be set to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use shockwave_core::engine;
use shockwave_core::policies::Tuning;

use super::connect::CliError;
use super::limits::LimitSettings;
use super::machine::{check_node, host_name};
use crate::devices::DeviceList;
use crate::launcher::slurm::settings::{self, Pool};
use crate::serve::{self, Options};
use crate::service::settings::Configuration;
use crate::tls::ServerFiles;
use crate::webhook::Webhook;

/// What can be set, as an option or under the same name (with `_`) in the settings file.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeSettings {
    /// Address to listen on; port 0 takes one that is free [default: 127.0.0.1:7433]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<SocketAddr>,
    /// Address that other machines are told [default: that of --listen]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// Certificate (PEM) to show; needed where other machines reach it
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authority (PEM) that signed it
    #[arg(long, value_name = "FILE")]
    pub tls_authority: Option<PathBuf>,
    /// Authority (PEM) whose certificate agents must show, besides their token
    #[arg(long, value_name = "FILE")]
    pub tls_agents: Option<PathBuf>,
    /// Address of the web page and the metrics; port 0 takes one that is free [default: none]
    #[arg(long, value_name = "IP:PORT")]
    pub web: Option<SocketAddr>,
    /// Folder of its state [default: ~/.local/state/shockwave/state]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Folder for jobs' logs, unacknowledged events and checkpoints: the one that agents share
    /// [default: `jobs` in --state]
    #[arg(long, value_name = "DIR")]
    pub jobs: Option<PathBuf>,
    /// Devices of this machine: cpu:COUNT, gpu:INDEX,.., gpu, none or auto [default: auto]
    #[arg(long, value_name = "LIST")]
    pub devices: Option<String>,
    /// Name of this machine [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Length of a round, seconds [default: 120]
    #[arg(long, value_name = "SECONDS")]
    pub round_s: Option<f64>,
    /// How long a lease lasts without renewal, seconds [default: a round + 30]
    #[arg(long, value_name = "SECONDS")]
    pub ttl_s: Option<f64>,
    /// Time between a request to yield and the kill, seconds [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub grace_s: Option<f64>,
    /// How long before a round's end its successors are fixed, seconds [default: a 12th of a round]
    #[arg(long, value_name = "SECONDS")]
    pub lead_s: Option<f64>,
    /// How long planning may take, seconds [default: an 8th of a round]
    #[arg(long, value_name = "SECONDS")]
    pub plan_budget_s: Option<f64>,
    /// Shortest run of a lease before it is taken back, seconds [default: a quarter of a round]
    #[arg(long, value_name = "SECONDS")]
    pub min_run_s: Option<f64>,
    /// Scheduling policy [default: shockwave]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// T: rounds of the planning window [default: the policy's, 30; shockwave-paper: 20]
    #[arg(long, value_name = "ROUNDS")]
    pub window_t: Option<usize>,
    /// k: the power of rho in a job's budget [default: the policy's, 1; shockwave-paper: 5]
    #[arg(long, value_name = "NUMBER")]
    pub power_k: Option<f64>,
    /// lambda: the weight of the makespan [default: the policy's, 1; shockwave-paper: 0.001]
    #[arg(long, value_name = "NUMBER")]
    pub makespan_lambda: Option<f64>,
    /// Trajectories of each job that the policy shockwave plans for [default: 1, the mean forecast]
    #[arg(long, value_name = "COUNT")]
    pub samples: Option<usize>,
    /// Predictor of batch sizes and run times [default: hierarchical]
    #[arg(long, value_name = "NAME")]
    pub predictor: Option<String>,
    /// Plan again when a job changes its batch size [default: true]
    #[arg(long, value_name = "BOOL")]
    pub reactive: Option<bool>,
    /// Most bytes of output kept for a job [default: 67108864]
    #[arg(long, value_name = "BYTES")]
    pub log_bytes_max: Option<u64>,
    /// Most jobs that have not ended [default: 100000]
    #[arg(long, value_name = "COUNT")]
    pub jobs_max: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub limits: LimitSettings,
    /// Pools of machines that Slurm lends; in the settings file only.
    #[arg(skip)]
    pub slurm: Vec<Pool>,
    /// Is told of each job that finishes, fails, is cancelled or yields [default: nobody]
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// File with the secret that these notices are signed with; private to this account
    #[arg(long, value_name = "FILE")]
    pub webhook_secret: Option<PathBuf>,
    /// Authority that signed the certificate of a receiver at https:// [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub webhook_authority: Option<PathBuf>,
}

/// Port by default.
const PORT: u16 = 7433;

/// Reads a settings file.
///
/// # Errors
/// With the line and what would be right.
pub(super) fn read(file: &Path) -> Result<ServeSettings, CliError> {
    let name = |what: String| CliError::Usage(format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| name(error.to_string()))?;
    toml::from_str(&text).map_err(|error| name(error.to_string()))
}

impl ServeSettings {
    /// These settings, and `other` where these say nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            listen: self.listen.or(other.listen),
            advertise: self.advertise.or(other.advertise),
            tls_certificate: self.tls_certificate.or(other.tls_certificate),
            tls_key: self.tls_key.or(other.tls_key),
            tls_authority: self.tls_authority.or(other.tls_authority),
            tls_agents: self.tls_agents.or(other.tls_agents),
            web: self.web.or(other.web),
            state: self.state.or(other.state),
            jobs: self.jobs.or(other.jobs),
            devices: self.devices.or(other.devices),
            node: self.node.or(other.node),
            round_s: self.round_s.or(other.round_s),
            ttl_s: self.ttl_s.or(other.ttl_s),
            grace_s: self.grace_s.or(other.grace_s),
            lead_s: self.lead_s.or(other.lead_s),
            plan_budget_s: self.plan_budget_s.or(other.plan_budget_s),
            min_run_s: self.min_run_s.or(other.min_run_s),
            policy: self.policy.or(other.policy),
            window_t: self.window_t.or(other.window_t),
            power_k: self.power_k.or(other.power_k),
            makespan_lambda: self.makespan_lambda.or(other.makespan_lambda),
            samples: self.samples.or(other.samples),
            predictor: self.predictor.or(other.predictor),
            reactive: self.reactive.or(other.reactive),
            log_bytes_max: self.log_bytes_max.or(other.log_bytes_max),
            jobs_max: self.jobs_max.or(other.jobs_max),
            limits: self.limits.or(other.limits),
            slurm: if self.slurm.is_empty() { other.slurm } else { self.slurm },
            webhook: self.webhook.or(other.webhook),
            webhook_secret: self.webhook_secret.or(other.webhook_secret),
            webhook_authority: self.webhook_authority.or(other.webhook_authority),
        }
    }

    /// What decisions depend on.
    #[must_use]
    pub fn configuration(&self) -> Configuration {
        let default = Configuration::default();
        let round_s = self.round_s.unwrap_or(default.engine.round_s);
        let engine = engine::Settings {
            round_s,
            ttl_s: self.ttl_s.unwrap_or(round_s + 30.0),
            grace_s: self.grace_s.unwrap_or(default.engine.grace_s),
            lead_s: self.lead_s.unwrap_or(round_s / 12.0),
            plan_budget_s: self.plan_budget_s.unwrap_or(round_s / 8.0),
            min_run_s: self.min_run_s.unwrap_or(round_s / 4.0),
            reactive: self.reactive.unwrap_or(default.engine.reactive),
            ..default.engine
        };
        Configuration {
            engine,
            policy: self.policy.clone().unwrap_or(default.policy),
            tuning: Tuning {
                rounds: self.window_t,
                k: self.power_k,
                lambda: self.makespan_lambda,
                samples: self.samples.unwrap_or(default.tuning.samples),
            },
            predictor: self.predictor.clone().unwrap_or(default.predictor),
            log_bytes_max: self.log_bytes_max.unwrap_or(default.log_bytes_max),
            jobs_max: self.jobs_max.unwrap_or(default.jobs_max),
            notices: self.webhook.is_some(),
        }
    }

    fn webhook(&self) -> Result<Option<Webhook>, CliError> {
        match (&self.webhook, &self.webhook_secret) {
            (None, None) if self.webhook_authority.is_none() => Ok(None),
            (Some(url), Some(file)) => {
                let webhook = Webhook::new(url, file, self.webhook_authority.as_deref());
                webhook.map(Some).map_err(CliError::Usage)
            }
            (None, None) => Err(CliError::Usage("--webhook-authority is for --webhook".into())),
            _ => Err(CliError::Usage("--webhook and --webhook-secret belong together".into())),
        }
    }

    fn tls(&self) -> Result<Option<ServerFiles>, CliError> {
        match (&self.tls_certificate, &self.tls_key, &self.tls_authority) {
            (None, None, None) if self.tls_agents.is_none() => Ok(None),
            (Some(certificate), Some(key), Some(authority)) => Ok(Some(ServerFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                authority: authority.clone(),
                agents: self.tls_agents.clone(),
            })),
            _ => Err(CliError::Usage(
                "--tls-certificate, --tls-key and --tls-authority belong together; make all three \
                 with `shockwave certificate DIR`"
                    .into(),
            )),
        }
    }

    /// What a coordinator is started with.
    ///
    /// # Errors
    /// What cannot be, and what would be right.
    pub fn options(&self) -> Result<Options, CliError> {
        let usage = |error: &dyn std::fmt::Display| CliError::Usage(error.to_string());
        let state_dir = self.state.clone().or_else(serve::default_state_dir);
        let state_dir = state_dir.ok_or_else(|| {
            CliError::Usage("neither HOME nor XDG_STATE_HOME is set; give --state DIR".into())
        })?;
        let devices = match self.devices.as_deref().unwrap_or("auto") {
            "none" => Vec::new(),
            list => {
                let list: DeviceList = list.parse().map_err(|error| usage(&error))?;
                list.resolve().map_err(|error| usage(&error))?
            }
        };
        let program = std::env::current_exe();
        let program = program.map_err(|error| CliError::Failed(format!("who am I: {error}")))?;
        let node = self.node.clone().unwrap_or_else(host_name);
        check_node(&node)?;
        settings::check_all(&self.slurm, self.jobs.is_some()).map_err(CliError::Usage)?;
        Ok(Options {
            listen: self.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], PORT))),
            advertise: self.advertise.clone(),
            tls: self.tls()?,
            web: self.web,
            jobs_dir: self.jobs.clone().unwrap_or_else(|| state_dir.join("jobs")),
            state_dir,
            node,
            devices,
            configuration: self.configuration(),
            webhook: self.webhook()?,
            limits: self.limits.limits()?,
            slurm: self.slurm.clone(),
            program,
            is_default: true,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The example in docs/operations.md is read, and names every key but those of TLS.
    #[test]
    fn the_documented_settings_are_those_that_there_are() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
        let page = std::fs::read_to_string(page).unwrap();
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let settings: ServeSettings = toml::from_str(example).unwrap();
        settings.configuration().engine().unwrap();
        let example = format!("\n{example}");
        for (key, documented) in settings_keys() {
            assert!(documented == "tls" || example.contains(&format!("\n{key} = ")), "{key}");
            assert!(page.contains(&key), "{key}");
        }
    }

    /// Every key, and `tls` for those that belong to it.
    fn settings_keys() -> Vec<(String, &'static str)> {
        use clap::Args as _;
        let command = ServeSettings::augment_args(clap::Command::new("serve"));
        let names = command.get_arguments().map(|it| it.get_id().to_string());
        let of_tls = |name: &str| name.starts_with("tls_") || name == "advertise";
        names.map(|name| (name.clone(), if of_tls(&name) { "tls" } else { "" })).collect()
    }
}
