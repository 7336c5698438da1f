//! Partitions, lost, repeated and reordered messages, crashes of everything (P1 to P6), in virtual
//! time and deterministic by seed.
//!
//! The coordinator is the real one from its gRPC handlers down to the engine (only the database is a
//! list in memory that loses what was not durable); machines and training are models that keep to
//! the agent's and the SDK's rules. Everything that happens is drawn from the seed.

mod machine;
mod memory;
mod message;
mod process;
mod world;

use anyhow::Result;

use super::{Run, Scenario};

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "network",
    what: "P1-P6: partitions, repeats, reordering and crashes, deterministic by seed",
    counts: "acknowledgements held against the log",
    runs: 10_000,
    ci_runs: 40,
    prepare,
};

fn prepare(_runs: u64) -> Result<Run> {
    Ok(Box::new(|seed, tally| world::World::new(seed)?.play(tally)))
}
