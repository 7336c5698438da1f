//! Processes as the kernel shows them: identity, groups, descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

/// Time on the machine's monotonic clock, which all its processes share, milliseconds.
#[must_use]
pub fn monotonic_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1000 + time.tv_nsec.unsigned_abs() / 1_000_000
}

/// Makes the kernel kill this process when the one that started it ends. For the time between fork
/// and exec: it only makes a system call.
///
/// # Errors
/// The kernel refuses.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: plain system call on integers.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A line of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Parent.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Start, clock ticks since boot.
    pub start_ticks: u64,
    /// Whether it has ended and only waits to be reaped.
    pub zombie: bool,
}

/// What the kernel says of a process; `None` when there is none of this number.
#[must_use]
pub fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(line: &str) -> Option<Stat> {
    // The name in parentheses may hold spaces and parentheses: fields count from the last one.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Whether this very process (not a later one of the same number) still runs.
#[must_use]
pub fn is_alive(pid: i32, start_ticks: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.start_ticks == start_ticks && !stat.zombie)
}

/// Every process below `root`, zombies left out.
#[must_use]
pub fn descendants(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in all_pids() {
        if let Some(stat) = stat(pid).filter(|stat| !stat.zombie) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            if found.insert(child) {
                queue.push(child);
            }
        }
    }
    found.into_iter().collect()
}

/// Whether a process was started with `name=value` in its environment; `None` where that cannot be
/// seen: it is about to end, or is just being replaced by another program.
#[must_use]
pub fn carries(pid: i32, name: &str, value: &str) -> Option<bool> {
    let wanted = format!("{name}={value}");
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|&byte| byte == 0);
    (!environment.is_empty()).then(|| entries.any(|entry| entry == wanted.as_bytes()))
}

/// Processes that were started with `name=value` in their environment, zombies left out. Only those
/// of the caller's own user can be seen (of every user by root).
#[must_use]
pub fn with_environment(name: &str, value: &str) -> Vec<i32> {
    all_pids().filter(|pid| carries(*pid, name, value) == Some(true)).collect()
}

fn all_pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Sends a signal to a process.
///
/// # Errors
/// As kill(2); no such process is none.
pub fn signal(pid: i32, number: i32) -> io::Result<()> {
    debug_assert!(pid > 1, "a signal to everything");
    // SAFETY: plain system call on integers.
    let result = unsafe { libc::kill(pid, number) };
    gone_is_fine(result)
}

/// Sends a signal to a process group.
///
/// # Errors
/// As kill(2); an empty group is none.
pub fn signal_group(group: i32, number: i32) -> io::Result<()> {
    debug_assert!(group > 1, "a signal to everything");
    // SAFETY: plain system call on integers.
    let result = unsafe { libc::killpg(group, number) };
    gone_is_fine(result)
}

fn gone_is_fine(result: i32) -> io::Result<()> {
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_name_with_parentheses_and_spaces() {
        let mut line = String::from("7 (a) b (c)) S 3 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0");
        let expected = Stat { parent: 3, group: 5, start_ticks: 4242, zombie: false };
        assert_eq!(parse_stat(&line), Some(expected));
        line = line.replace(") S ", ") Z ");
        assert!(parse_stat(&line).unwrap().zombie);
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn knows_itself() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = stat(pid).unwrap();
        assert!(is_alive(pid, own.start_ticks));
        assert!(!is_alive(pid, own.start_ticks + 1));
        assert!(descendants(own.parent).contains(&pid));
    }
}
