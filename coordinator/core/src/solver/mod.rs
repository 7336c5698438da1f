//! From utilities to a plan: integer rounds per job with a certified gap, then rounds by packing.
//!
//! [`Program`] -> bound and rounding over the makespan ([`search`](self)) -> packing with few
//! restarts -> work conservation -> [`Certificate`]. See `docs/decisions` for why the N x T
//! binaries of eq. 2 are not needed.

mod certificate;
mod core_search;
mod fill;
mod hull;
mod lanes;
mod packing;
mod program;
mod relax;
mod schedule;
mod search;
mod select;
#[cfg(test)]
mod testing;

use std::cmp::Reverse;

pub use certificate::Certificate;
pub use program::{Item, Program};
pub use schedule::Schedule;
pub use search::Effort;

/// A schedule with its certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Who runs when.
    pub schedule: Schedule,
    /// What that is worth.
    pub certificate: Certificate,
    /// Price of a GPU round in the aggregated program: its marginal value, in units of the
    /// objective.
    pub price: f64,
    /// Fewest rounds that each job needs to keep the plan's makespan.
    pub rounds_min: Vec<usize>,
}

/// Plans a window. `stop` is asked between steps; true ends the search with the best plan so far.
///
/// The result depends on nothing but the program and the effort (unless `stop` cuts it short).
#[must_use]
pub fn solve(program: &Program, effort: &Effort, stop: &dyn Fn() -> bool) -> Plan {
    let found = search::search(program, effort, stop);
    let mut schedule = pack(program, &found.rounds);
    let mut counts = schedule.counts();
    fill::fill(program, &mut schedule, &mut counts);
    let certificate = Certificate::of(program, &schedule, found.bound);
    Plan { schedule, certificate, price: found.price, rounds_min: found.lo }
}

/// Packs round counts with few restarts and, if those cost rounds, exactly.
fn pack(program: &Program, counts: &[usize]) -> Schedule {
    let Some(chain) = packing::chain(program) else { return packing::pack_level(program, counts) };
    let mut keep: Vec<bool> = program
        .items
        .iter()
        .zip(counts)
        .map(|(item, &n)| item.running && n > 0 && n < program.rounds)
        .collect();
    // Each time rounds are lost, fewer running jobs are held to their place: the largest go first.
    let mut kept: Vec<usize> = (0..counts.len()).filter(|&job| keep[job]).collect();
    kept.sort_by_key(|&job| {
        (counts[job] as u64 * u64::from(program.items[job].gpus), Reverse(job))
    });
    for share_freed in [0.1, 0.25, 0.5, 1.0] {
        let schedule = lanes::pack_lanes(program, counts, &chain, &keep);
        if packing::lost(program, counts, &schedule) == 0 {
            return schedule;
        }
        let freed = (kept.len() as f64 * share_freed).ceil() as usize;
        for job in kept.split_off(kept.len() - freed) {
            keep[job] = false;
        }
    }
    let schedule = lanes::pack_lanes(program, counts, &chain, &keep);
    if packing::lost(program, counts, &schedule) == 0 {
        return schedule;
    }
    packing::pack_level(program, counts)
}
