//! What a team member does and asks: what-if, budgets, and what goes wrong.

#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "common/user.rs"]
mod user;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use user::{Process, User, texts, wait_until};

#[test]
fn what_if_plays_the_live_state_and_changes_nothing() {
    let user = User::new();
    let _serve = user.serve("cpu:1", &["--policy", "shockwave"]);
    let declared = ["--epochs", "10", "--samples-per-epoch", "1000", "--batch", "100"];
    for name in ["first", "second"] {
        let mut arguments = vec!["submit", "--name", name];
        arguments.extend(declared);
        arguments.extend(["--", "sleep", "1000"]);
        user.ok(&arguments);
    }
    wait_until("the first has its device", || user.state("1") != "queued");
    let before = user.json(&["jobs"]);

    let answer = user.json(&["whatif", "--length-s", "300", "--copies", "2", "--more-gpus", "1"]);
    let answer = &answer["whatif"];
    let jobs = answer["jobs"].as_array().unwrap();
    let names: Vec<&str> = jobs.iter().filter_map(|job| job["name"].as_str()).collect();
    assert_eq!(names, ["first", "second", "the new job", "the new job"]);
    assert_eq!((&jobs[2]["id"], &jobs[2]["now_s"]), (&Value::Null, &Value::Null));
    assert!(jobs[2]["changed_s"].as_f64().unwrap() >= 300.0, "{answer}");
    assert!(jobs[0]["now_s"].as_f64().unwrap() > 0.0 && jobs[0]["declared"] == true, "{answer}");
    assert_eq!(
        (&answer["now"]["complete"], &answer["changed"]["complete"]),
        (&true.into(), &true.into())
    );

    let table = user.ok(&["whatif", "--more-gpus", "3", "--policy", "fifo"]);
    for wanted in ["first", "makespan", "DIFFERENCE", "policy shockwave now, fifo then"] {
        assert!(table.contains(wanted), "{wanted}: {table}");
    }
    assert!(user.ok(&["whatif", "--weight", "2=3"]).contains("second"));
    let cancelled = user.json(&["whatif", "--cancel", "1"]);
    assert_eq!(cancelled["whatif"]["jobs"][0]["changed_s"], Value::Null);

    let after = user.json(&["jobs"]);
    let live = |jobs: &Value| {
        let jobs = jobs["jobs"].as_array().unwrap();
        jobs.iter().map(|job| (job["id"].clone(), job["weight"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(live(&before), live(&after), "nothing live has changed");

    for (arguments, code, expected) in [
        (vec!["whatif"], 2, "nothing is to be different"),
        (vec!["whatif", "--like", "9"], 1, "there is no job 9"),
        (vec!["whatif", "--policy", "magic"], 2, "shockwave-paper"),
        (vec!["whatif", "--without", "nowhere"], 1, "there is no machine"),
        (vec!["whatif", "--gpus", "2"], 2, "length_s"),
        (vec!["whatif", "--more-gpus", "1", "--limit-s", "99"], 2, "limit_s"),
    ] {
        let (found, error) = user.fail(&arguments);
        assert_eq!((found, error.contains(expected)), (code, true), "{arguments:?}: {error}");
    }
}

#[test]
fn a_users_cap_holds_until_it_is_changed() {
    let user = User::new();
    let serve = user.serve("cpu:3", &["--policy", "fifo"]);
    let secret = user.json(&["token", "create", "bob"])["token"]["secret"].clone();
    let (secret, address) =
        (secret.as_str().unwrap(), serve.ready["coordinator"].as_str().unwrap());
    let cap = user.ok(&["user", "bob", "--gpus-max", "1"]);
    assert!(cap.contains("bob"), "{cap}");
    for _ in 0..3 {
        let mut command = user.command(&["submit", "--", "sleep", "1000"]);
        command.env("SHOCKWAVE_TOKEN", secret).env("SHOCKWAVE_COORDINATOR", address);
        assert!(command.output().unwrap().status.success());
    }
    let running = || {
        let jobs = user.json(&["jobs"]);
        let jobs = jobs["jobs"].as_array().unwrap();
        jobs.iter().filter(|job| job["state"] == "running").count()
    };
    wait_until("one runs", || running() == 1);
    // Two free devices, three more rounds: the cap holds.
    let rounds_end = Instant::now() + Duration::from_secs(7);
    while Instant::now() < rounds_end {
        assert_eq!(running(), 1, "beyond its cap");
        std::thread::sleep(Duration::from_millis(200));
    }
    let explained = user.ok(&["explain", "2"]);
    assert!(explained.contains("cap"), "{explained}");
    user.ok(&["user", "bob", "--gpus-max", "2"]);
    wait_until("two run", || running() == 2);
    let fairness = user.json(&["fairness"]);
    assert_eq!(fairness["fairness"]["users"][0]["gpus_max"], 2, "{fairness}");
}

#[test]
fn what_new_users_stumbled_over() {
    let user = User::new();
    let _serve = user.serve("cpu:1", &["--policy", "fifo"]);
    user.ok(&["submit", "--", "false"]);
    user.run(&["wait", "1"]);
    let cancelled = user.run(&["cancel", "1"]);
    assert_eq!(cancelled.status.code(), Some(1), "{cancelled:?}");
    assert!(texts(&cancelled).0.contains("is failed already"), "{cancelled:?}");
    let (code, error) = user.fail(&["submit", "--after", "1", "--", "true"]);
    assert_eq!((code, error.contains("job 1, which is failed")), (1, true), "{error}");

    user.ok(&["submit", "--device-kind", "H200", "--", "true"]);
    let explained = user.ok(&["explain", "2"]);
    assert!(explained.contains("of kind H200, of which the cluster has none"), "{explained}");
    assert!(explained.contains("--device-kind \"cpu\""), "{explained}");
    assert!(!explained.contains("--gpus"), "fewer devices would not help: {explained}");
    let (code, error) = user.fail(&["wait", "2", "--timeout-s", "0.2"]);
    assert_eq!((code, error.contains("job 2 has not ended")), (1, true), "{error}");
    user.ok(&["cancel", "2"]);
    user.ok(&["cancel", "2"]);
    // What can be done of several is done, and said.
    let submitted = user.ok(&["submit", "--gpus", "3", "--hold", "--", "true"]);
    assert!(submitted.contains("is held"), "{submitted}");
    let output = user.run(&["release", "77", "3"]);
    let (out, error) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(out.contains("job 3") && error.contains("there is no job 77"), "{out}{error}");
    assert!(user.ok(&["cancel", "3"]).contains("cancelled"));
    let submitted = user.ok(&["submit", "--gpus", "3", "--", "true"]);
    assert!(submitted.contains("asks for 3 devices together"), "{submitted}");
    user.ok(&["cancel", "4"]);
    let (code, error) = user.fail(&["jobs", "--coordinator", "127.0.0.1:7433"]);
    assert_eq!((code, error.contains("expected http://HOST:PORT")), (2, true), "{error}");

    // A reader that goes away is no error.
    let shell = format!("{} jobs --all | head -n 0", env!("CARGO_BIN_EXE_shockwave"));
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -o pipefail; sleep 0.1; {shell}")]);
    command.env("HOME", user.home.path()).env_remove("XDG_STATE_HOME");
    let output = command.output().unwrap();
    assert_eq!(texts(&output).1, "", "{output:?}");

    user.ok(&[
        "submit",
        "--epochs",
        "5",
        "--samples-per-epoch",
        "9",
        "--batch",
        "3",
        "--",
        "sleep",
        "99",
    ]);
    wait_until("it has its device", || user.state("5") != "queued");
    let eta = user.ok(&["eta", "5"]);
    assert!(eta.contains("not known yet"), "{eta}");
    user.ok(&["submit", "--", "sleep", "99"]);
    let explained = user.ok(&["explain", "6"]);
    assert!(explained.contains("jobs before it: 5"), "{explained}");
    assert!(explained.contains("budget 1.00"), "{explained}");
    let jobs = user.ok(&["jobs"]);
    assert!(jobs.contains("not known yet"), "{jobs}");
}

/// Three ways to harm others, as an attacker found them.
#[test]
fn one_users_jobs_are_no_harm_to_others() {
    let user = User::new();
    let serve = user.serve("cpu:1", &["--policy", "fifo"]);
    // The screen of whoever looks stays as it is, and no line is forged.
    user.ok(&["submit", "--hold", "--", "true", "\u{1b}[2J\n  state  fine"]);
    let shown = user.ok(&["show", "1"]);
    assert!(!shown.contains('\u{1b}') && !shown.contains("\n  state  fine"), "{shown:?}");
    // Long commands make no list too long for an answer.
    let long = "x".repeat(120_000);
    let ids: Vec<String> = (0..60)
        .map(|_| {
            let job = user.json(&["submit", "--hold", "--", "true", &long, &long]);
            job["job"]["id"].to_string()
        })
        .collect();
    assert_eq!(user.json(&["jobs"])["jobs"].as_array().unwrap().len(), 1 + ids.len());
    // A new agent's token is not good for a machine that is there.
    let token = user.json(&["token", "create", "new", "--agent"])["token"]["secret"].clone();
    let mut agent = user.command(&["agent", "--node", "here", "--devices", "cpu:1"]);
    agent.arg("--jobs").arg(user.home.path().join(".local/state/shockwave/state/jobs"));
    agent.arg("--coordinator").arg(serve.ready["coordinator"].as_str().unwrap());
    agent.env("SHOCKWAVE_TOKEN", token.as_str().unwrap()).env_remove("RUST_LOG");
    let log = user.home.path().join("agent.log");
    let errors = std::fs::File::create(&log).unwrap();
    let child = agent.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    let _agent = Process { child, ready: Value::Null };
    wait_until("it is refused", || said(&log).contains("a machine called here is there already"));
}

#[test]
fn what_is_followed_goes_on_over_a_restart() {
    let user = User::new();
    let serve = user.serve("cpu:1", &["--policy", "fifo"]);
    let script = "for i in $(seq 40); do echo line $i; sleep 0.1; done";
    user.ok(&["submit", "--", "sh", "-c", script]);
    let follow = |arguments: &[&str]| {
        let path = user.home.path().join(arguments[0]);
        let out = std::fs::File::create(&path).unwrap();
        let child = user.command(arguments).stdout(out).spawn().unwrap();
        (path, Process { child, ready: Value::Null })
    };
    let (events, _events) = follow(&["events", "--follow", "--job", "1"]);
    let (log, mut logs) = follow(&["logs", "--follow", "1"]);
    wait_until("some lines are there", || said(&log).contains("line 5\n"));
    drop(serve);
    let mut serve = user.serve("cpu:1", &["--policy", "fifo"]);
    wait_until("more lines are there", || said(&log).contains("line 20\n"));
    // SAFETY: kill(2) takes plain numbers; the child is not waited for, so its id is its own.
    unsafe { libc::kill(serve.child.id() as i32, libc::SIGTERM) };
    serve.child.wait().unwrap();
    let _serve = user.serve("cpu:1", &["--policy", "fifo"]);
    assert!(logs.child.wait().unwrap().success());
    let lines: String = (1..=40).map(|line| format!("line {line}\n")).collect();
    assert_eq!(said(&log), lines);
    wait_until("the end is told", || said(&events).contains("\"released\""));
    let told = said(&events);
    let numbers = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let numbers: Vec<u64> = numbers.map(|line| line["number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[test]
fn an_agent_says_that_it_has_joined_and_that_it_goes() {
    let user = User::new();
    let _serve = user.serve("none", &["--policy", "fifo"]);
    let log = user.home.path().join("agent.log");
    let errors = std::fs::File::create(&log).unwrap();
    let jobs = user.home.path().join(".local/state/shockwave/state/jobs");
    let mut command = user.command(&["agent", "--devices", "cpu:1", "--node", "there"]);
    command.arg("--jobs").arg(jobs);
    let child = command.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    let mut agent = Process { child, ready: Value::Null };
    let state = || {
        let cluster = user.json(&["cluster"]);
        cluster["cluster"]["nodes"][0]["state"].as_str().unwrap_or_default().to_owned()
    };
    wait_until("it joins", || state() == "up");
    wait_until("it says so", || said(&log).contains("has joined"));
    assert!(!said(&log).contains('\u{1b}'), "no colours in a file: {}", said(&log));
    // SAFETY: kill(2) takes plain numbers; the child is not waited for, so its id is its own.
    unsafe { libc::kill(agent.child.id() as i32, libc::SIGTERM) };
    agent.child.wait().unwrap();
    assert_eq!(state(), "stopped");
}

fn said(log: &Path) -> String {
    let log: PathBuf = log.to_owned();
    std::fs::read_to_string(log).unwrap_or_default()
}
