//! Notices of what happens to jobs, taken by a receiver on this machine.

#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "common/user.rs"]
mod user;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

use user::{User, wait_until};

/// Answers one POST, and gives its headers and body.
fn take_post(listener: &TcpListener, answer: &str) -> (String, String) {
    let (stream, _) = listener.accept().unwrap();
    answer_post(stream, answer)
}

fn answer_post(mut stream: impl Read + Write, answer: &str) -> (String, String) {
    let mut reader = BufReader::new(&mut stream);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").unwrap();
    stream.flush().unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn header(head: &str, name: &str) -> String {
    let line = head.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_once(": ").unwrap().1.to_owned()
}

#[test]
fn ends_are_told_at_least_once_and_signed() {
    let user = User::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let secret = "0123456789abcdef-secret";
    let file = user.home.path().join("secret");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let file = file.to_str().unwrap().to_owned();
    let options = ["--policy", "fifo", "--webhook", &url, "--webhook-secret", &file];
    let mut arguments = vec!["serve", "--devices", "cpu:1"];
    arguments.extend(options);
    let (code, error) = user.fail(&arguments);
    assert_eq!((code, error.contains("chmod 600")), (2, true), "{error}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();

    let mut serve = user.serve("cpu:1", &options);
    user.ok(&["submit", "--name", "one", "--", "true"]);
    user.ok(&["wait", "1"]);
    // Refused, then not acknowledged because the coordinator dies: it comes again all the same.
    let (head, _) = take_post(&listener, "500 Oops");
    assert_eq!(header(&head, "X-Shockwave-Delivery"), "1");
    serve.child.kill().unwrap();
    serve.child.wait().unwrap();
    let _serve = user.serve("cpu:1", &options);
    let (head, body) = take_post(&listener, "204 Fine");
    assert_eq!(header(&head, "X-Shockwave-Delivery"), "1");
    let signed = format!("{}.{body}", header(&head, "X-Shockwave-Timestamp"));
    let expected = shockwave::secrets::keyed_digest(secret.as_bytes(), signed.as_bytes());
    assert_eq!(header(&head, "X-Shockwave-Signature"), format!("sha256={expected}"));
    let body: Value = serde_json::from_str(&body).unwrap();
    let notice = &body["notice"];
    assert_eq!(
        (&notice["event"], &notice["job"], &notice["name"]),
        (&"finished".into(), &1.into(), &"one".into())
    );

    user.ok(&["submit", "--", "false"]);
    let (head, body) = take_post(&listener, "200 OK");
    let failed = serde_json::from_str::<Value>(&body).unwrap()["notice"]["event"].clone();
    // The first one may come once more: at least once.
    let again = header(&head, "X-Shockwave-Delivery") == "1";
    let failed = if again {
        let (_, body) = take_post(&listener, "200 OK");
        serde_json::from_str::<Value>(&body).unwrap()["notice"]["event"].clone()
    } else {
        failed
    };
    assert_eq!(failed, "failed");
    for entry in std::fs::read_dir(user.home.path().join(".local/state/shockwave/state")).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!content.windows(secret.len()).any(|part| part == secret.as_bytes()));
    }
}

/// A file with the secret that notices are signed with.
fn secret_file(user: &User, secret: &str) -> String {
    let file = user.home.path().join("secret");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What a receiver with a certificate for `127.0.0.1` shows, and the authority that has signed it.
fn certified(user: &User, name: &str) -> (Arc<ServerConfig>, PathBuf) {
    let folder: PathBuf = user.home.path().join(name);
    user.ok(&["certificate", folder.to_str().unwrap(), "--host", "127.0.0.1"]);
    let read = |file: &Path| {
        let found = CertificateDer::pem_file_iter(file).unwrap();
        found.collect::<Result<Vec<_>, _>>().unwrap()
    };
    let chain = read(&folder.join("coordinator.pem"));
    let key = PrivateKeyDer::from_pem_file(folder.join("coordinator.key")).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    (Arc::new(config.with_single_cert(chain, key).unwrap()), folder.join("ca.pem"))
}

#[test]
fn a_receiver_at_https_must_show_its_certificate() {
    let user = User::new();
    let (config, authority) = certified(&user, "trusted");
    let (foreign, _) = certified(&user, "foreign");
    let authority = authority.to_str().unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/hook", listener.local_addr().unwrap());
    let file = secret_file(&user, "0123456789abcdef-secret");
    let options = ["--policy", "fifo", "--webhook", &url, "--webhook-secret", &file];
    let options = [&options[..], &["--webhook-authority", &authority]].concat();
    let _serve = user.serve("cpu:1", &options);
    user.ok(&["submit", "--name", "one", "--", "true"]);

    // Somebody else in the receiver's place learns nothing.
    let (stream, _) = listener.accept().unwrap();
    let mut stream = StreamOwned::new(ServerConnection::new(foreign).unwrap(), stream);
    let mut told = Vec::new();
    assert!(stream.read_to_end(&mut told).is_err(), "refused");
    assert!(told.is_empty(), "{told:?}");

    // It comes again, to the receiver itself.
    let (stream, _) = listener.accept().unwrap();
    let stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let (head, body) = answer_post(stream, "200 OK");
    assert_eq!(header(&head, "X-Shockwave-Delivery"), "1");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["notice"]["event"], &body["notice"]["job"]), (&"finished".into(), &1.into()));
    wait_until("it has ended", || user.state("1") == "finished");
}

#[test]
fn what_a_webhook_cannot_be_is_said() {
    let user = User::new();
    let secret = secret_file(&user, "0123456789abcdef-secret");
    let empty = user.home.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    for (options, expected) in [
        (vec!["--webhook", "ftp://a/", "--webhook-secret", &secret], "expected http://HOST"),
        (vec!["--webhook", "http://a/"], "--webhook-secret belong together"),
        (
            vec![
                "--webhook",
                "http://a/",
                "--webhook-secret",
                &secret,
                "--webhook-authority",
                empty,
            ],
            "is for receivers at https://",
        ),
        (
            vec![
                "--webhook",
                "https://a/",
                "--webhook-secret",
                &secret,
                "--webhook-authority",
                empty,
            ],
            "holds no certificate",
        ),
    ] {
        let arguments = [&["serve", "--devices", "cpu:1"], &options[..]].concat();
        let (code, error) = user.fail(&arguments);
        assert_eq!((code, error.contains(expected)), (2, true), "{options:?}: {error}");
    }
}
