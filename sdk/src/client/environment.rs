//! What the agent says in a training process's environment.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use shockwave_proto::env;
use thiserror::Error;

/// Why a client cannot be set up. Nothing here concerns the network: that may come and go.
#[derive(Debug, Error)]
pub enum ClientError {
    /// A variable that belongs to `SHOCKWAVE_COORDINATOR` is not set.
    #[error(
        "{} is set, {variable} is not: call shockwave_sdk::attach() first in main, or unset {} to train \
         without a coordinator",
        env::COORDINATOR,
        env::COORDINATOR
    )]
    Missing {
        /// The variable.
        variable: &'static str,
    },
    /// A variable's value cannot be.
    #[error("{variable}={value:?}: {expected} is wanted")]
    Invalid {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The certificate authority's file cannot be read or used.
    #[error("{}={}: {reason}", env::CA_FILE, path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The event spool cannot be opened.
    #[error("event spool {}: {source}; the folder must be writable", path.display())]
    Spool {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The client's thread cannot be started.
    #[error("the client's thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// A secret that is never printed.
#[derive(Clone)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// Where the coordinator is, and under which lease this process runs.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub coordinator: String,
    /// Number of the job.
    pub job_id: u64,
    /// Fencing number of the lease.
    pub lease_epoch: u64,
    /// How long the lease lasts from `started_at`.
    pub ttl: Duration,
    /// How long the job trains on after the lease when nothing is heard.
    pub grace: Duration,
    /// When the process started.
    pub started_at: Instant,
    /// What the process shows to speak for its job.
    pub token: Secret,
    /// Folder of the event spool.
    pub spool_dir: PathBuf,
    /// PEM file of the certificate authority of an `https://` coordinator.
    pub ca_file: Option<PathBuf>,
}

impl ClientConfig {
    /// Reads the environment. None without a coordinator, and in all but the first worker of a
    /// gang: rank 0 alone speaks for a job.
    ///
    /// # Errors
    /// A variable is missing or makes no sense.
    pub fn from_env() -> Result<Option<Self>, ClientError> {
        Self::from_variables(|name| std::env::var(name).ok(), started_at())
    }

    fn from_variables(
        variable: impl Fn(&'static str) -> Option<String>,
        started_at: Instant,
    ) -> Result<Option<Self>, ClientError> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        if set(env::ATTACH).is_some() && set(env::JOB_ID).is_none() {
            return Err(ClientError::Missing { variable: env::JOB_ID });
        }
        let Some(coordinator) = set(env::COORDINATOR) else { return Ok(None) };
        if set(env::RANK).is_some_and(|rank| rank != "0") {
            return Ok(None);
        }
        let wanted = |name| set(name).ok_or(ClientError::Missing { variable: name });
        let count = |name| {
            let value = wanted(name)?;
            let invalid = || ClientError::Invalid {
                variable: name,
                value: value.clone(),
                expected: "a whole number from 1",
            };
            value.parse::<u64>().ok().filter(|count| *count > 0).ok_or_else(invalid)
        };
        if !coordinator.starts_with("http://") && !coordinator.starts_with("https://") {
            let expected = "http://HOST:PORT or https://HOST:PORT";
            let variable = env::COORDINATOR;
            return Err(ClientError::Invalid { variable, value: coordinator, expected });
        }
        Ok(Some(Self {
            job_id: count(env::JOB_ID)?,
            lease_epoch: count(env::LEASE_EPOCH)?,
            ttl: Duration::from_millis(count(env::LEASE_TTL_MS)?),
            grace: Duration::from_millis(count(env::GRACE_MS)?),
            started_at,
            token: Secret(wanted(env::JOB_TOKEN)?),
            spool_dir: wanted(env::SPOOL_DIR)?.into(),
            ca_file: set(env::CA_FILE).map(PathBuf::from),
            coordinator,
        }))
    }
}

/// When this process started, as near as the system tells: the lease counts from there, and loading
/// libtorch and data before this call takes seconds of it. A program that has executed itself to take
/// its lease says when it got it.
fn started_at() -> Instant {
    let now = Instant::now();
    let leased = std::env::var(env::LEASE_FROM_MONO_MS).ok().and_then(|text| text.parse().ok());
    if let Some(from_ms) = leased {
        let age_ms = crate::attach::execute::monotonic_ms().saturating_sub(from_ms);
        return now.checked_sub(Duration::from_millis(age_ms)).unwrap_or(now);
    }
    process_age().and_then(|age| now.checked_sub(age)).unwrap_or(now)
}

/// Start of this process, clock ticks since boot.
pub(crate) fn start_ticks() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command in parentheses may hold spaces: fields count from behind it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Age of this process (Linux: field 22 of /proc/self/stat against /proc/uptime; see proc(5)).
fn process_age() -> Option<Duration> {
    let start_ticks = start_ticks()? as f64;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime_s: f64 = uptime.split(' ').next()?.parse().ok()?;
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let age_s = uptime_s - start_ticks / (ticks_per_s.max(1) as f64);
    Duration::try_from_secs_f64(age_s).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 7] = [
        (env::COORDINATOR, "http://127.0.0.1:7000"),
        (env::JOB_ID, "3"),
        (env::LEASE_EPOCH, "2"),
        (env::LEASE_TTL_MS, "150000"),
        (env::GRACE_MS, "30000"),
        (env::JOB_TOKEN, "s3cret"),
        (env::SPOOL_DIR, "/spool"),
    ];

    fn config(change: &[(&str, &str)]) -> Result<Option<ClientConfig>, ClientError> {
        let lookup = |name: &'static str| {
            let found = change.iter().chain(&GOOD).find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ClientConfig::from_variables(lookup, Instant::now())
    }

    #[test]
    fn the_environment_names_the_lease() {
        let config = config(&[]).unwrap().unwrap();
        assert_eq!((config.job_id, config.lease_epoch), (3, 2));
        assert_eq!(config.ttl, Duration::from_secs(150));
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn without_a_coordinator_or_as_a_later_rank_there_is_no_client() {
        assert!(config(&[(env::COORDINATOR, "")]).unwrap().is_none());
        assert!(config(&[(env::RANK, "1")]).unwrap().is_none());
        assert!(config(&[(env::RANK, "0")]).unwrap().is_some());
    }

    #[test]
    fn errors_name_the_variable() {
        let check = |change, expected: &str| {
            let error = config(&[change]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check((env::JOB_ID, "x"), "SHOCKWAVE_JOB_ID=\"x\": a whole number from 1 is wanted");
        check((env::LEASE_EPOCH, "0"), "SHOCKWAVE_LEASE_EPOCH=\"0\"");
        check((env::JOB_TOKEN, ""), "SHOCKWAVE_JOB_TOKEN is not");
        check((env::COORDINATOR, "localhost:1"), "http://HOST:PORT");
    }

    #[test]
    fn this_process_is_some_seconds_old_at_most() {
        assert!(process_age().unwrap() < Duration::from_secs(3600));
    }
}
