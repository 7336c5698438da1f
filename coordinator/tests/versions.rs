//! Neighbouring versions: what older and newer programs say, and what they have left on the disk.
//! Each is taken whole or refused with one sentence; nothing is wiped.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Coordinator, with_token};
use prost::Message;
use shockwave::secrets;
use shockwave::service::recover::SNAPSHOT_VERSION;
use shockwave::store::StoredRecord;
use shockwave_proto::PROTOCOL_VERSION;
use shockwave_proto::v1::agent_client::AgentClient;
use shockwave_proto::v1::{Device, JobInfo, JobRequest, JobState, JoinRequest, ListJobsRequest};
use tonic::{Code, Status};

/// A store as the first program of this layout left it when it was killed. Never changed: a later
/// layout adds a file of its own.
const LAYOUT_1: &str = include_str!("stores/layout-1.sql");

/// Lays a store into a state folder, and gives its database.
fn lay(folder: &Path, sql: &str) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join("shockwave.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute_batch(sql).unwrap();
    path
}

fn query<T: rusqlite::types::FromSql>(database: &Path, sql: &str) -> T {
    let database = rusqlite::Connection::open(database).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The jobs that a coordinator on this folder knows.
async fn jobs(folder: &Path) -> Vec<JobInfo> {
    let mut options = common::options(folder, 1);
    options.devices.clear();
    let coordinator = Coordinator::with(options).await;
    let request = ListJobsRequest { all: true, ..ListJobsRequest::default() };
    let reply = coordinator.client().list_jobs(coordinator.with_token(request)).await.unwrap();
    coordinator.stop().await;
    reply.into_inner().jobs
}

fn check_jobs(jobs: &[JobInfo]) {
    let request = |job: &JobInfo| job.request.clone().unwrap();
    let seen: Vec<_> = jobs.iter().map(|job| (job.id, request(job).name, job.state())).collect();
    let expected = [
        (1, "first".to_owned(), JobState::Finished),
        (2, "second".to_owned(), JobState::Cancelled),
        (3, "third".to_owned(), JobState::Held),
    ];
    assert_eq!(seen, expected);
    assert!(request(&jobs[2]).held);
    assert_eq!(request(&jobs[2]).weight, 2.5);
    assert_eq!(jobs[0].exit_code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_first_layout_opens_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = lay(folder.path(), LAYOUT_1);
    let before: i64 = query(&path, "SELECT count(*) FROM log");
    let secret: String = query(&path, "SELECT secret FROM store");
    check_jobs(&jobs(folder.path()).await);
    assert!(query::<i64>(&path, "SELECT count(*) FROM log") > before, "it goes on");
    assert_eq!(query::<String>(&path, "SELECT secret FROM store"), secret, "tokens stay good");
}

/// A snapshot is a short cut: what another program wrote, or what cannot be read, is not used.
#[tokio::test(flavor = "multi_thread")]
async fn snapshots_of_another_layout_give_way_to_the_log() {
    for version in ["0.0.1/1", "99.0.0/7", SNAPSHOT_VERSION] {
        let folder = tempfile::tempdir().unwrap();
        let path = lay(folder.path(), LAYOUT_1);
        let number: i64 = query(&path, "SELECT max(number) FROM log");
        let body = vec![7_u8; 5000];
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute("DELETE FROM snapshot", []).unwrap();
        database
            .execute(
                "INSERT INTO snapshot (number, now_s, version, body, sha256)
                 VALUES (?1, 1.0, ?2, ?3, ?4)",
                (number, version, &body, secrets::digest_bytes(&body)),
            )
            .unwrap();
        drop(database);
        check_jobs(&jobs(folder.path()).await);
    }
}

/// Runs `shockwave serve` on a folder that it must refuse; what it says.
fn refused(folder: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_shockwave"))
        .args(["serve", "--devices", "none", "--listen", "127.0.0.1:0", "--state"])
        .arg(folder)
        .env("XDG_STATE_HOME", folder.join("user"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let sentences = said.lines().filter(|line| line.starts_with("shockwave: "));
    assert_eq!(sentences.count(), 1, "{said}");
    said
}

#[test]
fn a_store_of_a_later_layout_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = lay(folder.path(), LAYOUT_1);
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();
    drop(database);
    let before = std::fs::read(&path).unwrap();
    let said = refused(folder.path());
    assert!(said.contains("version 2") && said.contains("newer program again"), "{said}");
    assert!(std::fs::read(&path).unwrap() == before, "it was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_a_later_program_is_refused_and_not_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = lay(folder.path(), LAYOUT_1);
    let last: i64 = query(&path, "SELECT max(number) FROM log");
    let stored = StoredRecord {
        number: last.unsigned_abs() + 1,
        now_s: 1e6,
        unix_s: 2e9,
        epoch: 1,
        job_id: 0,
        body: r#"{"v":2,"record":{"of_the_future":{}}}"#.into(),
    };
    let database = rusqlite::Connection::open(&path).unwrap();
    database
        .execute(
            "INSERT INTO log (number, now_s, unix_s, epoch, job_id, body, sum)
             VALUES (?1, ?2, ?3, 1, 0, ?4, ?5)",
            (last + 1, stored.now_s, stored.unix_s, &stored.body, stored.sum()),
        )
        .unwrap();
    drop(database);
    let said = refused(folder.path());
    assert!(said.contains("newer program") && said.contains(&format!("{}", last + 1)), "{said}");
    assert_eq!(query::<i64>(&path, "SELECT max(number) FROM log"), last + 1, "it is still there");
    // Without it, everything before is there.
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute("DELETE FROM log WHERE number = ?1", [last + 1]).unwrap();
    drop(database);
    check_jobs(&jobs(folder.path()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_one_version_away_join_and_others_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(folder.path(), 1).await;
    let join = async |protocol_version: u32| -> Result<(), Status> {
        let request = JoinRequest {
            protocol_version,
            node: format!("node{protocol_version}"),
            instance: "1".into(),
            devices: vec![Device { kind: "cpu".into(), ..Device::default() }],
            ..JoinRequest::default()
        };
        let request = with_token(&coordinator.token, request);
        AgentClient::new(coordinator.channel.clone()).join(request).await.map(drop)
    };
    for near in PROTOCOL_VERSION.saturating_sub(1)..=PROTOCOL_VERSION + 1 {
        join(near).await.unwrap();
    }
    let status = join(PROTOCOL_VERSION + 2).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let expected = format!(
        "the agent speaks protocol version {}, this coordinator speaks {PROTOCOL_VERSION}",
        PROTOCOL_VERSION + 2
    );
    assert!(status.message().starts_with(&expected), "{status}");
    assert!(status.message().contains("update the older"), "{status}");
    coordinator.stop().await;
}

/// What a later program adds to a message is passed over.
#[test]
fn fields_of_the_future_are_passed_over() {
    let job = JobRequest { name: "one".into(), gpus: 2, ..JobRequest::default() };
    let mut bytes = job.encode_to_vec();
    // Field 2000, a number; field 2001, text.
    bytes.extend([0x80, 0x7d, 5, 0x8a, 0x7d, 3, b'n', b'e', b'w']);
    assert_eq!(JobRequest::decode(bytes.as_slice()).unwrap(), job);
}
