//! Tells another program of what happens to jobs: a signed POST for each job that finishes, fails,
//! is cancelled or gives its devices back, at least once.
//!
//! The queue is part of the coordinator's state; a delivery is a record of its log. What is sent
//! holds no variables and no tokens; the secret goes nowhere.

mod http;
mod tls;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_rustls::TlsConnector;

pub use http::Target;

use crate::secrets;
use crate::service::Shared;
use crate::service::notices::Notice;
use crate::service::record::Record;
use crate::store::unix_now_s;

/// Attempts to deliver a notice before it is given up.
const ATTEMPTS_MAX: u32 = 14;
/// Waiting time after a failed attempt: from .. to ..
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Shortest secret, bytes.
const SECRET_BYTES_MIN: usize = 16;

/// Where notices go, and what they are signed with.
#[derive(Clone)]
pub struct Webhook {
    target: Target,
    secret: Arc<Vec<u8>>,
    /// Checks the receiver's certificate, where it is to show one.
    connector: Option<TlsConnector>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Webhook").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Webhook {
    /// A receiver, the file that holds the secret shared with it, and that of the authority that
    /// has signed its certificate (where it is to show one; none: those that this system trusts).
    ///
    /// # Errors
    /// In one sentence that names the setting.
    pub fn new(url: &str, secret_file: &Path, authority: Option<&Path>) -> Result<Self, String> {
        let target: Target = url.parse().map_err(|error| format!("--webhook {error}"))?;
        if authority.is_some() && !target.is_https() {
            return Err("--webhook-authority is for receivers at https://".into());
        }
        let connector = target.is_https().then(|| tls::connector(authority)).transpose()?;
        let name = |what: &str| format!("--webhook-secret {}: {what}", secret_file.display());
        let text = std::fs::read(secret_file).map_err(|error| name(&error.to_string()))?;
        use std::os::unix::fs::PermissionsExt;
        let metadata = std::fs::metadata(secret_file).map_err(|error| name(&error.to_string()))?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(name("others can read it; chmod 600 it"));
        }
        let secret = text.trim_ascii().to_vec();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(name("shorter than 16 bytes, such a secret can be guessed"));
        }
        Ok(Self { target, secret: Arc::new(secret), connector })
    }
}

/// Delivers notices until `stop` is set.
pub async fn run(webhook: Webhook, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    tokio::select! {
        () = deliver_all(&webhook, &shared) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn deliver_all(webhook: &Webhook, shared: &Shared) {
    let Ok(mut bell) = shared.handle.ask(|owner| Ok(owner.log_bell())).await else { return };
    loop {
        bell.borrow_and_update();
        let first = shared.handle.ask(|owner| Ok(owner.state.book.outbox.first().cloned())).await;
        match first {
            Ok(Some(notice)) => {
                deliver(webhook, &notice).await;
                let number = notice.number;
                // Refused for want of disk, it is sent again: at least once.
                let noted = move |owner: &mut crate::service::owner::Owner| {
                    owner.append(&Record::Notified { up_to: number }).map(drop)
                };
                if shared.handle.ask(noted).await.is_err() {
                    tokio::time::sleep(BACKOFF.0).await;
                }
            }
            Ok(None) => {
                if bell.changed().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Sends a notice until it is taken, or given up.
async fn deliver(webhook: &Webhook, notice: &Notice) {
    let mut pause = BACKOFF.0;
    for attempt in 1..=ATTEMPTS_MAX {
        match webhook.post(notice).await {
            Ok(()) => return,
            Err(error) => {
                let (number, job) = (notice.number, notice.job);
                tracing::warn!(number, job, attempt, %error, "a notice was not taken");
            }
        }
        if attempt < ATTEMPTS_MAX {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
    }
    let (number, job) = (notice.number, notice.job);
    tracing::error!(target: "audit", number, job, "a notice is given up");
}

impl Webhook {
    async fn post(&self, notice: &Notice) -> Result<(), http::PostError> {
        let body = serde_json::json!({ "version": 1, "notice": notice }).to_string();
        let at = format!("{:.0}", unix_now_s());
        let signed = secrets::keyed_digest(&self.secret, format!("{at}.{body}").as_bytes());
        let headers = [
            ("X-Shockwave-Delivery", notice.number.to_string()),
            ("X-Shockwave-Timestamp", at),
            ("X-Shockwave-Signature", format!("sha256={signed}")),
        ];
        self.target.post(self.connector.as_ref(), &headers, &body).await
    }
}
