//! Whoever may not: forged, expired, revoked and foreign tokens, agents without the right
//! certificate. All are refused and noted, and no secret lies open.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use shockwave::agent::mark;
use shockwave_proto::v1::admin_client::AdminClient;
use shockwave_proto::v1::{
    CancelJobRequest, CreateTokenRequest, HoldJobRequest, ListJobsRequest, ListTokensRequest,
    LogsRequest, RenewRequest, RevokeTokenRequest, SetWeightRequest, SubmitRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::wire::{self, Machine, with_token};
use super::{Run, Scenario, Tally};
use crate::coordinator::Coordinator;
use crate::programs::program;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "tokens",
    what: "forged, expired, revoked, foreign tokens, wrong authority: refused, noted, kept secret",
    counts: "calls that were to be refused",
    runs: 5,
    ci_runs: 1,
    prepare,
};

fn prepare(_runs: u64) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(Box::new(move |_seed, tally| {
        runtime.block_on(plain(tally)).context("on loopback")?;
        with_certificates(tally).context("with certificates")
    }))
}

/// Checks that a call is refused so.
fn refused<T>(what: &str, got: Result<T, Status>, code: Code, tally: &mut Tally) -> Result<()> {
    tally.checked += 1;
    match got {
        Err(status) if status.code() == code => Ok(()),
        Err(status) => bail!("{what}: {:?} ({}), not {code:?}", status.code(), status.message()),
        Ok(_) => {
            tally.phantom += 1;
            bail!("{what}: accepted")
        }
    }
}

async fn token(
    channel: &Channel,
    admin: &str,
    request: CreateTokenRequest,
) -> Result<(u64, String)> {
    let reply = AdminClient::new(channel.clone()).create_token(with_token(admin, request)).await?;
    let reply = reply.into_inner();
    Ok((reply.token.context("a token")?.id, reply.secret))
}

fn user(name: &str) -> CreateTokenRequest {
    CreateTokenRequest { user: name.into(), ..CreateTokenRequest::default() }
}

async fn plain(tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serve = "--devices none --round-s 60 --ttl-s 600 --policy fifo";
    let coordinator = Coordinator::start(folder.path(), serve)?;
    let admin = coordinator.token()?;
    let channel = wire::connect(coordinator.url()).await?;
    let (_, ada) = token(&channel, &admin, user("ada")).await?;
    let (_, bob) = token(&channel, &admin, user("bob")).await?;
    let (gone_id, gone) = token(&channel, &admin, user("gone")).await?;
    let brief = CreateTokenRequest { lifetime_s: 0.2, ..user("brief") };
    let (_, brief) = token(&channel, &admin, brief).await?;
    let node = CreateTokenRequest { is_agent: true, ..user("node") };
    let (_, node) = token(&channel, &admin, node).await?;
    let revoke = RevokeTokenRequest { id: gone_id };
    AdminClient::new(channel.clone()).revoke_token(with_token(&admin, revoke)).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let secrets = [&ada, &bob, &gone, &brief, &node];
    let forged = format!("{}{}", &ada[..ada.len() - 1], if ada.ends_with('0') { '1' } else { '0' });
    for (what, secret) in
        [("revoked", &gone), ("expired", &brief), ("forged", &forged), ("empty", &String::new())]
    {
        strangers(&channel, what, secret, tally).await?;
    }
    foreign_jobs(&channel, (&admin, &ada, &bob), tally).await?;
    machines(&channel, (&ada, &node), tally).await?;
    check_audit(&coordinator, &secrets, tally)
}

/// Every service with a token that is none.
async fn strangers(channel: &Channel, what: &str, secret: &str, tally: &mut Tally) -> Result<()> {
    let mut client = wire::client(channel);
    let listed = client.list_jobs(with_token(secret, ListJobsRequest::default())).await;
    refused(&format!("{what}: list"), listed, Code::Unauthenticated, tally)?;
    let submit = SubmitRequest { job: Some(wire::training("x")), ..SubmitRequest::default() };
    let submitted = client.submit(with_token(secret, submit)).await;
    refused(&format!("{what}: submit"), submitted, Code::Unauthenticated, tally)?;
    let tokens = AdminClient::new(channel.clone());
    let listed = tokens.clone().list_tokens(with_token(secret, ListTokensRequest {})).await;
    refused(&format!("{what}: tokens"), listed, Code::Unauthenticated, tally)?;
    let joined = Machine::new(channel, secret, "stranger", 1).join().await;
    refused(&format!("{what}: join"), joined, Code::Unauthenticated, tally)
}

