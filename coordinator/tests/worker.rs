//! What a training process says and hears, spoken by hand.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Coordinator, eventually, shell, with_token};
use shockwave_proto::v1::declaration::Policy;
use shockwave_proto::v1::directive::Kind as Told;
use shockwave_proto::v1::event::Kind;
use shockwave_proto::v1::{
    Accordion, CancelJobRequest, CheckpointSaved, Declaration, DeclareReply, DeclareRequest,
    Directive, EpochDone, Event, Finished, FollowRequest, JobState, LeaseRef, Position,
    RegimeChanged, RenewRequest, ReportRequest, Started,
};
use shockwave_proto::{PROTOCOL_VERSION, env};
use tonic::{Code, Status};

/// A training process that this test plays while a shell holds the lease.
struct Worker<'a> {
    coordinator: &'a Coordinator,
    lease: LeaseRef,
    token: String,
}

impl<'a> Worker<'a> {
    /// Submits a shell that waits for `end`, and takes its place.
    async fn start(coordinator: &'a Coordinator, folder: &Path, after: &str) -> Self {
        let (variables, end) = (folder.join("env"), folder.join("end"));
        let script = format!(
            "env > {0}.new; mv {0}.new {0}; while [ ! -e {1} ]; do sleep 0.02; done; {after}",
            variables.display(),
            end.display()
        );
        coordinator.submit(shell(&script)).await;
        Self::take_over(coordinator, folder).await
    }

    async fn take_over(coordinator: &'a Coordinator, folder: &Path) -> Self {
        let path = folder.join("env");
        eventually("the shell starts", || path.exists()).await;
        let text = std::fs::read_to_string(&path).unwrap();
        let variables: BTreeMap<_, _> =
            text.lines().filter_map(|line| line.split_once('=')).collect();
        let number = |name: &str| variables[name].parse().unwrap();
        assert_eq!(variables[env::COORDINATOR], coordinator.address);
        assert!(Path::new(variables[env::CHECKPOINT_DIR]).is_dir());
        assert!(Path::new(variables[env::SPOOL_DIR]).is_dir());
        Self {
            coordinator,
            lease: LeaseRef { job_id: number(env::JOB_ID), lease_epoch: number(env::LEASE_EPOCH) },
            token: variables[env::JOB_TOKEN].to_owned(),
        }
    }

    async fn declare(&self, version: u32) -> Result<DeclareReply, Status> {
        let declaration = Declaration {
            epochs_total: 4,
            samples_per_epoch: 100,
            initial_batch: 10,
            family: "test".into(),
            policy: Some(Policy::Accordion(Accordion { small: 10, large: 50 })),
        };
        let request = DeclareRequest {
            lease: Some(self.lease),
            protocol_version: version,
            declaration: Some(declaration),
            sdk_version: "test".into(),
        };
        let request = with_token(&self.token, request);
        self.coordinator.worker().declare(request).await.map(tonic::Response::into_inner)
    }

    async fn report(&self, events: &[(u64, Kind)]) -> Result<u64, Status> {
        let event = |(number, kind): &(u64, Kind)| Event {
            number: *number,
            lease_epoch: self.lease.lease_epoch,
            at_unix_s: 0.0,
            kind: Some(kind.clone()),
        };
        let events = events.iter().map(event).collect();
        let request = ReportRequest { lease: Some(self.lease), events };
        let reply = self.coordinator.worker().report(with_token(&self.token, request)).await?;
        Ok(reply.into_inner().acknowledged)
    }

    async fn renew(&self) -> Result<Directive, Status> {
        let position = Position { epoch: 1, step: 15, sample: 50, batch: 10, samples_per_s: 30.0 };
        let request = RenewRequest { lease: Some(self.lease), position: Some(position) };
        let reply = self.coordinator.worker().renew(with_token(&self.token, request)).await?;
        Ok(reply.into_inner())
    }
}

fn started() -> Kind {
    Kind::Started(Started { batch: 10, ..Started::default() })
}

