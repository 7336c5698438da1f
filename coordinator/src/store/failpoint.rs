//! Named moments at which a test can have the coordinator killed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// `NAME:COUNT`: kill the process (SIGKILL, nothing is flushed) when it passes NAME for the
/// COUNT-th time.
const VARIABLE: &str = "SHOCKWAVE_FAIL_POINT";

static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
static PASSED: AtomicU64 = AtomicU64::new(0);

/// Passes a named moment; costs one comparison when no test has asked for it.
pub fn fail_point(name: &str) {
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var(VARIABLE).ok()?;
        let (name, count) = value.split_once(':')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    let Some((at, count)) = wanted else { return };
    if at == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count {
        // SAFETY: plain system call on integers.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
