//! Where the coordinator of an attached program is, and what the program is called there.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use shockwave_proto::env;

use crate::client::Secret;

/// After a yield: wait for the next lease.
pub(super) const WAIT: &str = "wait";
/// After a yield: end.
pub(super) const EXIT: &str = "exit";

/// How a program is entered.
#[derive(Debug)]
pub(super) struct Settings {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub(super) coordinator: String,
    pub(super) token: Secret,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) gpus: u32,
    pub(super) key: String,
    /// Name of the machine; empty: found by its identity.
    pub(super) node: String,
    /// Job that this program carries already, and its last lease; 0: none.
    pub(super) job: (u64, u64),
}

/// The file in which a coordinator of this user says where it is.
#[derive(Debug, Deserialize)]
struct AddressFile {
    coordinator: String,
    token: String,
    #[serde(default)]
    authority: Option<PathBuf>,
}

impl Settings {
    /// None: the program trains alone.
    pub(super) fn from_variables(
        set: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let (mode, address) = (set(env::ATTACH), set(env::COORDINATOR));
        if mode.is_none() && address.is_none() {
            return Ok(None);
        }
        if let Some(other) = mode.filter(|mode| mode != WAIT && mode != EXIT) {
            return Err(format!("{}={other:?}; expected {WAIT} or {EXIT}", env::ATTACH));
        }
        let known = find(state_folder(&set).as_deref(), address.as_deref());
        let coordinator = address.or_else(|| known.as_ref().map(|it| it.coordinator.clone()));
        let coordinator = coordinator.ok_or_else(|| {
            format!("no coordinator of this user is known; name one with {}", env::COORDINATOR)
        })?;
        let token = set(env::TOKEN).or_else(|| known.as_ref().map(|it| it.token.clone()));
        let token = token.ok_or_else(|| {
            format!("no token for {coordinator} is known; set {} to yours", env::TOKEN)
        })?;
        let count = |name| match set(name) {
            None => Ok(0),
            Some(text) => text
                .parse::<u64>()
                .map_err(|_| format!("{name}={text:?}; expected a whole number, 0 or more")),
        };
        let gpus = u32::try_from(count(env::ATTACH_GPUS)?.max(1));
        Ok(Some(Self {
            ca_file: set(env::CA_FILE).map(PathBuf::from).or(known.and_then(|it| it.authority)),
            gpus: gpus.map_err(|_| format!("{} is too large", env::ATTACH_GPUS))?,
            key: set(env::ATTACH_KEY).unwrap_or_else(own_key),
            node: set(env::NODE).unwrap_or_default(),
            job: (count(env::ATTACHED_JOB)?, count(env::LEASE_EPOCH)?),
            coordinator: coordinator.trim_end_matches('/').to_owned(),
            token: Secret(token),
        }))
    }
}

/// `$XDG_STATE_HOME/shockwave`, by default `~/.local/state/shockwave`.
pub(super) fn state_folder(set: &impl Fn(&'static str) -> Option<String>) -> Option<PathBuf> {
    let state = set("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| set("HOME").map(|home| Path::new(&home).join(".local/state")));
    state.map(|state| state.join("shockwave"))
}

/// The coordinator at an address, or the one that this user started last.
fn find(folder: Option<&Path>, address: Option<&str>) -> Option<AddressFile> {
    let file = match address {
        None => "coordinator.json".into(),
        Some(address) => {
            let address = address.trim_end_matches('/');
            let bare = address.trim_start_matches("http://").trim_start_matches("https://");
            let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
            format!("coordinators/{}.json", bare.chars().map(safe).collect::<String>())
        }
    };
    serde_json::from_slice(&std::fs::read(folder?.join(file)).ok()?).ok()
}

/// The same for the same program with the same arguments in the same folder of the same machine.
fn own_key() -> String {
    let mut digest = Sha256::new();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    digest.update(host.as_bytes());
    digest.update(std::env::current_dir().unwrap_or_default().as_os_str().as_encoded_bytes());
    for argument in std::env::args_os() {
        digest.update([0]);
        digest.update(argument.as_encoded_bytes());
    }
    let digest = digest.finalize();
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("attached-{hex}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        Settings::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn alone_unless_asked() {
        assert!(settings(&[]).unwrap().is_none());
    }

    #[test]
    fn the_environment_names_the_coordinator() {
        let it = settings(&[
            (env::COORDINATOR, "http://head:7433/"),
            (env::TOKEN, "s3cret"),
            (env::ATTACH_GPUS, "2"),
            (env::ATTACHED_JOB, "7"),
            (env::LEASE_EPOCH, "3"),
        ]);
        let it = it.unwrap().unwrap();
        assert_eq!(it.coordinator, "http://head:7433");
        assert_eq!((it.gpus, it.job), (2, (7, 3)));
        assert!(it.key.starts_with("attached-"));
        assert!(!format!("{it:?}").contains("s3cret"));
    }

    #[test]
    fn the_users_own_coordinator_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("shockwave");
        std::fs::create_dir(&state).unwrap();
        let file =
            r#"{"version":1,"coordinator":"http://127.0.0.1:9","token":"t","state":"/s","pid":1}"#;
        std::fs::write(state.join("coordinator.json"), file).unwrap();
        let home = folder.path().to_str().unwrap();
        let it = settings(&[(env::ATTACH, EXIT), ("XDG_STATE_HOME", home)]).unwrap().unwrap();
        assert_eq!((it.coordinator.as_str(), it.token.0.as_str()), ("http://127.0.0.1:9", "t"));
    }

    #[test]
    fn errors_name_the_variable() {
        let check = |variables: &[(&str, &str)], expected: &str| {
            let error = settings(variables).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(&[(env::ATTACH, "yes")], "SHOCKWAVE_ATTACH=\"yes\"; expected wait or exit");
        check(&[(env::ATTACH, WAIT)], "SHOCKWAVE_COORDINATOR");
        check(&[(env::COORDINATOR, "http://h:1")], "SHOCKWAVE_TOKEN");
        let both = [(env::COORDINATOR, "http://h:1"), (env::TOKEN, "t")];
        check(&[both[0], both[1], (env::ATTACH_GPUS, "x")], "SHOCKWAVE_ATTACH_GPUS=\"x\"");
    }
}
