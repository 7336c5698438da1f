//! Exit codes of a training process.

/// Training is complete. For a job of the SDK the event `Finished` counts, not this code.
pub const FINISHED: i32 = 0;
/// Gave its devices back and can be resumed from its checkpoint (sysexits' EX_TEMPFAIL).
pub const YIELDED: i32 = 75;
