//! Every limit of the servers, from outside: each is set low, and whoever goes beyond it is stopped
//! while whoever behaves is served.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod common;
mod raw;

use std::net::SocketAddr;
use std::time::Duration;

use common::Coordinator;
use raw::{GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, Raw};
use shockwave::grpc::Limits;
use shockwave_proto::v1::{JobRequest, ListJobsRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

const LIST: &str = "/shockwave.v1.Client/ListJobs";

/// A coordinator with these limits, and where it listens.
async fn start(folder: &tempfile::TempDir, limits: Limits) -> (Coordinator, SocketAddr) {
    let options = shockwave::serve::Options { limits, ..common::options(folder.path(), 1) };
    let coordinator = Coordinator::with(options).await;
    let address = coordinator.address.rsplit('/').next().unwrap().parse().unwrap();
    (coordinator, address)
}

async fn is_served(coordinator: &Coordinator) -> bool {
    let request = coordinator.with_token(ListJobsRequest::default());
    coordinator.client().list_jobs(request).await.is_ok()
}

fn brief() -> Duration {
    Duration::from_millis(300)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_in_all_and_from_one_address() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { connections_max: 6, connections_per_address_max: 4, ..Limits::default() };
    // The coordinator's own user has one already.
    let (coordinator, address) = start(&folder, limits).await;
    let mut inside = Vec::new();
    for _ in 0..4 {
        inside.push(Raw::open(address, 2).await.0);
    }
    assert!(Raw::greet(address, 2).await.next().await.is_none(), "a fifth of one address");
    let _other = Raw::open(address, 3).await;
    assert!(Raw::greet(address, 4).await.next().await.is_none(), "a seventh in all");
    assert!(is_served(&coordinator).await);
    drop(inside.pop());
    let mut again = None;
    for _ in 0..100 {
        again = Raw::greet(address, 4).await.next().await;
        if again.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(again.is_some(), "a place that is free again is nobody's");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_and_dripping_hold_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { opening_timeout: brief(), ..Limits::default() };
    let (coordinator, address) = start(&folder, limits).await;
    let mut silent = raw::connect(address, 1).await;
    assert!(raw::closed(&mut silent).await.is_some(), "it may say nothing");
    let mut dripping = raw::connect(address, 1).await;
    for byte in PREFACE {
        tokio::time::sleep(brief()).await;
        if dripping.write_all(&[*byte]).await.is_err() {
            break;
        }
    }
    assert!(raw::closed(&mut dripping).await.is_some(), "it may drip");
    assert!(is_served(&coordinator).await);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_no_sign_of_life_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { keepalive: brief(), keepalive_timeout: brief(), ..Limits::default() };
    let (coordinator, address) = start(&folder, limits).await;
    let (mut dead, _) = Raw::open(address, 1).await;
    dead.answers_pings = false;
    assert!(dead.next_of(&[PING]).await.is_some(), "it is never asked");
    assert!(raw::closed(&mut dead.stream).await.is_some(), "it need not answer");
    let (mut alive, _) = Raw::open(address, 1).await;
    for _ in 0..4 {
        assert!(alive.next_of(&[PING]).await.is_some(), "an answer does not keep it");
    }
    assert!(is_served(&coordinator).await);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_connections_are_asked_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { connection_age_max: brief(), ..Limits::default() };
    let (coordinator, address) = start(&folder, limits).await;
    let (mut old, _) = Raw::open(address, 1).await;
    let frame = old.next_of(&[GOAWAY]).await.unwrap();
    assert_eq!(frame.error_code(), Some(0), "not as a fault");
    // A client of tonic's comes again by itself; a call that meets the very end is made once more.
    for _ in 0..5 {
        tokio::time::sleep(brief()).await;
        assert!(is_served(&coordinator).await || is_served(&coordinator).await);
    }
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_on_one_connection() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { streams_per_connection: 3, ..Limits::default() };
    let (coordinator, address) = start(&folder, limits).await;
    let (mut greedy, settings) = Raw::open(address, 1).await;
    assert_eq!(settings.setting(3), Some(3), "it says so");
    for stream in [1, 3, 5, 7] {
        let head = raw::call(stream, LIST, &coordinator.token);
        greedy.stream.write_all(&head).await.unwrap();
    }
    let frame = greedy.next_of(&[RST_STREAM, GOAWAY, HEADERS]).await.unwrap();
    assert_eq!((frame.kind, frame.stream), (RST_STREAM, 7), "the fourth: {frame:?}");
    assert!(is_served(&coordinator).await);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_message_never_comes_is_answered_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { call_timeout: brief(), ..Limits::default() };
    let (coordinator, address) = start(&folder, limits).await;
    let (mut slow, _) = Raw::open(address, 1).await;
    slow.stream.write_all(&raw::call(1, LIST, &coordinator.token)).await.unwrap();
    let frame = slow.next_of(&[HEADERS, RST_STREAM]).await.expect("it ends");
    assert_eq!(frame.stream, 1);
    assert!(is_served(&coordinator).await);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_taken_back_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, address) = start(&folder, Limits::default()).await;
    let (mut rapid, _) = Raw::open(address, 1).await;
    let stream = |number: u32| raw::call_and_reset(2 * number + 1, LIST, &coordinator.token);
    let storm: Vec<u8> = (0..2000).flat_map(stream).collect();
    // It may be closed before all of it is taken.
    let _ = rapid.stream.write_all(&storm).await;
    let calm = rapid.next_of(&[GOAWAY]).await;
    assert!(calm.is_none_or(|frame| frame.error_code() == Some(11)), "enhance your calm");
    assert!(raw::closed(&mut rapid.stream).await.is_some(), "it goes on");
    assert!(is_served(&coordinator).await);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_messages() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, address) = start(&folder, Limits::default()).await;
    let with_head = async |bytes: usize| {
        let mut request = coordinator.with_token(ListJobsRequest::default());
        request.metadata_mut().insert("x-filler", "y".repeat(bytes).parse().unwrap());
        coordinator.client().list_jobs(request).await
    };
    assert!(with_head(8 << 10).await.is_ok());
    assert!(with_head(20 << 10).await.is_err(), "a head of 20 KiB is taken");
    let (mut endless, settings) = Raw::open(address, 1).await;
    assert_eq!(settings.setting(6), Some(16 << 10), "it says so");
    let _ = endless.stream.write_all(&raw::endless_head(1, 2000)).await;
    assert!(raw::closed(&mut endless.stream).await.is_some(), "a head may go on for ever");

    let large = |bytes: usize| JobRequest {
        command: vec!["true".into()],
        env: [("FILLER".to_owned(), "y".repeat(bytes))].into(),
        held: true,
        working_dir: "/".into(),
        ..JobRequest::default()
    };
    let status = coordinator.try_submit(large(2 << 20), "").await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert!(is_served(&coordinator).await);
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_greeting_of_tls_that_never_ends() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = folder.path().join("certificates");
    shockwave::tls::generate(&certificates, &[]).unwrap();
    let file = |name: &str| certificates.join(name);
    let mut options = common::options(&folder.path().join("state"), 1);
    options.tls = Some(shockwave::tls::ServerFiles {
        certificate: file("coordinator.pem"),
        key: file("coordinator.key"),
        authority: file("ca.pem"),
        agents: None,
    });
    options.limits.opening_timeout = brief();
    let running = shockwave::serve::start(options).await.unwrap();
    let address = running.address.listen.unwrap();
    let mut silent = raw::connect(address, 1).await;
    assert!(raw::closed(&mut silent).await.is_some(), "it may say nothing");
    // A record that announces 500 bytes, and some of them.
    let mut half = raw::connect(address, 1).await;
    half.write_all(&[0x16, 3, 1, 1, 0xf4, 1, 0, 1, 0xf0]).await.unwrap();
    half.write_all(&[0; 60]).await.unwrap();
    assert!(raw::closed(&mut half).await.is_some(), "half a greeting may stay");
    running.until(async {}).await.unwrap();
}

