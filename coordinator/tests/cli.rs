//! The program as its users meet it: `serve`, its commands, their words and exit codes.

#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "common/user.rs"]
mod user;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use user::{Process, User, texts, wait_until};

/// The options of a coordinator with one device.
const OPTIONS: [&str; 2] = ["--policy", "fifo"];

fn start(user: &User) -> Process {
    user.serve("cpu:1", &OPTIONS)
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_job_from_submission_to_end() {
    let user = User::new();
    let _serve = start(&user);
    let out = user.ok(&["submit", "--name", "greet", "--", "sh", "-c", "echo hello; pwd"]);
    // Its machine may have joined by now, or not.
    assert!(["queued\n", "starting\n"].map(|it| format!("job 1 (greet) is {it}")).contains(&out));
    assert_eq!(user.ok(&["wait", "1"]), "job 1 (greet) is finished\n");
    let home = user.home.path().display();
    assert_eq!(user.ok(&["logs", "1"]), format!("hello\n{home}\n"));
    assert_eq!(user.ok(&["jobs"]), "no job is active (--all lists ended)\n");
    let table = user.ok(&["jobs", "--all"]);
    assert!(table.contains("greet") && table.contains("finished"), "{table}");
    let show = user.json(&["show", "1"]);
    assert_eq!(show["version"], 1);
    let job = &show["job"];
    assert_eq!((job["state"].as_str(), job["user"].as_str()), (Some("finished"), Some("ada")));
    assert_eq!((job["exit_code"].as_i64(), job["leases"].as_i64()), (Some(0), Some(1)));
    assert!(job["jct_s"].as_f64().unwrap() > 0.0);
    user.ok(&["submit", "--", "sh", "-c", "exit 4"]);
    let failed = user.run(&["wait", "2"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(texts(&failed).0.contains("code 4"), "{failed:?}");
    let events = user.ok(&["events", "--job", "1"]);
    assert!(events.lines().count() >= 3 && events.contains("submitted"), "{events}");
    assert!(user.ok(&["cluster"]).contains("here"));
    assert!(user.ok(&["fairness"]).contains("ada"));
    assert!(user.ok(&["explain", "1"]).contains("ended"));
    assert!(user.ok(&["top", "--count", "1"]).contains("idle"));
}

#[test]
fn a_job_is_held_released_weighed_and_cancelled() {
    let user = User::new();
    let _serve = start(&user);
    user.ok(&["submit", "--", "sleep", "1000"]);
    user.ok(&["submit", "--", "sleep", "1000"]);
    let state = |id: &str| user.json(&["show", id])["job"]["state"].as_str().unwrap().to_owned();
    wait_until("the first job runs", || state("1") == "running");
    assert_eq!(state("2"), "queued");
    let explained = user.ok(&["explain", "2"]);
    assert!(explained.contains("waits for devices"), "{explained}");
    user.ok(&["hold", "2"]);
    assert_eq!(state("2"), "held");
    user.ok(&["release", "2"]);
    assert_eq!(state("2"), "queued");
    let out = user.ok(&["weight", "2", "2.5"]);
    assert!(out.contains("weight 2.5"), "{out}");
    assert_eq!(user.fail(&["weight", "2", "0"]).0, 2);
    user.ok(&["cancel", "1", "2"]);
    let waited = user.run(&["wait", "1", "2"]);
    assert_eq!(waited.status.code(), Some(1));
    assert_eq!(state("1"), "cancelled");
    let (code, error) = user.fail(&["hold", "1"]);
    assert_eq!((code, error.contains("has ended")), (1, true), "{error}");
}

/// A job that cannot start would take a round, and a healthy job's devices, to find that out.
#[test]
fn what_cannot_start_is_not_handed_in() {
    let user = User::new();
    let _serve = start(&user);
    std::fs::write(user.home.path().join("data.txt"), "no program").unwrap();
    let cases = [
        (vec!["--", "no-such-program"], "there is no program `no-such-program` in PATH"),
        (vec!["--", "./gone"], "/./gone` is not there"),
        (vec!["--", "/nowhere/train", "--epochs", "3"], "`/nowhere/train` is not there"),
        (vec!["--", "./data.txt"], "/./data.txt` is no program that can be run"),
        (vec!["--workdir", "/nowhere", "--", "true"], "there is no folder /nowhere"),
        (vec!["--env", "PATH=/nowhere", "--", "true"], "there is no program `true` in PATH"),
    ];
    for (arguments, expected) in cases {
        let (code, error) = user.fail(&[&["submit"], arguments.as_slice()].concat());
        assert_eq!((code, error.contains(expected)), (2, true), "{arguments:?}: {error}");
        assert!(error.contains("--unchecked"), "{error}");
    }
    assert_eq!(user.json(&["jobs", "--all"])["jobs"].as_array().unwrap().len(), 0);
    user.ok(&["submit", "--unchecked", "--", "/nowhere/train"]);
    assert_eq!(user.run(&["wait", "1"]).status.code(), Some(1));
    let told = user.ok(&["explain", "1"]);
    assert!(told.contains("cannot start `/nowhere/train`"), "{told}");
    // Its log, to which that points, says so too.
    assert!(user.ok(&["logs", "1"]).contains("cannot start `/nowhere/train`"));
}

#[test]
fn what_goes_wrong_is_said_with_what_to_do() {
    let user = User::new();
    let (code, error) = user.fail(&["jobs"]);
    assert_eq!((code, error.contains("shockwave serve")), (3, true), "{error}");
    let (code, error) = user.fail(&["jobs", "--coordinator", "http://127.0.0.1:9"]);
    assert_eq!((code, error.contains("no coordinator answers")), (3, true), "{error}");
    let (code, error) = user.fail(&["serve", "--devices", "cpu:0"]);
    assert_eq!((code, error.contains("cpu:COUNT")), (2, true), "{error}");
    let (code, error) = user.fail(&["serve", "--listen", "0.0.0.0:0", "--devices", "cpu:1"]);
    assert_eq!((code, error.contains("TLS")), (2, true), "{error}");
    let (code, error) = user.fail(&["serve", "--web", "0.0.0.0:0", "--devices", "cpu:1"]);
    assert_eq!((code, error.contains("--web 0.0.0.0:0 can be reached")), (2, true), "{error}");
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let (code, error) = user.fail(&["serve", "--web", &taken, "--listen", "127.0.0.1:0"]);
    assert_eq!((code, error.contains("another address with --web")), (1, true), "{error}");
    let (code, error) = user.fail(&["serve", "--policy", "magic", "--devices", "cpu:1"]);
    assert_eq!((code, error.contains("fifo")), (2, true), "{error}");
    let serve = start(&user);
    let (code, error) = user.fail(&["show", "7"]);
    assert_eq!(
        (code, error.as_str()),
        (1, "shockwave: there is no job 7; `shockwave jobs` lists them\n")
    );
    let (code, error) =
        user.fail(&["serve", "--listen", "127.0.0.1:0", "--devices", "cpu:1", "--policy", "fifo"]);
    assert_eq!((code, error.contains("in use by another coordinator")), (1, true), "{error}");
    let address = serve.ready["coordinator"].as_str().unwrap().trim_start_matches("http://");
    let other = user.home.path().join("other");
    let other = other.to_str().unwrap();
    let (code, error) =
        user.fail(&["serve", "--state", other, "--listen", address, "--devices", "cpu:1"]);
    assert_eq!((code, error.contains("cannot listen on")), (1, true), "{error}");
    let (code, error) = user.fail(&["submit", "--gpus", "0", "--", "true"]);
    assert_eq!((code, error.contains("--gpus")), (2, true), "{error}");
    let output = user.command(&["jobs"]).env("SHOCKWAVE_TOKEN", "wrong").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn settings_files_are_checked_with_the_line() {
    let user = User::new();
    let file = user.home.path().join("shockwave.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        user.run(&["check-config", file.to_str().unwrap()])
    };
    assert!(check("devices = \"cpu:2\"\nround_s = 60\npolicy = \"fifo\"\n").status.success());
    for (text, expected) in [
        ("rounds = 3\n", "rounds"),
        ("round_s = \"long\"\n", "line 1"),
        ("round_s = -1\n", "round_s"),
        ("policy = \"magic\"\n", "magic"),
    ] {
        let output = check(text);
        let error = texts(&output).1;
        assert_eq!((output.status.code(), error.contains(expected)), (Some(2), true), "{error}");
    }
}

/// The files that settings name are read too: one that is missing, of another sort or of another
/// pair is named before anything is started.
#[test]
fn files_that_settings_name_are_checked() {
    let user = User::new();
    let file = user.home.path().join("shockwave.toml");
    let made = |name: &str| {
        let folder = user.home.path().join(name);
        user.ok(&["certificate", folder.to_str().unwrap()]);
        folder.display().to_string()
    };
    let (ours, theirs) = (made("ours"), made("theirs"));
    let check = |certificate: &str, key: &str, authority: &str| {
        let text = format!(
            "devices = 'none'\ntls_certificate = '{certificate}'\ntls_key = '{key}'\n\
             tls_authority = '{authority}'\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = user.run(&["check-config", file.to_str().unwrap()]);
        (output.status.code(), texts(&output).1)
    };
    let in_ours = ["coordinator.pem", "coordinator.key", "ca.pem"].map(|it| format!("{ours}/{it}"));
    let [certificate, key, authority] = in_ours.each_ref().map(String::as_str);
    assert_eq!(check(certificate, key, authority).0, Some(0));
    let other = format!("{theirs}/coordinator.key");
    for (certificate, key, authority, expected) in [
        (certificate, "missing.key", authority, "missing.key"),
        (key, key, authority, "coordinator.key holds no certificate in PEM"),
        (certificate, certificate, authority, "coordinator.pem holds no private key in PEM"),
        (certificate, other.as_str(), authority, "do not belong together"),
        (certificate, key, key, "coordinator.key holds no certificate in PEM"),
    ] {
        let (code, error) = check(certificate, key, authority);
        assert_eq!((code, error.contains(expected)), (Some(2), true), "{error}");
    }
}

#[test]
fn killed_and_started_again_it_carries_on() {
    let user = User::new();
    let mut serve = start(&user);
    let (ran, go) = (user.home.path().join("ran"), user.home.path().join("go"));
    let script = format!(
        "echo $$ >> {}; while [ ! -e {} ]; do sleep 0.05; done; echo over",
        ran.display(),
        go.display()
    );
    user.ok(&["submit", "--key", "k", "--", "sh", "-c", &script]);
    user.ok(&["submit", "--", "echo", "second"]);
    wait_until("the first job runs", || lines(&ran).len() == 1);
    for _ in 0..3 {
        let before = user.json(&["jobs", "--all"]);
        serve.child.kill().unwrap();
        serve.child.wait().unwrap();
        let pid: i32 = lines(&ran)[0].parse().unwrap();
        assert!(shockwave::runner::process::stat(pid).is_some(), "training goes on");
        let address = serve.ready["coordinator"].clone();
        serve = start(&user);
        assert_eq!(serve.ready["coordinator"], address, "where training expects it");
        let after = user.json(&["jobs", "--all"]);
        let count = |value: &Value| value["jobs"].as_array().unwrap().len();
        assert_eq!(count(&before), count(&after));
        assert_eq!(user.json(&["submit", "--key", "k", "--", "sh", "-c", &script])["job"]["id"], 1);
    }
    std::fs::write(&go, "").unwrap();
    user.ok(&["wait", "1", "2", "--timeout-s", "60"]);
    assert_eq!(user.ok(&["logs", "1"]), "over\n");
    assert_eq!(lines(&ran).len(), 1, "it ran once");
    assert_eq!(user.json(&["show", "1"])["job"]["leases"], 1);
}

#[test]
fn accounts_and_copies() {
    let user = User::new();
    let serve = start(&user);
    user.ok(&["submit", "--", "true"]);
    let token = user.json(&["token", "create", "bob", "--days", "1"]);
    let secret = token["token"]["secret"].as_str().unwrap().to_owned();
    let address = serve.ready["coordinator"].as_str().unwrap().to_owned();
    let bob = |arguments: &[&str]| {
        let mut command = user.command(arguments);
        command.env("SHOCKWAVE_TOKEN", &secret).env("SHOCKWAVE_COORDINATOR", &address);
        command.output().unwrap()
    };
    assert!(bob(&["submit", "--", "true"]).status.success());
    assert_eq!(user.json(&["show", "2"])["job"]["user"], "bob");
    let refused = bob(&["cancel", "1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(texts(&refused).1.contains("belongs to ada"), "{refused:?}");
    for administrator in [vec!["token", "list"], vec!["user", "bob"], vec!["drain", "here"]] {
        assert_eq!(bob(&administrator).status.code(), Some(1), "{administrator:?}");
    }
    let copy = user.home.path().join("copy");
    user.ok(&["snapshot", copy.to_str().unwrap()]);
    user.ok(&["token", "revoke", "1"]);
    assert_eq!(bob(&["jobs"]).status.code(), Some(1));
    // No secret lies anywhere in the state or the copy.
    for folder in [user.home.path().join(".local/state/shockwave/state"), copy.clone()] {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            let found = content.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{}", entry.path().display());
        }
    }
    drop(serve);
    let mut command =
        user.command(&["serve", "--json", "--listen", "127.0.0.1:0", "--devices", "none"]);
    command.arg("--state").arg(&copy).args(["--policy", "fifo", "--round-s", "2"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _serve = Process { child, ready: serde_json::from_str(&line).unwrap() };
    assert_eq!(user.json(&["show", "2"])["job"]["user"], "bob");
}
