//! What the example programs share: networks, data, options, evaluation and results.
//!
//! Each task is a pair of programs: a plain tch loop (`plain_*`), and the same loop in a session of the SDK, with at most
//! 12 lines added (`tests/twin.rs` counts them).
//!
//! Exit codes: 0 training is complete; 75 it stopped on request, or its lease belongs to another process, and it goes on
//! when started again with the same checkpoint folder; 1 an error in data, settings or training; 2 options that the
//! command line cannot have.

pub mod accuracy;
pub mod adaptive;
pub mod cifar;
pub mod options;
pub mod plain;
pub mod ratings;
pub mod sample_log;
pub mod text;
