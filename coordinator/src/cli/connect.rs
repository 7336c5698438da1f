//! Reaching the coordinator: address, token, and what to say when that fails.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use shockwave_proto::v1::admin_client::AdminClient;
use shockwave_proto::v1::client_client::ClientClient;
use shockwave_proto::{AUTHORIZATION, env};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::serve;

/// Which coordinator a command talks to.
#[derive(Clone, Debug, Default, Args)]
pub struct CoordinatorArgs {
    /// Address of the coordinator [default: the one that this user started last]
    #[arg(long, env = env::COORDINATOR, value_name = "URL", global = true)]
    pub coordinator: Option<String>,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    pub json: bool,
}

/// A command's failure, with its exit code.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The input is wrong.
    #[error("{0}")]
    Usage(String),
    /// No coordinator answers.
    #[error("{0}")]
    Unreachable(String),
    /// The coordinator refused, or something failed.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    /// The exit code, as the module documentation of [`cli`](super) lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument => Self::Usage(message),
            Code::Unavailable | Code::DeadlineExceeded => Self::Unreachable(format!(
                "the coordinator does not answer ({message}); is `shockwave serve` running?"
            )),
            Code::Unauthenticated => Self::Failed(format!(
                "{message}; set {} to a token of this coordinator",
                env::TOKEN
            )),
            _ => Self::Failed(message),
        }
    }
}

/// Sends the token with every call.
#[derive(Clone, Debug)]
pub struct WithToken(Option<MetadataValue<Ascii>>);

impl tonic::service::Interceptor for WithToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert(AUTHORIZATION, token.clone());
        }
        Ok(request)
    }
}

/// The coordinator's service `Client`.
pub type Client = ClientClient<InterceptedService<Channel, WithToken>>;

/// Longest time until a connection stands.
const CONNECT: Duration = Duration::from_secs(3);
/// Largest reply, bytes.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// The coordinator's service `Admin`.
pub type Admin = AdminClient<InterceptedService<Channel, WithToken>>;

impl CoordinatorArgs {
    /// Connects to the service `Client`.
    ///
    /// # Errors
    /// One sentence with what to do.
    pub async fn connect(&self) -> Result<Client, CliError> {
        let (channel, token) = self.channel().await?;
        let client = ClientClient::with_interceptor(channel, token);
        Ok(client.max_decoding_message_size(REPLY_BYTES_MAX))
    }

    /// Connects to the service `Admin`.
    ///
    /// # Errors
    /// One sentence with what to do.
    pub async fn connect_admin(&self) -> Result<Admin, CliError> {
        let (channel, token) = self.channel().await?;
        let admin = AdminClient::with_interceptor(channel, token);
        Ok(admin.max_decoding_message_size(REPLY_BYTES_MAX))
    }

    async fn channel(&self) -> Result<(Channel, WithToken), CliError> {
        let known = serve::find(self.coordinator.as_deref())
            .map_err(|error| CliError::Failed(error.to_string()))?;
        let address =
            self.coordinator.clone().or_else(|| known.as_ref().map(|it| it.coordinator.clone()));
        let address = address.ok_or_else(|| {
            CliError::Unreachable(format!(
                "no coordinator is known; start one with `shockwave serve`, or name one with \
                 --coordinator or {}",
                env::COORDINATOR
            ))
        })?;
        let token = std::env::var(env::TOKEN).ok().or(known.map(|it| it.token));
        let token = token.map(|token| format!("Bearer {token}").parse()).transpose();
        let token = token.map_err(|_| CliError::Usage("the token is no token".into()))?;
        let wrong = |error: tonic::transport::Error| {
            CliError::Usage(format!("{address} is no address ({error}); expected http://HOST:PORT"))
        };
        let endpoint = Endpoint::from_shared(address.clone()).map_err(wrong)?;
        let endpoint = endpoint.connect_timeout(CONNECT).tcp_nodelay(true);
        let channel = endpoint.connect().await.map_err(|error| {
            CliError::Unreachable(format!(
                "no coordinator answers at {address} ({}); start one with `shockwave serve`, or \
                 name another with --coordinator or {}",
                root_cause(&error),
                env::COORDINATOR
            ))
        })?;
        Ok((channel, WithToken(token)))
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// Runs a command on a small runtime and maps its error to an exit code.
pub fn run_async(work: impl Future<Output = Result<ExitCode, CliError>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(CliError::Failed(format!("cannot start: {error}"))),
    };
    finish(result)
}

/// Prints an error in one line and gives its exit code.
pub fn finish(result: Result<ExitCode, CliError>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("shockwave: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