/// Asks the page for something and gives the beginning of the answer.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if stream.write_all(request.as_bytes()).await.is_err() {
        return String::new();
    }
    let mut bytes = [0; 64];
    let read = tokio::time::timeout(raw::PATIENCE, stream.read(&mut bytes)).await;
    let count = read.unwrap().unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { web_connections_max: 3, ..Limits::default() };
    let (coordinator, _) = start(&folder, limits).await;
    let web = coordinator.web.unwrap();
    let mut inside = Vec::new();
    for _ in 0..3 {
        let mut stream = raw::connect(web, 1).await;
        assert!(ask(&mut stream, "/metrics").await.starts_with("HTTP/1.1 200"));
        inside.push(stream);
    }
    assert_eq!(ask(&mut raw::connect(web, 1).await, "/metrics").await, "", "a fourth");
    drop(inside);
    let mut said = String::new();
    for _ in 0..100 {
        said = ask(&mut raw::connect(web, 1).await, "/metrics").await;
        if !said.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_waits_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { web_patience: 2 * brief(), ..Limits::default() };
    let (coordinator, _) = start(&folder, limits).await;
    let web = coordinator.web.unwrap();
    let mut silent = raw::connect(web, 1).await;
    assert!(raw::closed(&mut silent).await.is_some(), "it may say nothing");
    let mut idle = raw::connect(web, 1).await;
    assert!(ask(&mut idle, "/metrics").await.starts_with("HTTP/1.1 200"));
    assert!(raw::closed(&mut idle).await.is_some(), "it may keep its place and ask nothing");
    let mut dripping = raw::connect(web, 1).await;
    dripping.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    let (mut read, mut write) = dripping.into_split();
    let drips = tokio::spawn(async move {
        while write.write_all(b"y").await.is_ok() {
            tokio::time::sleep(brief() / 3).await;
        }
    });
    let mut said = Vec::new();
    let ends = tokio::time::timeout(raw::PATIENCE, read.read_to_end(&mut said)).await;
    assert!(ends.is_ok(), "a head may drip");
    drips.abort();
    let mut large = raw::connect(web, 1).await;
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    let _ = large.write_all(head.as_bytes()).await;
    let said = raw::closed(&mut large).await.unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_pages() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { live_pages_max: 2, ..Limits::default() };
    let (coordinator, _) = start(&folder, limits).await;
    let web = coordinator.web.unwrap();
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = raw::connect(web, 1).await;
        assert!(ask(&mut stream, "/api/live").await.starts_with("HTTP/1.1 200"));
        open.push(stream);
    }
    let third = ask(&mut raw::connect(web, 1).await, "/api/live").await;
    assert!(third.starts_with("HTTP/1.1 503"), "{third}");
    drop(open);
    let mut said = String::new();
    for _ in 0..200 {
        said = ask(&mut raw::connect(web, 1).await, "/api/live").await;
        if said.starts_with("HTTP/1.1 200") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    coordinator.stop().await;
}