/// A user and another user's job; a job and another job's lease.
async fn foreign_jobs(
    channel: &Channel,
    (admin, ada, bob): (&str, &str, &str),
    tally: &mut Tally,
) -> Result<()> {
    let mut machine = Machine::new(channel, admin, "own", 2);
    machine.join().await?;
    let mut client = wire::client(channel);
    for (name, key) in [("ada's", "1"), ("ada's other", "2")] {
        let job = Some(wire::training(name));
        let submit = SubmitRequest { job, idempotency_key: key.into() };
        client.submit(with_token(ada, submit)).await?;
    }
    let trainers = machine.take(2).await?;
    let job_id = trainers[0].lease.job_id;
    let denied = Code::PermissionDenied;
    let cancel = CancelJobRequest { job_id, reason: "mine now".into() };
    refused("cancel", client.cancel_job(with_token(bob, cancel)).await, denied, tally)?;
    let hold = HoldJobRequest { job_id, held: true };
    refused("hold", client.hold_job(with_token(bob, hold)).await, denied, tally)?;
    let weight = SetWeightRequest { job_id, weight: 0.001 };
    refused("weight", client.set_weight(with_token(bob, weight)).await, denied, tally)?;
    let logs = LogsRequest { job_id, ..LogsRequest::default() };
    refused("logs", client.logs(with_token(bob, logs)).await, denied, tally)?;
    let mut tokens = AdminClient::new(channel.clone());
    let listed = tokens.list_tokens(with_token(ada, ListTokensRequest {})).await;
    refused("a user's list of tokens", listed, denied, tally)?;
    let other = RenewRequest { lease: Some(trainers[1].lease), position: None };
    let renewed = trainers[0].service().renew(trainers[0].request(other)).await;
    refused("another job's lease", renewed, Code::Unauthenticated, tally)?;
    let own = RenewRequest { lease: Some(trainers[0].lease), position: None };
    let renewed = trainers[0].service().renew(with_token(ada, own)).await;
    refused("a user's token for a lease", renewed, Code::Unauthenticated, tally)
}

/// Tokens of agents and of users in each other's place.
async fn machines(channel: &Channel, (ada, node): (&str, &str), tally: &mut Tally) -> Result<()> {
    let denied = Code::PermissionDenied;
    let joined = Machine::new(channel, ada, "ada's", 1).join().await;
    refused("a user's token for a machine", joined, denied, tally)?;
    Machine::new(channel, node, "first", 1).join().await?;
    let joined = Machine::new(channel, node, "second", 1).join().await;
    refused("an agent's token for a second machine", joined, denied, tally)?;
    let mut client = wire::client(channel);
    let listed = client.list_jobs(with_token(node, ListJobsRequest::default())).await;
    refused("an agent's token for a user's call", listed, denied, tally)
}

/// Refusals are noted, secrets are not, and files belong to their owner alone.
fn check_audit(coordinator: &Coordinator, secrets: &[&String], tally: &mut Tally) -> Result<()> {
    let said = coordinator.output();
    let noted = said.lines().filter(|line| line.contains("audit")).count();
    ensure!(noted >= 15, "{noted} refusals are noted: {said}");
    tally.note_sum("refusals noted", noted as f64);
    ensure!(secrets.iter().all(|secret| !said.contains(secret.as_str())), "a secret is in the log");
    check_files(&coordinator.state(), secrets)
}

/// Files may come and go while they are looked at: what is gone is no file any more.
fn check_files(folder: &Path, secrets: &[&String]) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(meta) = if_there(path.symlink_metadata())? else { continue };
        let mode = meta.permissions().mode() & 0o777;
        // The mark of the jobs' folder is no secret: agents of other accounts compare it.
        let is_mark = path.file_name().is_some_and(|name| name == mark::FILE);
        let expected = match meta.is_dir() {
            true => 0o700,
            false if is_mark => 0o644,
            false => 0o600,
        };
        ensure!(mode == expected, "{} has mode {mode:o}", path.display());
        if meta.is_dir() {
            check_files(&path, secrets)?;
            continue;
        }
        let Some(content) = if_there(std::fs::read(&path))? else { continue };
        for secret in secrets {
            let found = content.windows(secret.len()).any(|window| window == secret.as_bytes());
            ensure!(!found, "a secret lies in {}", path.display());
        }
    }
    Ok(())
}