fn epoch(epoch: u32, batch: u32) -> Kind {
    let metrics = [("accuracy".to_owned(), 0.5), ("bad".to_owned(), f64::NAN)].into();
    Kind::EpochDone(EpochDone {
        epoch,
        step: u64::from(epoch + 1) * 10,
        batch,
        samples: 100,
        duration_s: 2.0,
        loss: Some(f64::NAN),
        metrics,
        ..EpochDone::default()
    })
}

fn checkpoint(step: u64) -> Kind {
    let (uri, sha256) = (format!("/checkpoints/{step}"), format!("{step:064x}"));
    Kind::CheckpointSaved(CheckpointSaved { epoch: 1, step, uri, sha256, ..Default::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_taken_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("state"), 1).await;
    let worker = Worker::start(&coordinator, folder.path(), "exit 0").await;
    let id = worker.lease.job_id;
    assert_eq!(worker.declare(PROTOCOL_VERSION).await.unwrap().acknowledged, 0);
    assert_eq!(worker.report(&[(1, started()), (2, epoch(0, 10))]).await.unwrap(), 2);
    // A repeat, a gap, a repeat that goes on.
    assert_eq!(worker.report(&[(1, started()), (2, epoch(0, 10))]).await.unwrap(), 2);
    assert_eq!(worker.report(&[(4, epoch(1, 50))]).await.unwrap(), 2);
    let change = RegimeChanged { epoch: 1, old_batch: 10, new_batch: 50, ..Default::default() };
    let more = [
        (2, epoch(0, 10)),
        (3, Kind::RegimeChanged(change)),
        (4, epoch(1, 50)),
        (5, checkpoint(20)),
    ];
    assert_eq!(worker.report(&more).await.unwrap(), 5);
    let job = coordinator.show(id).await;
    assert_eq!(job.state(), JobState::Running);
    let regimes: Vec<_> = job.regimes.iter().map(|it| (it.batch, it.epochs_trained)).collect();
    assert_eq!(regimes, [(10, 1.0), (50, 1.0)]);
    assert_eq!(job.metrics, [("accuracy".to_owned(), 0.5)].into());
    assert_eq!(job.checkpoint.as_ref().unwrap().step, 20);
    assert!(job.eta.is_some() && job.rho.is_some());
    let reply = worker.declare(PROTOCOL_VERSION).await.unwrap();
    assert_eq!((reply.acknowledged, reply.checkpoint.unwrap().step), (5, 20));
    assert!(matches!(worker.renew().await.unwrap().kind, Some(Told::Extended(_))));
    let finished = Finished { step: 40, checkpoint_sha256: "f".repeat(64), ..Default::default() };
    assert_eq!(worker.report(&[(6, Kind::Finished(finished))]).await.unwrap(), 6);
    std::fs::write(folder.path().join("end"), "").unwrap();
    let job =
        coordinator.until(id, |info| info.ended_unix_s.is_some() && info.devices.is_empty()).await;
    assert_eq!(job.state(), JobState::Finished);
    assert_eq!(job.checkpoint_sha256, "f".repeat(64));
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_code_zero_does_not_finish_a_job_of_the_sdk() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("state"), 1).await;
    let mut worker = Worker::start(&coordinator, folder.path(), "exit 0").await;
    worker.declare(PROTOCOL_VERSION).await.unwrap();
    worker.report(&[(1, started())]).await.unwrap();
    std::fs::write(folder.path().join("end"), "").unwrap();
    let job = coordinator.until(worker.lease.job_id, |info| info.ended_unix_s.is_some()).await;
    assert_eq!(job.state(), JobState::Failed, "{}", job.reason);
    // It has ended and is gone: whoever kept its token changes nothing any more.
    worker.lease.lease_epoch = job.lease_epoch;
    let late = worker.report(&[(2, checkpoint(9))]).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    assert!(late.message().contains("has ended"), "{late}");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_stale_leases_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("state"), 1).await;
    let mut worker = Worker::start(&coordinator, folder.path(), "exit 75").await;
    let far = worker.declare(PROTOCOL_VERSION + 2).await.unwrap_err();
    assert_eq!(far.code(), Code::Unimplemented);
    assert!(far.message().contains("protocol version"), "{far}");
    worker.declare(PROTOCOL_VERSION).await.unwrap();
    worker.report(&[(1, started()), (2, checkpoint(10))]).await.unwrap();
    let good = std::mem::replace(&mut worker.token, "0".repeat(64));
    assert_eq!(worker.renew().await.unwrap_err().code(), Code::Unauthenticated);
    worker.token = good;
    // The shell yields and the job gets a new lease: the old one may say nothing any more.
    std::fs::remove_file(folder.path().join("env")).unwrap();
    std::fs::write(folder.path().join("end"), "").unwrap();
    coordinator.until(worker.lease.job_id, |info| info.lease_epoch >= 2).await;
    let stale = worker.report(&[(3, checkpoint(11))]).await.unwrap_err();
    assert_eq!(stale.code(), Code::FailedPrecondition);
    assert_eq!(coordinator.show(worker.lease.job_id).await.checkpoint.unwrap().step, 10);
    assert_eq!(worker.renew().await.unwrap_err().code(), Code::FailedPrecondition);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yield_is_heard_at_once_by_whoever_follows() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(&folder.path().join("state"), 1).await;
    let worker = Worker::start(&coordinator, folder.path(), "exit 75").await;
    worker.declare(PROTOCOL_VERSION).await.unwrap();
    worker.report(&[(1, started())]).await.unwrap();
    let request = FollowRequest { lease: Some(worker.lease) };
    let stream = coordinator.worker().follow(with_token(&worker.token, request)).await.unwrap();
    let mut stream = stream.into_inner();
    let cancel = CancelJobRequest { job_id: worker.lease.job_id, reason: String::new() };
    coordinator.client().cancel_job(coordinator.with_token(cancel)).await.unwrap();
    let told = stream.message().await.unwrap().unwrap().kind.unwrap();
    let Told::YieldBy(told) = told else { panic!("{told:?}") };
    assert!(told.deadline_ms > 0 && told.reason.contains("cancelled"), "{told:?}");
    let Some(Told::YieldBy(_)) = worker.renew().await.unwrap().kind else { panic!() };
    std::fs::write(folder.path().join("end"), "").unwrap();
    let wanted = |info: &shockwave_proto::v1::JobInfo| info.devices.is_empty();
    let job = coordinator.until(worker.lease.job_id, wanted).await;
    assert_eq!((job.state(), job.exit_code), (JobState::Cancelled, Some(75)));
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let coordinator = Coordinator::start(&state, 1).await;
    let worker = Worker::start(&coordinator, folder.path(), "exit 75").await;
    worker.declare(PROTOCOL_VERSION).await.unwrap();
    worker.report(&[(1, started()), (2, epoch(0, 10)), (3, checkpoint(10))]).await.unwrap();
    let before = coordinator.show(worker.lease.job_id).await;
    let (lease, token) = (worker.lease, worker.token.clone());
    coordinator.stop().await;
    let coordinator = Coordinator::start(&state, 1).await;
    let worker = Worker { coordinator: &coordinator, lease, token };
    // The port and the token are the same: the process goes on as if nothing had been.
    assert_eq!(worker.declare(PROTOCOL_VERSION).await.unwrap().acknowledged, 3);
    assert!(matches!(worker.renew().await.unwrap().kind, Some(Told::Extended(_))));
    let after = coordinator.show(lease.job_id).await;
    assert_eq!((after.regimes, after.checkpoint), (before.regimes, before.checkpoint));
    assert_eq!(after.lease_epoch, 1);
    std::fs::write(folder.path().join("end"), "").unwrap();
    coordinator.stop().await;
}
