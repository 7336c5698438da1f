//! A coordinator in the test's own process, with the real binary as runner.

#![allow(dead_code)]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shockwave::devices::DeviceList;
use shockwave::grpc::Limits;
use shockwave::serve::{self, Options, Running};
use shockwave::service::settings::Configuration;
use shockwave_proto::AUTHORIZATION;
use shockwave_proto::v1::client_client::ClientClient;
use shockwave_proto::v1::worker_client::WorkerClient;
use shockwave_proto::v1::{self, JobInfo, JobRequest, ShowJobRequest, SubmitRequest};
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A coordinator under test.
pub struct Coordinator {
    pub folder: PathBuf,
    pub address: String,
    pub token: String,
    pub channel: Channel,
    pub web: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

/// Settings with rounds short enough for tests.
pub fn quick() -> Configuration {
    let mut configuration = Configuration { policy: "fifo".into(), ..Configuration::default() };
    let engine = &mut configuration.engine;
    engine.round_s = 2.0;
    engine.lead_s = 0.2;
    engine.plan_budget_s = 0.3;
    engine.min_run_s = 0.5;
    engine.grace_s = 2.0;
    engine.ttl_s = 30.0;
    engine.backoff_s = 0.1;
    configuration
}

pub fn options(folder: &Path, slots: u32) -> Options {
    Options {
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        tls: None,
        web: Some(([127, 0, 0, 1], 0).into()),
        state_dir: folder.to_owned(),
        jobs_dir: folder.join("jobs"),
        node: "here".into(),
        devices: DeviceList::Cpu(slots).resolve().expect("CPU slots are always there"),
        configuration: quick(),
        webhook: None,
        limits: Limits::default(),
        slurm: Vec::new(),
        program: env!("CARGO_BIN_EXE_shockwave").into(),
        is_default: false,
    }
}

impl Coordinator {
    pub async fn start(folder: &Path, slots: u32) -> Self {
        Self::with(options(folder, slots)).await
    }

    pub async fn with(options: Options) -> Self {
        let folder = options.state_dir.clone();
        let running: Running = serve::start(options).await.expect("the coordinator starts");
        let address = running.address.coordinator.clone();
        let token = running.address.token.clone();
        let web = running.web;
        let channel = Channel::from_shared(address.clone()).expect("an address");
        let channel = channel.connect().await.expect("it listens");
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let signal = async {
                let _ = stopped.await;
            };
            running.until(signal).await.expect("it ends in good order");
        });
        Self { folder, address, token, channel, web, stop: Some(stop), task }
    }

    /// Ends it; training goes on.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        self.task.await.expect("it ends");
    }

    pub fn with_token<T>(&self, message: T) -> Request<T> {
        with_token(&self.token, message)
    }

    pub fn client(&self) -> ClientClient<Channel> {
        ClientClient::new(self.channel.clone())
    }

    pub fn worker(&self) -> WorkerClient<Channel> {
        WorkerClient::new(self.channel.clone())
    }

    pub async fn submit(&self, job: JobRequest) -> JobInfo {
        self.try_submit(job, "").await.expect("the job is taken")
    }

    pub async fn try_submit(&self, job: JobRequest, key: &str) -> Result<JobInfo, Status> {
        let request = SubmitRequest { job: Some(job), idempotency_key: key.into() };
        let reply = self.client().submit(self.with_token(request)).await?.into_inner();
        Ok(reply.job.expect("a reply names its job"))
    }

    pub async fn show(&self, job_id: u64) -> JobInfo {
        let request = self.with_token(ShowJobRequest { job_id });
        self.client().show_job(request).await.expect("the job is known").into_inner()
    }

    /// Waits until a job looks as wanted.
    pub async fn until(&self, job_id: u64, wanted: impl Fn(&JobInfo) -> bool) -> JobInfo {
        let request = self.with_token(ShowJobRequest { job_id });
        let stream = self.client().watch_job(request).await.expect("the job is known");
        let mut stream = stream.into_inner();
        let mut last = None;
        let follow = async {
            while let Ok(Some(info)) = stream.message().await {
                let is_wanted = wanted(&info);
                last = Some(info);
                if is_wanted {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(Duration::from_secs(60), follow).await;
        assert_eq!(found, Ok(true), "the job never looked as wanted: {last:#?}");
        last.expect("it looked as wanted")
    }

    pub async fn until_state(&self, job_id: u64, state: v1::JobState) -> JobInfo {
        self.until(job_id, |info| info.state() == state).await
    }

    pub async fn logs(&self, job_id: u64) -> String {
        let request = v1::LogsRequest { job_id, follow: true, ..v1::LogsRequest::default() };
        let stream = self.client().logs(self.with_token(request)).await.expect("a log");
        let mut stream = stream.into_inner();
        let mut text = Vec::new();
        while let Some(chunk) = stream.message().await.expect("the log is read") {
            text.extend(chunk.data);
        }
        String::from_utf8(text).expect("text")
    }
}

pub fn with_token<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().expect("a header");
    request.metadata_mut().insert(AUTHORIZATION, value);
    request
}

/// A job that a shell runs.
pub fn shell(script: &str) -> JobRequest {
    JobRequest {
        command: vec!["/bin/sh".into(), "-c".into(), script.into()],
        working_dir: "/".into(),
        ..JobRequest::default()
    }
}

/// Waits for a condition that no bell announces.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Whether a process runs.
pub fn is_alive(pid: i32) -> bool {
    shockwave::runner::process::stat(pid).is_some_and(|stat| !stat.zombie)
}

/// The number that a job has written to a file.
pub async fn read_pid(path: &Path) -> i32 {
    let read = || std::fs::read_to_string(path).ok()?.trim().parse().ok();
    eventually("the job writes its number", || read().is_some()).await;
    read().unwrap_or_default()
}
