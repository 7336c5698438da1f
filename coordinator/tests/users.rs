//! What a team member does and asks: what-if, budgets, notices, and what goes wrong.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A process that ends with the test.
struct Process {
    child: Child,
    /// Its first line as JSON, where it prints one.
    ready: Value,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A user with a home of its own.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shockwave"));
        command
            .args(arguments)
            .env("HOME", self.home.path())
            .env("USER", "ada")
            .env_remove("XDG_STATE_HOME")
            .env_remove("SHOCKWAVE_COORDINATOR")
            .env_remove("SHOCKWAVE_TOKEN")
            .current_dir(self.home.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, error) = texts(&output);
        assert!(output.status.success(), "{arguments:?}: {out}{error}");
        out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.insert(1, "--json");
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// Exit code and message of a command that must fail.
    fn fail(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        (output.status.code().unwrap(), texts(&output).1)
    }

    fn state(&self, id: &str) -> String {
        self.json(&["show", id])["job"]["state"].as_str().unwrap().to_owned()
    }

    /// A coordinator; `more` are options.
    fn serve(&self, devices: &str, more: &[&str]) -> Process {
        let mut arguments =
            vec!["serve", "--json", "--listen", "127.0.0.1:0", "--devices", devices];
        arguments.extend(["--round-s", "2", "--grace-s", "2", "--node", "here"]);
        arguments.extend(more);
        let mut command = self.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Process { child, ready: serde_json::from_str(&line).unwrap() }
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < give_up_at, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

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

/// Answers one POST, and gives its headers and body.
fn take_post(listener: &TcpListener, answer: &str) -> (String, String) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
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
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").unwrap();
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
    wait_until("it has its device", || user.state("3") != "queued");
    let eta = user.ok(&["eta", "3"]);
    assert!(eta.contains("not known yet"), "{eta}");
    user.ok(&["submit", "--", "sleep", "99"]);
    let explained = user.ok(&["explain", "4"]);
    assert!(explained.contains("before it: jobs 3"), "{explained}");
    assert!(explained.contains("budget 1.00"), "{explained}");
    let jobs = user.ok(&["jobs"]);
    assert!(jobs.contains("not known yet"), "{jobs}");
}

#[test]
fn an_agent_says_that_it_has_joined_and_that_it_goes() {
    let user = User::new();
    let _serve = user.serve("none", &["--policy", "fifo"]);
    let log = user.home.path().join("agent.log");
    let errors = std::fs::File::create(&log).unwrap();
    let mut command = user.command(&["agent", "--devices", "cpu:1", "--node", "there"]);
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
