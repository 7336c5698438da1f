//! The linear relaxation at a given makespan: an upper bound, a price and a rounding.

use super::hull::{Floored, Hulls, priced_value};
use super::select::threshold;
use super::{Program, hull::Edge};

/// The relaxation under `R_j(n_j) <= h` with a share theta of the makespan's price on total work.
#[derive(Clone, Debug)]
pub(super) struct Relaxed {
    /// Upper bound of `sum_j v_j[n_j] - theta mu S(n)`.
    pub(super) bound: f64,
    /// Price of a GPU round.
    pub(super) price: f64,
    /// Rounding at hull corners, the broken edge filled as far as it goes.
    pub(super) rounds: Vec<usize>,
    /// Fewest rounds of each job under the makespan limit.
    pub(super) lo: Vec<usize>,
}

/// Fewest rounds of every job that leave none more than `h_s`, unless capacity forbids it.
pub(super) fn floors(program: &Program, h_s: f64) -> Option<Vec<usize>> {
    let mut used = 0_u64;
    let mut lo = Vec::with_capacity(program.items.len());
    for (job, item) in program.items.iter().enumerate() {
        let floor = program.rounds_min(job, h_s)?;
        used += u64::from(item.gpus) * floor as u64;
        lo.push(floor);
    }
    (used <= program.capacity()).then_some(lo)
}

/// Solves the relaxation; `hulls` carry theta's price of left-over work. `None`: nothing fits.
pub(super) fn relax(program: &Program, hulls: &Hulls, h_s: f64) -> Option<Relaxed> {
    let lo = floors(program, h_s)?;
    let floored = Floored::new(program, hulls, &lo);
    let mut capacity = program.capacity();
    let mut base = 0.0;
    let mut edges = Vec::with_capacity(hulls.edges.len());
    for (job, &floor) in lo.iter().enumerate() {
        let gpus = program.items[job].gpus;
        capacity -= u64::from(gpus) * floor as u64;
        base += priced_value(program, job, floor, hulls.work_price);
        edges.extend(
            floored.of(job, floor).iter().map(|e| (e.slope, gpus * u32::from(e.to - e.from))),
        );
    }
    let met = threshold(&mut edges, capacity);
    let mut residual = capacity - met.cost;
    let bound = base + met.gain + met.price * residual as f64;
    let rounds = round_down(program, &floored, &lo, met.price, &mut residual);
    Some(Relaxed { bound, price: met.price, rounds, lo })
}

/// Takes all edges steeper than the price, then, in order of jobs, what still fits at the price.
fn round_down(
    program: &Program,
    hulls: &Floored<'_>,
    lo: &[usize],
    price: f64,
    residual: &mut u64,
) -> Vec<usize> {
    let mut rounds = Vec::with_capacity(lo.len());
    for (job, &floor) in lo.iter().enumerate() {
        let edges = hulls.of(job, floor);
        let taken = edges.partition_point(|edge| edge.slope > price);
        let mut n = if taken == 0 { floor } else { usize::from(edges[taken - 1].to) };
        if let Some(&Edge { from, to, slope }) = edges.get(taken)
            && slope == price
        {
            let gpus = u64::from(program.items[job].gpus);
            let extra = (*residual / gpus).min(u64::from(to - from));
            n += extra as usize;
            *residual -= extra * gpus;
        }
        rounds.push(n);
    }
    rounds
}
