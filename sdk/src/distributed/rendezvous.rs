//! Where the workers of one training run meet, and who is who.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use shockwave_proto::env;

use super::Backend;
use crate::Error;

/// Everything that a worker must know to join the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// This worker's number, from 0. Rank 0 alone writes checkpoints and talks to the coordinator.
    pub rank: usize,
    /// How many workers there are.
    pub size: usize,
    /// This worker's number on its machine, from 0: the number of its GPU, when all are visible.
    pub local_rank: usize,
    /// Host of the store where the workers find each other; rank 0 runs on it.
    pub host: String,
    /// Port of the store.
    pub port: u16,
    /// Whether rank 0 opens the store. False when the launcher has opened it already.
    pub serve: bool,
    /// Keeps runs on one store apart. A worker left over from an older lease meets nobody.
    pub prefix: String,
    /// How long a worker waits for the others, in the rendezvous and in each call.
    pub timeout: Duration,
    /// The address at which the others reach this worker; found by itself when not given.
    pub address: Option<IpAddr>,
    /// What carries the sums; by the model's device unless somebody decides.
    pub backend: Backend,
}

/// How long the others are waited for by default: longer than a checkpoint takes, shorter than a lease.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Rendezvous {
    /// A meeting on one store, with default settings.
    #[must_use]
    pub fn new(rank: usize, size: usize, host: impl Into<String>, port: u16) -> Self {
        Self {
            rank,
            size,
            local_rank: rank,
            host: host.into(),
            port,
            serve: rank == 0,
            prefix: "shockwave".into(),
            timeout: TIMEOUT,
            address: None,
            backend: Backend::Auto,
        }
    }

    /// Reads PyTorch's names from the environment: `RANK`, `WORLD_SIZE`, `LOCAL_RANK` (default: the rank),
    /// `MASTER_ADDR`, `MASTER_PORT`; `TORCHELASTIC_USE_AGENT_STORE` and `TORCHELASTIC_RESTART_COUNT` when `torchrun`
    /// has set them. `SHOCKWAVE_LEASE_EPOCH` (set by an agent) keeps leases apart,
    /// `SHOCKWAVE_WORKER_TIMEOUT_S` changes the timeout, `SHOCKWAVE_WORKER_ADDRESS` gives the address, `SHOCKWAVE_BACKEND`
    /// the backend (`auto`, `gloo`, `nccl`).
    ///
    /// Nothing when `WORLD_SIZE` is absent or 1: one process trains alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the variable that is missing or wrong.
    pub fn from_env() -> Result<Option<Self>, Error> {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let number = |name: &str, default: Option<usize>| match get(name) {
            Some(text) => text
                .trim()
                .parse::<usize>()
                .map_err(|_| Error::invalid(name, format!("'{text}'"), "a whole number")),
            None => default.ok_or_else(|| {
                Error::invalid(name, "not set", "a whole number, since WORLD_SIZE is set")
            }),
        };
        let size = number(env::WORLD_SIZE, Some(1))?;
        if size == 1 {
            return Ok(None);
        }
        let rank = number(env::RANK, None)?;
        let host = get(env::MASTER_ADDR).ok_or_else(|| {
            Error::invalid("MASTER_ADDR", "not set", "rank 0's host, since WORLD_SIZE is set")
        })?;
        let port = number(env::MASTER_PORT, None)?;
        let port = u16::try_from(port)
            .map_err(|_| Error::invalid("MASTER_PORT", port, "a port, at most 65535"))?;
        let mut meeting = Self::new(rank, size, host, port);
        meeting.local_rank = number(env::LOCAL_RANK, Some(rank))?;
        let truth = |value: String| value == "1" || value.eq_ignore_ascii_case("true");
        if get("TORCHELASTIC_USE_AGENT_STORE").is_some_and(truth) {
            meeting.serve = false;
        }
        let attempt = get("TORCHELASTIC_RESTART_COUNT").unwrap_or_default();
        let lease = get(env::LEASE_EPOCH).unwrap_or_default();
        meeting.prefix = format!("shockwave/{lease}/{attempt}");
        if let Some(seconds) = get("SHOCKWAVE_WORKER_TIMEOUT_S") {
            meeting.timeout = timeout(&seconds)?;
        }
        if let Some(text) = get("SHOCKWAVE_WORKER_ADDRESS") {
            let parsed = text.parse();
            meeting.address = Some(parsed.map_err(|_| {
                Error::invalid("SHOCKWAVE_WORKER_ADDRESS", format!("'{text}'"), "an IP address")
            })?);
        }
        if let Some(text) = get("SHOCKWAVE_BACKEND") {
            meeting.backend = text.parse()?;
        }
        meeting.check()?;
        Ok(Some(meeting))
    }

    /// Checks the numbers.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.size == 0 || i32::try_from(self.size).is_err() {
            return Err(Error::invalid("the number of workers", self.size, "at least 1"));
        }
        if self.rank >= self.size {
            let expected = format!("below the number of workers, {}", self.size);
            return Err(Error::invalid("the rank", self.rank, expected));
        }
        Ok(())
    }

    /// The address at which the other workers reach this one: that of the interface that leads to the store.
    pub(super) fn own_address(&self) -> Result<IpAddr, Error> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        let refused = |reason: String| Error::invalid("MASTER_ADDR", &self.host, reason);
        let store = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|e| refused(format!("a host that can be found ({e})")))?
            .next()
            .ok_or_else(|| refused("a host that has an address".into()))?;
        // Nothing is sent: connecting a datagram socket only asks the system for the route.
        let any: IpAddr = match store {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let route = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(store)?;
            socket.local_addr()
        });
        let route = route.map_err(|e| refused(format!("a host that can be reached ({e})")))?;
        Ok(route.ip())
    }
}

