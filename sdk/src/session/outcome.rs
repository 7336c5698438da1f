//! How a session ended.

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
    /// The lease belongs to somebody else now; nothing was written after that: exit code 76.
    Revoked {
        /// What the coordinator said.
        reason: String,
    },
}

impl Outcome {
    /// 0 finished, 75 yielded (`EX_TEMPFAIL`: run again to go on), 76 revoked.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Finished => 0,
            Self::Yielded { .. } => 75,
            Self::Revoked { .. } => 76,
        }
    }
}
