//! What the example programs share: networks, options, evaluation and results.
//!
//! Exit codes of every program that uses the SDK: 0 training is complete, 75 it stopped on request
//! and goes on when started again, 76 its lease belongs to another process, 1 an error.

pub mod accuracy;
pub mod adaptive;
pub mod options;
pub mod plain;
pub mod resnet;
pub mod sample_log;