/// What was found; nothing where nothing is any more.
fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Agents must show a certificate of this site's authority.
fn with_certificates(tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let make = |name: &str| -> Result<()> {
        let made = Command::new(program("shockwave"))
            .arg("certificate")
            .arg(folder.path().join(name))
            .output()?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(())
    };
    make("certs")?;
    make("foreign")?;
    let at = folder.path().join("certs");
    let at = at.display();
    let serve = format!(
        "--devices none --tls-certificate {at}/coordinator.pem --tls-key {at}/coordinator.key \
         --tls-authority {at}/ca.pem --tls-agents {at}/ca.pem"
    );
    let coordinator = Coordinator::start(&folder.path().join("serve"), &serve)?;
    let plain_url = coordinator.url().replacen("https://", "http://", 1);
    let cases = [
        ("no certificate", coordinator.url(), "certs", None, "must show a certificate"),
        ("a foreign certificate", coordinator.url(), "certs", Some("foreign"), ""),
        ("a foreign coordinator", coordinator.url(), "foreign", Some("certs"), ""),
        ("plain text", plain_url.as_str(), "certs", None, "is reached at https://"),
    ];
    for (what, url, authority, certificate, expected) in cases {
        let certificate = certificate.map(|name| folder.path().join(name).join("agent.pem"));
        let authority = folder.path().join(authority).join("ca.pem");
        let agent = Stranger { url, authority: &authority, certificate: certificate.as_deref() };
        // Its first trouble may be another one: a busy machine answers late, a connection breaks
        // before the reason is read. What it is told in the end counts.
        let refused = |said: &str| said.contains("cannot be asked") && said.contains(expected);
        let (said, joined) = agent.tries(&coordinator, folder.path(), |said, _| refused(said))?;
        tally.checked += 1;
        tally.phantom += u64::from(joined);
        ensure!(!joined, "{what}: it has joined");
        ensure!(refused(&said), "{what}: {said}");
    }
    let good = folder.path().join("certs/agent.pem");
    let authority = folder.path().join("certs/ca.pem");
    let agent =
        Stranger { url: coordinator.url(), authority: &authority, certificate: Some(&good) };
    let (said, joined) = agent.tries(&coordinator, folder.path(), |_, joined| joined)?;
    ensure!(joined, "with the right certificate it does not join: {said}");
    Ok(())
}

/// Longest time until an agent must have been told what it is to be told.
const PATIENCE: Duration = Duration::from_secs(120);

/// An agent, and what it shows and trusts.
struct Stranger<'a> {
    url: &'a str,
    authority: &'a Path,
    certificate: Option<&'a Path>,
}

impl Stranger<'_> {
    /// Lets it try until what it says and whether it has joined is enough, or [`PATIENCE`] is over.
    fn tries(
        &self,
        coordinator: &Coordinator,
        folder: &Path,
        enough: impl Fn(&str, bool) -> bool,
    ) -> Result<(String, bool)> {
        let log = folder.join("agent.log");
        let mut command = Command::new(program("shockwave"));
        command.args(["agent", "--devices", "cpu:1", "--node", "intruder"]);
        command.args(["--coordinator", self.url]);
        command.arg("--authority").arg(self.authority).arg("--folder").arg(folder.join("agent"));
        command.arg("--jobs").arg(coordinator.state().join("jobs"));
        if let Some(certificate) = self.certificate {
            command.arg("--certificate").arg(certificate);
        }
        command.env("SHOCKWAVE_TOKEN", coordinator.token()?).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::fs::File::create(&log)?);
        let mut child = command.spawn()?;
        let began = Instant::now();
        let found = loop {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let joined = coordinator.json(&["cluster"])?.to_string().contains("intruder");
            let ended = child.try_wait()?.is_some();
            if enough(&said, joined) || ended || began.elapsed() > PATIENCE {
                break (said, joined);
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        let _ = child.kill();
        child.wait()?;
        Ok(found)
    }
}
