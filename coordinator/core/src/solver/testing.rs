//! Builders for the tests of this module.

use super::{Item, Program};

/// A program without values: `gangs` on `gpus` GPUs over `rounds` rounds.
pub(super) fn program_of(gpus: u32, rounds: usize, gangs: &[u32]) -> Program {
    let items = gangs
        .iter()
        .map(|&gang| Item {
            gpus: gang,
            work_s: 1e9,
            left_s: 1e9,
            rounds_max: rounds,
            slack_s: f64::INFINITY,
            weight: 1.0,
            running: false,
        })
        .collect::<Vec<_>>();
    let values = vec![0.0; items.len() * (rounds + 1)];
    Program { gpus, rounds, round_s: 120.0, makespan_price: 0.0, items, values }
}