fn timeout(text: &str) -> Result<Duration, Error> {
    let seconds = text.trim().parse().ok().filter(|s: &f64| *s > 0.0 && *s <= 86_400.0);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        Error::invalid("SHOCKWAVE_WORKER_TIMEOUT_S", format!("'{text}'"), "seconds, at most 86400")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<Rendezvous>, Error> {
        Rendezvous::from_variables(|name| {
            set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const RUN: [(&str, &str); 4] =
        [("WORLD_SIZE", "4"), ("RANK", "2"), ("MASTER_ADDR", "10.0.0.7"), ("MASTER_PORT", "29500")];

    #[test]
    fn one_process_needs_no_meeting() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[("WORLD_SIZE", "1"), ("RANK", "0")]).unwrap(), None);
    }

    #[test]
    fn torchruns_names_are_read() {
        let meeting = read(&RUN).unwrap().unwrap();
        let mut expected = Rendezvous::new(2, 4, "10.0.0.7", 29500);
        expected.prefix = "shockwave//".into();
        assert_eq!(meeting, expected);

        let more = [
            ("LOCAL_RANK", "0"),
            ("TORCHELASTIC_USE_AGENT_STORE", "True"),
            ("TORCHELASTIC_RESTART_COUNT", "3"),
            ("SHOCKWAVE_LEASE_EPOCH", "17"),
            ("SHOCKWAVE_WORKER_TIMEOUT_S", "2.5"),
            ("SHOCKWAVE_WORKER_ADDRESS", "10.0.0.9"),
            ("SHOCKWAVE_BACKEND", "gloo"),
        ];
        let meeting = read(&[&RUN[..], &more].concat()).unwrap().unwrap();
        assert_eq!((meeting.local_rank, meeting.serve), (0, false));
        assert_eq!(meeting.prefix, "shockwave/17/3");
        assert_eq!(meeting.timeout, Duration::from_millis(2500));
        assert_eq!(meeting.backend, Backend::Gloo);
        assert_eq!(meeting.own_address().unwrap().to_string(), "10.0.0.9");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let wrong = |change: (&'static str, &'static str)| {
            let kept = RUN.iter().filter(|(name, _)| *name != change.0).copied();
            let set: Vec<_> = kept.chain(Some(change).filter(|c| c.1 != "-")).collect();
            read(&set).unwrap_err().to_string()
        };
        assert!(wrong(("RANK", "-")).starts_with("RANK is not set"));
        assert!(wrong(("RANK", "4")).starts_with("the rank is 4; expected below"));
        assert!(wrong(("WORLD_SIZE", "two")).starts_with("WORLD_SIZE is 'two'"));
        assert!(wrong(("WORLD_SIZE", "0")).starts_with("the number of workers is 0"));
        assert!(wrong(("MASTER_ADDR", "-")).starts_with("MASTER_ADDR is not set"));
        assert!(wrong(("MASTER_PORT", "70000")).starts_with("MASTER_PORT is 70000"));
        assert!(wrong(("SHOCKWAVE_WORKER_TIMEOUT_S", "-1")).contains("at most 86400"));
        assert!(wrong(("SHOCKWAVE_WORKER_ADDRESS", "x")).contains("an IP address"));
        assert!(wrong(("SHOCKWAVE_BACKEND", "mpi")).contains("auto, gloo or nccl"));
    }

    #[test]
    fn own_address_is_that_of_the_way_to_the_store() {
        let meeting = Rendezvous::new(0, 2, "127.0.0.1", 29500);
        assert!(meeting.own_address().unwrap().is_loopback());
        let nowhere = Rendezvous::new(0, 2, "no-such-host.invalid", 29500);
        assert!(nowhere.own_address().unwrap_err().to_string().contains("no-such-host.invalid"));
    }
}
