//! Who may ask a session to stop, and what happens then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Outcome, Phase, Session};
use crate::Error;
use crate::signals::StopHandle;

/// Everything that can ask for a stop.
#[derive(Debug)]
pub(super) struct StopSources {
    /// Set by the signal handlers, if this session listens to signals.
    pub signal: Option<Arc<AtomicBool>>,
    pub handle: StopHandle,
}

impl StopSources {
    /// How the session must end now, if somebody asked for it.
    pub(super) fn asked(&self) -> Option<Outcome> {
        if let Some(reason) = self.handle.asked() {
            return Some(Outcome::Yielded { reason });
        }
        let signalled = self.signal.as_ref().is_some_and(|s| s.load(Ordering::Acquire));
        signalled.then(|| Outcome::Yielded { reason: "a signal asked to stop".into() })
    }
}

impl Session {
    /// A handle by which other code can ask this session to stop.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.handle.clone()
    }

    /// Whether training was told to stop. Loops of your own, evaluation included, should end soon when it says so; a
    /// stop seen after the epoch's last batch means that the evaluation is repeated after the resume.
    pub fn should_stop(&self) -> bool {
        let stop = matches!(self.phase, Phase::Ended(_)) || self.stop.asked().is_some();
        if stop {
            self.evaluation_cut.set(true);
        }
        stop
    }

    /// If a stop was asked for: saves a checkpoint, unless the lease is somebody else's, and ends all loops. Returns
    /// whether they end.
    pub(super) fn stop_if_asked(&mut self) -> Result<bool, Error> {
        let Some(outcome) = self.stop.asked() else { return Ok(false) };
        self.stopwatch.stop();
        if let Outcome::Yielded { reason } = &outcome {
            self.progress.say(&format!("stopping: {reason}"));
            self.save()?;
        }
        self.phase = Phase::Ended(outcome);
        self.progress.finish();
        Ok(true)
    }
}
