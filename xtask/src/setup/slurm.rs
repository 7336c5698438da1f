//! Slurm, for the tests that need one: Debian's packages, where this user may install them.

use std::path::Path;
use std::process::Command;

use crate::process;

/// Programs that the tests start, and the packages that have them.
const PROGRAMS: [&str; 3] = ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"];
const PACKAGES: [&str; 2] = ["slurm-wlm", "munge"];

/// Installs what is missing, if that is possible; otherwise says which tests are skipped.
pub(crate) fn offer() {
    let is_there = || PROGRAMS.iter().all(|program| Path::new(program).is_file());
    if is_there() {
        return;
    }
    let may_install = Path::new("/usr/bin/apt-get").is_file() && is_root();
    if may_install {
        eprintln!("installing {} for the tests", PACKAGES.join(" and "));
        let mut install = apt_get();
        install.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(PACKAGES);
        let mut done = process::capture(&mut install).is_ok_and(|it| it.status.success());
        if !done {
            // The lists of packages may be old, or not there at all.
            let _ = process::capture(apt_get().args(["update", "--quiet"]));
            done = process::capture(&mut install).is_ok_and(|it| it.status.success());
        }
        if done && is_there() {
            return;
        }
    }
    eprintln!(
        "the tests that need Slurm will be skipped: as root, apt-get install \
         --no-install-recommends {}",
        PACKAGES.join(" ")
    );
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Whether this process may do everything: the effective user in /proc/self/status is 0.
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
