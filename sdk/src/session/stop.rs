//! Who may ask a session to stop, and what happens then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{Outcome, Phase, Session};
use crate::Error;
use crate::client::YieldCause;
use crate::distributed::Group;
use crate::signals::StopHandle;

/// A stop that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stop {
    pub outcome: Outcome,
    pub cause: YieldCause,
    /// By when the process must have ended, if somebody said so.
    pub deadline: Option<Instant>,
}

impl Stop {
    /// A stop that was asked for and taken back after a loop had already ended because of it.
    pub(super) fn taken_back() -> Self {
        let reason = "a stop was asked for during the evaluation".into();
        Self { outcome: Outcome::Yielded { reason }, cause: YieldCause::Yield, deadline: None }
    }

    /// A stop that another worker was asked for.
    fn of_another() -> Self {
        let outcome = Outcome::Yielded { reason: "another worker was asked to stop".into() };
        Self { outcome, cause: YieldCause::Yield, deadline: None }
    }
}

/// Everything on this machine that can ask for a stop.
#[derive(Debug)]
pub(super) struct StopSources {
    /// Set by the signal handlers, if this session listens to signals.
    pub signal: Option<Arc<AtomicBool>>,
    pub handle: StopHandle,
}

impl StopSources {
    /// How the session must end now, if somebody asked for it.
    fn asked(&self) -> Option<Stop> {
        let signalled = || self.signal.as_ref().is_some_and(|s| s.load(Ordering::Acquire));
        let reason = match self.handle.asked() {
            Some(reason) => reason,
            None if signalled() => "a signal asked to stop".into(),
            None => return None,
        };
        let (outcome, cause) = (Outcome::Yielded { reason }, YieldCause::Signal);
        Some(Stop { outcome, cause, deadline: None })
    }
}

impl Session {
    /// A handle by which other code can ask this session to stop.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.handle.clone()
    }

    /// The stop that was asked for, if any. What the coordinator says comes first: it knows whose the lease is.
    pub(super) fn stop_asked(&self) -> Option<Stop> {
        self.coordinator.asked().or_else(|| self.stop.asked())
    }

    /// Whether training was told to stop. Loops of your own, evaluation included, should end soon when it says so; a
    /// stop seen after the epoch's last batch means that the evaluation is repeated after the resume.
    pub fn should_stop(&self) -> bool {
        let stop = matches!(self.phase, Phase::Ended(_)) || self.stop_asked().is_some();
        if stop {
            self.evaluation_cut.set(true);
        }
        stop
    }

    /// If a stop was asked for: ends all loops. Returns whether they end.
    pub(super) fn stop_if_asked(&mut self) -> Result<bool, Error> {
        self.coordinator.check()?;
        let own = self.stop_asked();
        if !self.any_worker(own.is_some())? {
            return Ok(false);
        }
        self.end(own.unwrap_or_else(Stop::of_another))?;
        Ok(true)
    }

    /// Ends all loops. A checkpoint is saved first, unless the lease is somebody else's.
    pub(super) fn end(&mut self, stop: Stop) -> Result<(), Error> {
        self.stopwatch.stop();
        self.coordinator.set_deadline(stop.deadline, stop.cause);
        match &stop.outcome {
            Outcome::Yielded { reason } => {
                self.progress.say(&format!("stopping: {reason}"));
                let chief = self.group.as_ref().is_none_or(Group::is_chief);
                if chief && self.saving.is_none() {
                    crate::progress::warn(format_args!(
                        "no checkpoint folder: this run's work is lost"
                    ));
                }
                self.save()?;
            }
            Outcome::Revoked { reason } => self.progress.say(&format!("lease revoked: {reason}")),
            Outcome::Finished => {}
        }
        self.report_yield(stop.cause);
        self.phase = Phase::Ended(stop.outcome);
        self.progress.finish();
        Ok(())
    }
}
