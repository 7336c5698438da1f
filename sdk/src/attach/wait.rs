//! Waiting for a lease, over restarts of the coordinator.

use std::time::{Duration, Instant};

use shockwave_proto::v1::client_client::ClientClient;
use shockwave_proto::v1::{AttachReply, AttachRequest, Attachment, Grant, JobRequest};
use shockwave_proto::{AUTHORIZATION, MESSAGE_BYTES_MAX, PROTOCOL_VERSION};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

use super::settings::Settings;
use crate::client::link::{self, Backoff};

/// How long a coordinator that never answered is tried. One that has is waited for without end.
const FIRST: Duration = Duration::from_secs(15);

/// A lease, and whose.
pub(super) struct Leased {
    pub(super) job: u64,
    pub(super) node: String,
    pub(super) grant: Grant,
}

/// Enters the program and waits for its lease.
pub(super) fn for_lease(settings: &Settings) -> Result<Leased, String> {
    let endpoint = link::endpoint_at(&settings.coordinator, settings.ca_file.as_deref());
    let endpoint = endpoint.map_err(|error| error.to_string())?;
    let bearer = MetadataValue::try_from(format!("Bearer {}", settings.token.0));
    let bearer = bearer.map_err(|_| "the token is no token".to_owned())?;
    let request = request(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(Waiting::new(settings, &endpoint, bearer, request).run())
}

fn request(settings: &Settings) -> Result<AttachRequest, String> {
    let text = |path: std::path::PathBuf| path.display().to_string();
    let folder = std::env::current_dir().map_err(|error| format!("this folder: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let arguments = std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned());
    let start_ticks = crate::client::start_ticks().ok_or("/proc/self/stat cannot be read")?;
    let attached = Attachment {
        node: settings.node.clone(),
        pid: std::process::id().cast_signed(),
        start_ticks,
    };
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Ok(AttachRequest {
        job: Some(JobRequest {
            command: std::iter::once(text(program)).chain(arguments).collect(),
            working_dir: text(folder),
            gpus: settings.gpus,
            workers: 1,
            attached: Some(attached),
            ..JobRequest::default()
        }),
        key: settings.key.clone(),
        machine: machine.trim().to_owned(),
        job_id: settings.job.0,
        protocol_version: PROTOCOL_VERSION,
        last_lease_epoch: settings.job.1,
    })
}

struct Waiting<'a> {
    settings: &'a Settings,
    endpoint: &'a Endpoint,
    bearer: MetadataValue<Ascii>,
    request: AttachRequest,
    /// Whether the coordinator has answered, also to an earlier image of this program.
    heard: bool,
    said: String,
}

impl<'a> Waiting<'a> {
    fn new(
        settings: &'a Settings,
        endpoint: &'a Endpoint,
        bearer: MetadataValue<Ascii>,
        request: AttachRequest,
    ) -> Self {
        let heard = settings.job.0 > 0;
        Self { settings, endpoint, bearer, request, heard, said: String::new() }
    }

    async fn run(mut self) -> Result<Leased, String> {
        let began = Instant::now();
        let mut backoff = Backoff::new();
        loop {
            match self.listen(&mut backoff).await {
                Ok(Some(leased)) => return Ok(leased),
                Ok(None) => {}
                Err(status) if is_final(&status) => return Err(status.message().to_owned()),
                Err(status) if !self.heard && began.elapsed() > FIRST => {
                    let address = &self.settings.coordinator;
                    return Err(format!(
                        "no coordinator answers at {address}: {}",
                        status.message()
                    ));
                }
                Err(_) => self.say("the coordinator does not answer; it is asked again"),
            }
            backoff.wait().await;
        }
    }

    /// One conversation; none: it broke off.
    async fn listen(&mut self, backoff: &mut Backoff) -> Result<Option<Leased>, Status> {
        let channel = self.endpoint.connect_lazy();
        let mut client = ClientClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut request = Request::new(self.request.clone());
        request.metadata_mut().insert(AUTHORIZATION, self.bearer.clone());
        let mut replies = client.attach(request).await?.into_inner();
        while let Some(reply) = replies.message().await? {
            backoff.reset();
            self.heard = true;
            let AttachReply { job_id, node, waits, grant, ended } = reply;
            // From now on it is this job, also when the key would lead to a new one.
            self.request.job_id = job_id;
            if !ended.is_empty() {
                return Err(Status::failed_precondition(ended));
            }
            if let Some(grant) = grant {
                let devices: Vec<String> = grant.devices.iter().map(u32::to_string).collect();
                self.say(&format!("job {job_id} has device {} of {node}", devices.join(", ")));
                return Ok(Some(Leased { job: job_id, node, grant }));
            }
            let why = if waits.is_empty() { "waits for its devices" } else { &waits };
            self.say(&format!("job {job_id} on {node}: {why}"));
        }
        Ok(None)
    }

    /// Once: the same comes again with every change of the job.
    fn say(&mut self, text: &str) {
        if self.said != text {
            text.clone_into(&mut self.said);
            eprintln!("shockwave: {text}");
        }
    }
}

/// Whether asking again would change nothing.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::AlreadyExists
            | Code::NotFound
            | Code::Unimplemented
            | Code::ResourceExhausted
    )
}
