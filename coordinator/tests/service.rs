//! A coordinator with its agent, seen from outside: plain commands from submission to end.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod common;

use common::{Coordinator, eventually, is_alive, read_pid, shell};
use shockwave_proto::v1::{CancelJobRequest, JobRequest, JobState, ListJobsRequest};
use tonic::Code;

/// Variables hold secrets, and everybody may look at every job.
#[tokio::test(flavor = "multi_thread")]
async fn variables_of_a_job_are_shown_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let mut job = shell("echo $KEY");
    job.env.insert("KEY".into(), "s3cr3t".into());
    let id = coordinator.submit(job).await.id;
    let info = coordinator.until_state(id, JobState::Finished).await;
    assert!(!format!("{info:?}").contains("s3cr3t"), "{info:?}");
    assert_eq!(coordinator.logs(id).await, "s3cr3t\n");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_command_runs_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let job = coordinator.submit(shell("echo out; echo err >&2; echo slot $SHOCKWAVE_SLOT")).await;
    assert_eq!(job.id, 1);
    // Its machine may have joined by now, or not.
    assert!(matches!(job.state(), JobState::Queued | JobState::Starting), "{:?}", job.state());
    let text = coordinator.logs(1).await;
    assert_eq!(text, "out\nerr\nslot 0\n");
    let job = coordinator.until_state(1, JobState::Finished).await;
    assert_eq!((job.exit_code, job.preemptions, job.lease_epoch), (Some(0), 0, 1));
    assert!(job.jct_s.unwrap() > 0.0 && job.started_unix_s <= job.ended_unix_s);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_what_was_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let check = async |job: JobRequest, expected: &str| {
        let id = coordinator.submit(job).await.id;
        let job = coordinator.until_state(id, JobState::Failed).await;
        assert!(job.reason.contains(expected), "{:?} lacks {expected:?}", job.reason);
    };
    let missing = |program: &str, folder: &str| JobRequest {
        command: vec![program.into()],
        working_dir: folder.into(),
        ..JobRequest::default()
    };
    check(missing("no-such-program", "/"), "cannot start `no-such-program`").await;
    check(missing("ls", "/no/such/folder"), "there is no such folder").await;
    check(shell("exit 3"), "code 3").await;
    check(shell("kill -SEGV $$"), "signal 11").await;
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let good = || shell("true");
    let bad = [
        (JobRequest { command: vec![], ..good() }, "command"),
        (JobRequest { name: "a\nb".into(), ..good() }, "name"),
        (JobRequest { working_dir: "relative".into(), ..good() }, "working_dir"),
        (JobRequest { weight: -1.0, ..good() }, "weight"),
        (JobRequest { weight: f64::NAN, ..good() }, "weight"),
        (JobRequest { gpus: 2, workers: 3, ..good() }, "workers"),
        (JobRequest { grace_s: 1e9, ..good() }, "grace_s"),
        (JobRequest { command: vec!["a\0b".into()], ..good() }, "NUL"),
        (JobRequest { env: [("A=B".to_owned(), String::new())].into(), ..good() }, "env"),
    ];
    for (job, expected) in bad {
        let status = coordinator.try_submit(job, "").await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(expected), "{status}");
    }
    let cancel = CancelJobRequest { job_id: 77, reason: String::new() };
    let status = coordinator.client().cancel_job(coordinator.with_token(cancel)).await.unwrap_err();
    assert_eq!((status.code(), status.message().contains("77")), (Code::NotFound, true));
    let all = ListJobsRequest { all: true, ..ListJobsRequest::default() };
    let reply = coordinator.client().list_jobs(coordinator.with_token(all)).await.unwrap();
    assert!(reply.into_inner().jobs.is_empty());
    for token in ["", "wrong"] {
        let request = common::with_token(token, all);
        let status = coordinator.client().list_jobs(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submission_is_one_job() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let first = coordinator.try_submit(shell("true"), "key").await.unwrap();
    let again = coordinator.try_submit(shell("true"), "key").await.unwrap();
    assert_eq!(first.id, again.id);
    let other = coordinator.try_submit(shell("false"), "key").await.unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists);
    coordinator.stop().await;
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let after_restart = coordinator.try_submit(shell("true"), "key").await.unwrap();
    assert_eq!(after_restart.id, first.id);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_is_gone_at_its_deadline_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let (own, child) = (folder.path().join("own"), folder.path().join("child"));
    // Ignores SIGTERM, and so does a child that has left its process group.
    let script = format!(
        "trap '' TERM; echo $$ > {}; setsid sh -c 'echo $$ > {}; sleep 1000' & sleep 1000",
        own.display(),
        child.display()
    );
    let job = coordinator.submit(JobRequest { grace_s: 1.0, ..shell(&script) }).await;
    let pids = [read_pid(&own).await, read_pid(&child).await];
    let asked = std::time::Instant::now();
    let cancel = CancelJobRequest { job_id: job.id, reason: "enough".into() };
    coordinator.client().cancel_job(coordinator.with_token(cancel)).await.unwrap();
    let job = coordinator
        .until(job.id, |info| info.ended_unix_s.is_some() && info.devices.is_empty())
        .await;
    assert!(pids.iter().all(|&pid| !is_alive(pid)));
    assert!(asked.elapsed().as_secs_f64() >= 1.0, "it had its grace");
    assert_eq!(job.state(), JobState::Cancelled);
    assert!(job.reason.contains("enough"), "{}", job.reason);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn training_goes_on_while_the_coordinator_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, go) = (folder.path().join("pid"), folder.path().join("go"));
    let script = format!(
        "echo $$ >> {}; while [ ! -e {} ]; do sleep 0.05; done; echo done; exit 5",
        pid.display(),
        go.display()
    );
    let state = folder.path().join("state");
    let coordinator = Coordinator::start(&state, 1).await;
    let id = coordinator.submit(shell(&script)).await.id;
    let running = read_pid(&pid).await;
    coordinator.until_state(id, JobState::Running).await;
    coordinator.stop().await;
    assert!(is_alive(running));
    // One that ends while nobody watches: its exit code is not lost.
    std::fs::write(&go, "").unwrap();
    eventually("the command ends", || !is_alive(running)).await;
    let coordinator = Coordinator::start(&state, 1).await;
    let job = coordinator.until_state(id, JobState::Failed).await;
    assert_eq!((job.exit_code, job.lease_epoch), (Some(5), 1));
    assert_eq!(coordinator.logs(id).await, "done\n");
    assert_eq!(std::fs::read_to_string(&pid).unwrap().lines().count(), 1, "it ran once");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_share_the_slots_and_all_end() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 2).await;
    for number in 0..6 {
        coordinator.submit(shell(&format!("sleep 0.2; exit $(({number} % 2))"))).await;
    }
    let gang =
        JobRequest { gpus: 2, workers: 2, ..shell("echo $RANK of $WORLD_SIZE on $SHOCKWAVE_SLOT") };
    let gang = coordinator.submit(gang).await.id;
    for id in 1..=6 {
        let expected = if id % 2 == 1 { JobState::Finished } else { JobState::Failed };
        coordinator.until_state(id, expected).await;
    }
    coordinator.until_state(gang, JobState::Finished).await;
    let text = coordinator.logs(gang).await;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] 0 of 2 on 0", "[1] 1 of 2 on 1"]);
    coordinator.stop().await;
}
