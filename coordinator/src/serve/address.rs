//! Where a coordinator is found: a file that only its own user can read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::{Options, ServeError};
use crate::files::{FileError, make_folder, read_json, write_json};
use crate::{incoming, secrets};

/// Address and token of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressFile {
    /// Version of this file.
    pub version: u32,
    /// Address: `http://HOST:PORT`.
    pub coordinator: String,
    /// Token of the coordinator's own user, who may do everything.
    pub token: String,
    /// Where it listens: the next one on this state takes the same port.
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// Authority that signed its certificate, PEM; none: plain text.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// Folder of its state.
    pub state: PathBuf,
    /// Its process.
    pub pid: u32,
}

/// Name of the file in the state folder, and of this user's default.
const FILE: &str = "coordinator.json";

/// Folder for what belongs to this user: `$XDG_STATE_HOME/shockwave`, by default
/// `~/.local/state/shockwave`.
#[must_use]
pub fn user_dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("shockwave"))
}

/// Where the state lies when nothing else is said.
#[must_use]
pub fn default_state_dir() -> Option<PathBuf> {
    user_dir().map(|folder| folder.join("state"))
}

/// Name of the account that this process runs under.
#[must_use]
pub(super) fn user_name() -> String {
    std::env::var("USER")
        .ok()
        .filter(|name| !name.is_empty())
        // SAFETY: plain system call without arguments.
        .unwrap_or_else(|| format!("uid{}", unsafe { libc::getuid() }))
}

impl AddressFile {
    pub(super) fn new(options: &Options, listen: SocketAddr, secret: &str) -> Self {
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let state = &options.state_dir;
        let host = options.advertise.clone().unwrap_or_else(|| listen.to_string());
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Self {
            version: 1,
            coordinator: format!("{scheme}://{host}"),
            listen: Some(listen),
            authority: options.tls.as_ref().map(|tls| absolute(&tls.authority)),
            // The same after a restart: commands that wait go on.
            token: secrets::digest(&format!("{secret}/local-token")),
            state: absolute(state),
            pid: std::process::id(),
        }
    }

    /// Files that name this coordinator: in its state folder, by its address, as the default.
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.state.join(FILE)];
        if let Some(folder) = user_dir() {
            paths.push(by_address(&folder, &self.coordinator));
            paths.push(folder.join(FILE));
        }
        paths
    }

    pub(super) fn write(&self, state: &Path, is_default: bool) -> Result<(), FileError> {
        write_json(&state.join(FILE), self)?;
        if let Some(folder) = user_dir().filter(|_| is_default) {
            make_folder(&folder.join("coordinators"))?;
            write_json(&by_address(&folder, &self.coordinator), self)?;
            write_json(&folder.join(FILE), self)?;
        }
        Ok(())
    }

    /// Whether its process runs.
    fn is_running(&self) -> bool {
        crate::runner::process::stat(self.pid.cast_signed()).is_some_and(|stat| !stat.zombie)
    }

    /// Removes what commands would find; the state folder keeps its own, for the port.
    pub(super) fn remove(&self) {
        for path in self.paths().into_iter().skip(1) {
            if read_json::<Self>(&path).ok().flatten().as_ref() == Some(self) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn by_address(folder: &Path, coordinator: &str) -> PathBuf {
    let name: String = coordinator
        .trim_start_matches("http://")
        .trim_start_matches("https://")
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() || it == '.' { it } else { '_' })
        .collect();
    folder.join("coordinators").join(format!("{name}.json"))
}

/// The coordinator at an address, or this user's default; `None` when no file tells.
///
/// # Errors
/// A file that is there but cannot be read.
pub fn find(coordinator: Option<&str>) -> Result<Option<AddressFile>, FileError> {
    let Some(folder) = user_dir() else { return Ok(None) };
    match coordinator {
        Some(address) => read_json(&by_address(&folder, address.trim_end_matches('/'))),
        None => {
            let last: Option<AddressFile> = read_json(&folder.join(FILE))?;
            Ok(last.filter(AddressFile::is_running).or_else(|| any_running(&folder)))
        }
    }
}

/// A coordinator of this user that runs, when the one that was started last does not.
fn any_running(folder: &Path) -> Option<AddressFile> {
    let entries = std::fs::read_dir(folder.join("coordinators")).ok()?;
    let known = entries.flatten().filter_map(|entry| read_json(&entry.path()).ok().flatten());
    known.into_iter().find(AddressFile::is_running)
}

/// Listens. Port 0 takes the port that the coordinator of this state folder had before, so that
/// training that runs finds it again.
pub(super) fn bind(listen: SocketAddr, state: &Path) -> Result<TcpListener, ServeError> {
    if listen.port() == 0
        && let Ok(Some(before)) = read_json::<AddressFile>(&state.join(FILE))
        && let Some(address) = before.listen
        && address.ip() == listen.ip()
        && let Ok(listener) = incoming::listen(address)
    {
        return Ok(listener);
    }
    incoming::listen(listen).map_err(|source| ServeError::Listen {
        address: listen,
        option: "--listen",
        source,
    })
}
