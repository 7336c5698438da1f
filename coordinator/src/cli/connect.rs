//! Reaching the coordinator: address, token, and what to say when that fails.

use std::path::{Path, PathBuf};
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

use crate::{serve, tls};

/// Which coordinator a command talks to.
#[derive(Clone, Debug, Default, Args)]
pub struct CoordinatorArgs {
    /// Address of the coordinator [default: the one that this user started last]
    #[arg(long, env = env::COORDINATOR, value_name = "URL", global = true)]
    pub coordinator: Option<String>,
    /// Authority (PEM) that signed the certificate of an https:// coordinator
    #[arg(long, env = env::CA_FILE, value_name = "FILE", global = true)]
    pub authority: Option<PathBuf>,
    /// Certificate (PEM) to show to the coordinator, with its key in the file beside it that ends
    /// in .key
    #[arg(long, value_name = "FILE", global = true)]
    pub certificate: Option<PathBuf>,
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
    /// Whoever read the output has gone away (`| head`): nothing to shout about.
    #[error("the reader of the output is gone")]
    ReaderGone,
}

impl CliError {
    /// The exit code, as the module documentation of [`cli`](super) lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }
}

impl CliError {
    fn unanswered(message: &str) -> Self {
        Self::Unreachable(format!(
            "the coordinator does not answer ({message}); is `shockwave serve` running?"
        ))
    }
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        if let Some(sentence) = tls::mismatch("http://HOST:PORT", &status) {
            return Self::Unreachable(sentence);
        }
        // What the coordinator says itself has no source; a connection that breaks has.
        let broken = std::error::Error::source(&status).is_some();
        match status.code() {
            Code::InvalidArgument => Self::Usage(message),
            Code::Unavailable | Code::DeadlineExceeded => Self::unanswered(&message),
            Code::Unknown | Code::Internal | Code::Cancelled if broken => {
                Self::unanswered(&message)
            }
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

/// Longest time until a connection stands: a busy machine's first answer may be lost twice, and comes
/// again after 1 and 3 s.
const CONNECT: Duration = Duration::from_secs(10);
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
        let (endpoint, address, token) = self.endpoint()?;
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

    /// A connection that is made when it is needed, and the authorisation to send over it: by
    /// `token`, or by the one that is known.
    ///
    /// # Errors
    /// An address that is none, or no token.
    pub fn lazy_channel(
        &self,
        token: Option<String>,
    ) -> Result<(Channel, MetadataValue<Ascii>, String), CliError> {
        let (endpoint, address, known) = self.endpoint()?;
        let given = token.map(|token| bearer(&token)).transpose()?;
        let token = given.or(known);
        let token = token.ok_or_else(|| {
            CliError::Usage(format!("no token for {address} is known; set {}", env::TOKEN))
        })?;
        Ok((endpoint.connect_lazy(), token, address))
    }

    /// The authority to check an `https://` coordinator with, absolute.
    ///
    /// # Errors
    /// A file with the address of a local coordinator that cannot be read.
    pub fn authority(&self) -> Result<Option<PathBuf>, CliError> {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        if let Some(path) = &self.authority {
            return Ok(Some(absolute(path)));
        }
        let known = serve::find(self.coordinator.as_deref());
        let known = known.map_err(|error| CliError::Failed(error.to_string()))?;
        Ok(known.and_then(|it| it.authority))
    }

    fn secure(&self, endpoint: Endpoint, authority: &Path) -> Result<Endpoint, CliError> {
        let key = self.certificate.as_ref().map(|path| path.with_extension("key"));
        let identity = self.certificate.as_deref().zip(key.as_deref());
        let config = tls::client_config(authority, identity);
        let config = config.map_err(|error| CliError::Usage(error.to_string()))?;
        let secured = endpoint.tls_config(config);
        secured.map_err(|error| CliError::Usage(format!("TLS: {}", root_cause(&error))))
    }

    /// Where the coordinator is, and the authorisation to send there.
    fn endpoint(&self) -> Result<(Endpoint, String, Option<MetadataValue<Ascii>>), CliError> {
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
        let token = token.map(|token| bearer(&token)).transpose()?;
        let wrong = |error: tonic::transport::Error| {
            CliError::Usage(format!("{address} is no address ({error}); expected http://HOST:PORT"))
        };
        if !["http://", "https://"].iter().any(|scheme| address.starts_with(scheme)) {
            return Err(CliError::Usage(format!(
                "{address} is no address of a coordinator; expected http://HOST:PORT, or \
                 https://HOST:PORT where it shows a certificate"
            )));
        }
        let mut endpoint = Endpoint::from_shared(address.clone()).map_err(wrong)?;
        if address.starts_with("https://") {
            let authority = self.authority()?.ok_or_else(|| {
                let name = env::CA_FILE;
                CliError::Usage(format!(
                    "{address} shows a certificate: name the authority that signed it with \
                     --authority FILE or {name}"
                ))
            })?;
            endpoint = self.secure(endpoint, &authority)?;
        }
        Ok((endpoint.connect_timeout(CONNECT).tcp_nodelay(true), address, token))
    }
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, CliError> {
    let bearer = format!("Bearer {token}").parse();
    bearer.map_err(|_| CliError::Usage("the token is no token".into()))
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
        Err(CliError::ReaderGone) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shockwave: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
