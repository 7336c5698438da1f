//! A coordinator in a process of its own, on one core where it is asked for.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A coordinator; it is ended with this value.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
    pub(crate) token: String,
    state: PathBuf,
}

impl Served {
    /// Starts one with its state in a folder. `core`: the only core that it may use.
    pub(crate) fn start(
        folder: &Path,
        arguments: &str,
        core: Option<usize>,
    ) -> Result<Self, Box<dyn Error>> {
        let state = folder.join("state");
        let mut command = Command::new(env!("CARGO_BIN_EXE_shockwave"));
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--state"]).arg(&state);
        command.args(arguments.split_whitespace()).env("XDG_STATE_HOME", folder.join("user"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(folder.join("coordinator.log"))?);
        if let Some(core) = core {
            // SAFETY: between fork and exec one system call is made, on a set that is its own.
            unsafe { command.pre_exec(move || pin(&[core])) };
        }
        let mut child = command.spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let ready: serde_json::Value = serde_json::from_str(&line)?;
        let url = ready["coordinator"].as_str().ok_or("no address")?.to_owned();
        let known = std::fs::read(state.join("coordinator.json"))?;
        let known: serde_json::Value = serde_json::from_slice(&known)?;
        let token = known["token"].as_str().ok_or("no token")?.to_owned();
        Ok(Self { child, url, token, state })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.state.join("shockwave.db")
    }

    /// Memory of its process, KiB.
    pub(crate) fn memory_kib(&self) -> Result<f64, Box<dyn Error>> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
    }

    /// Processor time of its process, seconds.
    pub(crate) fn processor_s(&self) -> Result<f64, Box<dyn Error>> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> =
            stat.rsplit_once(") ").ok_or("stat")?.1.split_whitespace().collect();
        let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        // SAFETY: sysconf reads a constant of the system.
        Ok(ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // SAFETY: kill(2) takes plain numbers; the child is not waited for, so its id is its own.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        for _ in 0..200 {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the calling thread, and those that it starts, run on these cores only.
pub(crate) fn pin(cores: &[usize]) -> std::io::Result<()> {
    // SAFETY: the set is plain memory of this frame.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for core in cores {
            libc::CPU_SET(*core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
