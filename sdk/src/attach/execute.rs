//! The program executes itself again: the only way to be sure that nothing of it is left on a device.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest, Sha256};
use shockwave_proto::env;

use super::settings::{Settings, state_folder};
use super::wait::Leased;

/// Variables that belong to one lease.
const OF_A_LEASE: [&str; 7] = [
    env::JOB_ID,
    env::LEASE_TTL_MS,
    env::GRACE_MS,
    env::JOB_TOKEN,
    env::NONCE,
    env::SLOT,
    env::LEASE_FROM_MONO_MS,
];

/// Executes the program with its lease. Returns only when that fails.
pub(super) fn with_lease(settings: &Settings, leased: Leased) -> io::Error {
    let set = |name: &'static str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let folder = state_folder(&set).unwrap_or_else(std::env::temp_dir);
    let folder = folder.join("attached").join(own_folder(&leased));
    let (spool, checkpoints) = (folder.join("spool"), folder.join("checkpoints"));
    if let Err(error) = std::fs::create_dir_all(&spool) {
        return error;
    }
    let mut command = again();
    // First: the address is the one that was reached from here.
    command.envs(&leased.grant.env);
    command.env(env::COORDINATOR, &settings.coordinator);
    command.env(env::ATTACHED_JOB, leased.job.to_string());
    command.env(env::LEASE_FROM_MONO_MS, monotonic_ms().to_string());
    command.env(env::SPOOL_DIR, spool);
    if std::env::var_os(env::CHECKPOINT_DIR).is_none() {
        command.env(env::CHECKPOINT_DIR, checkpoints);
    }
    if let Some(file) = &settings.ca_file {
        command.env(env::CA_FILE, file);
    }
    command.env(env::NODE, &leased.node);
    if let Some(outer) = std::env::var_os(env::CUDA_VISIBLE_DEVICES) {
        command.env(env::OUTER_CUDA_VISIBLE_DEVICES, outer);
    }
    execute(command)
}

/// Executes the program without its lease. Returns only when that fails.
pub(super) fn without_lease() -> io::Error {
    // An order to end that is still under way is for the lease, not for the image that waits.
    // SAFETY: an ignored signal runs no code.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    let mut command = again();
    for name in OF_A_LEASE {
        command.env_remove(name);
    }
    match std::env::var_os(env::OUTER_CUDA_VISIBLE_DEVICES) {
        Some(outer) => command.env(env::CUDA_VISIBLE_DEVICES, outer),
        None => command.env_remove(env::CUDA_VISIBLE_DEVICES),
    };
    execute(command)
}

/// One for each job of each coordinator: job 1 of another has nothing to do with this one's. A job's
/// token is its own, and the same after every restart.
fn own_folder(leased: &Leased) -> String {
    let token = leased.grant.env.get(env::JOB_TOKEN).map(String::as_bytes).unwrap_or_default();
    let digest = Sha256::digest(token);
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hex}", leased.job)
}

/// Ends on SIGTERM again, once the image that waits has begun.
pub(super) fn hear_orders() {
    // SAFETY: the default action runs no code of ours.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_DFL) };
}

fn again() -> Command {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    // A program that was replaced meanwhile goes on as the new one.
    let named = own.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
    let mut command = Command::new(if own.exists() { own } else { PathBuf::from(named) });
    command.args(std::env::args_os().skip(1));
    command
}

fn execute(mut command: Command) -> io::Error {
    // Drivers' files must not survive: an open one would keep its device.
    // SAFETY: a plain system call on integers; it closes nothing before the program is replaced.
    let _ =
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    command.exec()
}

/// Time on the machine's monotonic clock, milliseconds: the same before and after.
pub(crate) fn monotonic_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1000 + time.tv_nsec.unsigned_abs() / 1_000_000
}
