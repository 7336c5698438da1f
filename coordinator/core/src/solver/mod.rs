//! From utilities to a plan: integer rounds per job with a certified gap, then rounds by packing.
//!
//! [`Program`] -> bound and rounding over the makespan ([`search`](self)) -> packing with few
//! restarts -> work conservation -> [`Certificate`]. See `docs/decisions` for why the N x T
//! binaries of eq. 2 are not needed.

mod certificate;
mod core_search;
mod exact;
mod fill;
mod hull;
mod lanes;
mod packing;
mod precedence;
mod program;
mod relax;
mod schedule;
mod search;
mod select;
mod sides;
#[cfg(test)]
mod testing;

use std::cmp::Reverse;

use serde::Serialize;

pub use certificate::Certificate;
pub use exact::{BINARIES_MAX, ExactError, ExactPlan, solve_exact};
pub use precedence::Precedence;
pub use program::{Item, Program};
pub use schedule::Schedule;
pub use search::Effort;
pub use sides::Sides;

/// Which jobs run early in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    /// Whatever starts jobs least often.
    FewStarts,
    /// The next round goes by precedence, the others by few starts: for planners that plan again
    /// every round.
    ByPrecedence(Precedence),
}

/// Which path gave a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The aggregated solver.
    Aggregated,
    /// The aggregated solver, improved or certified further by HiGHS.
    Polished,
    /// HiGHS under side constraints.
    Exact,
}

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
    /// All jobs in order of precedence: how idle GPUs are best offered.
    pub order: Vec<usize>,
    /// Which path gave it.
    pub method: Method,
}

/// Plans a window. `stop` is asked between steps; true ends the search with the best plan so far.
///
/// The result depends on nothing but the arguments (unless `stop` cuts it short).
#[must_use]
pub fn solve(
    program: &Program,
    effort: &Effort,
    placement: Placement,
    stop: &dyn Fn() -> bool,
) -> Plan {
    let found = search::search(program, effort, stop);
    let first = match placement {
        Placement::FewStarts => Precedence::default(),
        Placement::ByPrecedence(first) => first,
    };
    let order = first.order(program, &found.rounds);
    let schedule = match placement {
        Placement::FewStarts => {
            let mut schedule = pack(program, &found.rounds);
            let mut counts = schedule.counts();
            fill::fill(program, &Sides::default(), &mut schedule, &mut counts);
            schedule
        }
        Placement::ByPrecedence(_) => {
            precedence::schedule_in_order(program, &found.rounds, &order, pack)
        }
    };
    let certificate = Certificate::of(program, &Sides::default(), &schedule, found.bound);
    Plan { schedule, certificate, price: found.price, order, method: Method::Aggregated }
}

/// Improves a plan, or its bound, with HiGHS: at most `time_s` seconds. The plan stays as it is
/// when that finds nothing better.
#[must_use]
pub fn polish(program: &Program, plan: Plan, time_s: f64) -> Plan {
    let sides = Sides::default();
    let Ok(found) = solve_exact(program, &sides, Some(&plan.schedule), time_s) else {
        return plan;
    };
    let bound = found.upper_bound.min(plan.certificate.upper_bound);
    let mut schedule = found.schedule;
    let mut counts = schedule.counts();
    fill::fill(program, &sides, &mut schedule, &mut counts);
    if program.objective(&counts) <= plan.certificate.objective {
        schedule = plan.schedule.clone();
    }
    let certificate = Certificate::of(program, &sides, &schedule, bound);
    Plan { schedule, certificate, method: Method::Polished, ..plan }
}

/// Plans under side constraints with HiGHS, at most `time_s` seconds.
///
/// # Errors
/// [`ExactError`] when nothing satisfies the constraints or none was found in time.
pub fn solve_constrained(
    program: &Program,
    sides: &Sides,
    effort: &Effort,
    time_s: f64,
) -> Result<Plan, ExactError> {
    let free = search::search(program, effort, &|| false);
    let order = Precedence::default().order(program, &free.rounds);
    let found = solve_exact(program, sides, None, time_s)?;
    let mut schedule = found.schedule;
    let mut counts = schedule.counts();
    fill::fill(program, sides, &mut schedule, &mut counts);
    let bound = found.upper_bound.min(free.bound);
    let certificate = Certificate::of(program, sides, &schedule, bound);
    Ok(Plan { schedule, certificate, price: free.price, order, method: Method::Exact })
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
