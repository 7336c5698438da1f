//! Following something over restarts of the coordinator.

use std::time::Duration;

use tokio::time::Instant;

use super::connect::CliError;

/// How long a coordinator that went away is waited for: long enough for a restart.
const RETURN: Duration = Duration::from_secs(60);
/// Between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits for a coordinator that has been reached once.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// When it was last heard; none: not yet.
    heard: Option<Instant>,
}

impl Patience {
    /// It answers.
    pub(super) fn heard(&mut self) {
        self.heard = Some(Instant::now());
    }

    /// What was followed has broken off or come to no end: returns when the next attempt is due.
    ///
    /// # Errors
    /// Anything but a coordinator that is away, one that was never there, and one that has been
    /// away for too long.
    pub(super) async fn wait(&self, broken: Result<(), CliError>) -> Result<(), CliError> {
        match broken {
            Ok(()) => {}
            Err(CliError::Unreachable(_)) if self.heard.is_some_and(|at| at.elapsed() < RETURN) => {
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}
