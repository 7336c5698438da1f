//! Machines that are carried by agents of their own, over TLS: a gang that spans two of them trains
//! as two processes by hand do, and goes on while an agent is away.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use shockwave_tests::coordinator::Coordinator;
use shockwave_tests::programs::program;
use shockwave_tests::training::Training;

const EPOCHS: u64 = 6;
const SAMPLES: u64 = 512;

/// An agent in a process of its own; it ends with this value.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine: its name, and where its agent keeps what it must remember.
struct Machine<'a> {
    coordinator: &'a Coordinator,
    folder: PathBuf,
    name: &'static str,
    secret: String,
}

impl Machine<'_> {
    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    fn agent(&self) -> Agent {
        let log = std::fs::File::options().create(true).append(true).open(self.log()).unwrap();
        let child = Command::new(program("shockwave"))
            .args(["agent", "--devices", "cpu:1", "--node", self.name, "--address", "127.0.0.1"])
            .args(["--coordinator", self.coordinator.url()])
            .arg("--authority")
            .arg(self.folder.join("certs/ca.pem"))
            .arg("--folder")
            .arg(self.folder.join(self.name))
            .arg("--jobs")
            .arg(self.folder.join("jobs"))
            .env("SHOCKWAVE_TOKEN", &self.secret)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Agent(child.unwrap())
    }
}

fn secure_coordinator(folder: &Path) -> Coordinator {
    let certs = folder.join("certs");
    let made = Command::new(program("shockwave")).arg("certificate").arg(&certs).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let at = certs.display();
    let arguments = format!(
        "--devices none --round-s 30 --tls-certificate {at}/coordinator.pem --tls-key \
         {at}/coordinator.key --tls-authority {at}/ca.pem --jobs {}",
        folder.join("jobs").display()
    );
    Coordinator::start(&folder.join("serve"), &arguments).unwrap()
}

fn agent_token(coordinator: &Coordinator, name: &str) -> String {
    let reply = coordinator.json(&["token", "create", name, "--agent"]).unwrap();
    reply["token"]["secret"].as_str().unwrap().to_owned()
}

/// Waits for a job's epochs.
fn train_to(coordinator: &Coordinator, id: u64, epochs: f64) {
    let give_up_at = std::time::Instant::now() + Duration::from_secs(120);
    while coordinator.job(id).unwrap()["epochs_done"].as_f64().unwrap() < epochs {
        let said = || format!("{}\n{}", coordinator.logs(id), coordinator.output());
        assert!(std::time::Instant::now() < give_up_at, "{}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_gang_spans_two_machines() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = secure_coordinator(folder.path());
    assert!(coordinator.url().starts_with("https://"));
    let machine = |name| Machine {
        coordinator: &coordinator,
        folder: folder.path().to_owned(),
        name,
        secret: agent_token(&coordinator, name),
    };
    let (one, two) = (machine("one"), machine("two"));
    let arguments = format!(
        "--depth 8 --width 6 --dropout 0.1 --seed 3 --epochs {EPOCHS} --batch 16 \
         --train-samples {SAMPLES} --test-samples 64 --policy expert --schedule 0:16,3:32"
    );
    let training = Training::new(&folder.path().join("gang"), &arguments);
    std::fs::create_dir_all(folder.path().join("gang")).unwrap();
    let mut submit = vec!["submit", "--name", "gang", "--gpus", "2", "--workers", "2", "--"];
    let command = training.command();
    submit.extend(command.iter().map(String::as_str));
    let id = coordinator.json(&submit).unwrap()["job"]["id"].as_u64().unwrap();

    let agent_one = one.agent();
    std::thread::sleep(Duration::from_secs(1));
    let waits = coordinator.job(id).unwrap();
    assert_eq!(waits["leases"], 0, "half a gang does not start: {waits}");
    let _agent_two = two.agent();
    train_to(&coordinator, id, 1.0);
    let held = coordinator.job(id).unwrap()["devices"].clone();
    assert_eq!(held, serde_json::json!(["one/0", "two/0"]));
    // An agent is killed, and comes back: its worker went on meanwhile.
    drop(agent_one);
    train_to(&coordinator, id, 2.0);
    let _agent_one = one.agent();
    let job = coordinator.ended(id, Duration::from_secs(200)).unwrap();
    let said = || format!("{job}\n{}", coordinator.logs(id));
    assert_eq!((&job["state"], &job["leases"]), (&"finished".into(), &1.into()), "{}", said());
    let hand = folder.path().join("hand");
    let expected = Training::new(&hand, &arguments).finish_by_hand(2).unwrap();
    assert_eq!(job["checkpoint_sha256"], expected["checkpoint_sha256"], "{}", said());
}

#[test]
fn a_token_carries_one_machine_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = secure_coordinator(folder.path());
    let secret = agent_token(&coordinator, "one");
    let machine = |name| Machine {
        coordinator: &coordinator,
        folder: folder.path().to_owned(),
        name,
        secret: secret.clone(),
    };
    let (first, second) = (machine("first"), machine("second"));
    let cluster = || coordinator.json(&["cluster"]).unwrap().to_string();
    let _first = first.agent();
    wait_for("the first machine joins", || cluster().contains("first"));
    let _second = second.agent();
    let said = || std::fs::read_to_string(second.log()).unwrap_or_default();
    wait_for("the second is refused", || said().contains("belongs to machine first"));
    assert!(!cluster().contains("second"));
    let as_user = Command::new(program("shockwave"))
        .args(["jobs", "--coordinator", coordinator.url()])
        .env("SHOCKWAVE_TOKEN", &secret)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&as_user.stderr).into_owned();
    assert!(!as_user.status.success() && error.contains("carries an agent"), "{error}");
}

#[test]
fn without_the_authority_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = secure_coordinator(folder.path());
    let other = folder.path().join("other");
    let made = Command::new(program("shockwave")).arg("certificate").arg(&other).status().unwrap();
    assert!(made.success());
    let wrong = Command::new(program("shockwave"))
        .args(["jobs", "--coordinator", coordinator.url(), "--authority"])
        .arg(other.join("ca.pem"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(3), "{error}");
    let open = Command::new(program("shockwave"))
        .args(["serve", "--devices", "none", "--listen", "0.0.0.0:0", "--state"])
        .arg(folder.path().join("open"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&open.stderr).into_owned();
    assert_eq!(open.status.code(), Some(2), "{error}");
    assert!(error.contains("TLS") && error.contains("shockwave certificate"), "{error}");
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}
