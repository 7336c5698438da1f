//! SIGTERM and SIGINT only set a flag: a checkpoint is never written inside a signal handler.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Error;

/// The flag that the handlers set; they are installed once per process.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn install() -> io::Result<Arc<AtomicBool>> {
    let raised = Arc::new(AtomicBool::new(false));
    let interrupted = Arc::new(AtomicBool::new(false));
    flag::register(SIGTERM, raised.clone())?;
    flag::register(SIGINT, raised.clone())?;
    // A second Ctrl-C ends the program at once, with the shell's code for it.
    flag::register_conditional_shutdown(SIGINT, 130, interrupted.clone())?;
    flag::register(SIGINT, interrupted)?;
    Ok(raised)
}

/// Installs the handlers if they are not yet, and returns their flag.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Error> {
    if let Some(flag) = FLAG.get() {
        return Ok(flag.clone());
    }
    let installed = install().map_err(|source| Error::Io {
        action: "install handlers of SIGTERM and SIGINT in",
        path: "this process".into(),
        source,
    })?;
    Ok(FLAG.get_or_init(|| installed).clone())
}

/// Asks a session to stop from anywhere, another thread included: it saves a checkpoint and its loops end.
#[derive(Debug, Clone, Default)]
pub struct StopHandle {
    reason: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicBool>,
}

impl StopHandle {
    /// Asks for a stop. The first reason counts.
    pub fn stop(&self, reason: impl Into<String>) {
        let mut slot = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(reason.into());
        self.asked.store(true, Ordering::Release);
    }

    /// The reason, once a stop was asked for.
    pub(crate) fn asked(&self) -> Option<String> {
        if !self.asked.load(Ordering::Acquire) {
            return None;
        }
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
