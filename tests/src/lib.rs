//! What the whole-system tests share: the built programs, and how to run and to kill them.
//!
//! The tests run the programs that lie beside them in the target folder; cargo builds those with
//! the workspace, not with this package alone.

pub mod browser;
pub mod coordinator;
pub mod fuzz;
pub mod netns;
pub mod programs;
pub mod samples;
pub mod slurm;
pub mod torture;
pub mod training;
