//! How a session ended.

use shockwave_proto::exit;

/// How a session ended, and the exit code that says so to whoever started the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All epochs are done: exit code 0.
    Finished,
    /// Told to stop, by a signal or the coordinator; a checkpoint was written, run the program again to go on: exit
    /// code 75.
    Yielded {
        /// Who asked, and why.
        reason: String,
    },
    /// The lease belongs to somebody else now; nothing was written after that: exit code 75.
    Revoked {
        /// What the coordinator said.
        reason: String,
    },
}

impl Outcome {
    /// 0 when finished, 75 (`EX_TEMPFAIL`) when the run goes on in another process: see [`shockwave_proto::exit`].
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Finished => exit::FINISHED,
            Self::Yielded { .. } | Self::Revoked { .. } => exit::YIELDED,
        }
    }
}
