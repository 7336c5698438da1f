//! The core search: dynamic programming over the jobs whose choice is still open.
//!
//! At a price p, choosing n for job j loses `max_m (v_j[m] - p g m) - (v_j[n] - p g n)` of the
//! bound. A choice that loses more than what separates the bound from the best plan so far is in
//! no better plan. What survives is small, and exact dynamic programming over it closes the gap
//! (Pisinger's core idea for the multiple-choice knapsack).

use super::Program;
use super::hull::priced_value;
use super::relax::Relaxed;

/// What the search found.
#[derive(Debug)]
pub(super) struct CoreResult {
    /// Rounds of every job.
    pub(super) rounds: Vec<usize>,
    /// An upper bound, when every open job was part of the search.
    pub(super) bound: Option<f64>,
    /// Cell updates spent.
    pub(super) work: u64,
}

/// A job with several choices left: (rounds, priced value), rounds ascending.
struct Open {
    job: usize,
    least_loss: f64,
    choices: Vec<(usize, f64)>,
}

/// Improves `relaxed.rounds`, whose priced value is to exceed `incumbent`; at most `work_max` cell
/// updates are spent.
pub(super) fn core_search(
    program: &Program,
    relaxed: &Relaxed,
    work_price: f64,
    incumbent: f64,
    work_max: u64,
) -> CoreResult {
    let mut rounds = relaxed.rounds.clone();
    let slack = (relaxed.bound - incumbent).max(0.0) + 1e-12 * relaxed.bound.abs();
    let (mut open, settled) = split(program, relaxed, work_price, slack, &mut rounds);
    open.sort_by(|a, b| a.least_loss.total_cmp(&b.least_loss).then(a.job.cmp(&b.job)));
    let unit = u64::from(open.iter().fold(0, |u, o| gcd(u, program.items[o.job].gpus)).max(1));
    let used: u64 =
        rounds.iter().zip(&program.items).map(|(&n, item)| n as u64 * u64::from(item.gpus)).sum();
    let mut free = program.capacity().saturating_sub(used);
    if used > program.capacity() {
        return CoreResult { rounds: relaxed.rounds.clone(), bound: None, work: 1 };
    }
    let mut cells = 0;
    let mut count = 0;
    for item in &open {
        let gpus = u64::from(program.items[item.job].gpus);
        let held = (rounds[item.job] - item.choices[0].0) as u64 * gpus;
        let width = (free + held) / unit + 1;
        let work = (cells + item.choices.len() as u64) * width;
        if work > work_max {
            break;
        }
        cells += item.choices.len() as u64;
        free += held;
        count += 1;
    }
    let complete = count == open.len();
    open.truncate(count);
    let value = knapsack(program, &open, (free / unit) as usize, unit, &mut rounds);
    let work = (cells * (free / unit + 1)).max(1);
    CoreResult { rounds, bound: complete.then_some(settled + value), work }
}

/// Separates the jobs with one surviving choice (set in `rounds`, values summed) from the others.
fn split(
    program: &Program,
    relaxed: &Relaxed,
    work_price: f64,
    slack: f64,
    rounds: &mut [usize],
) -> (Vec<Open>, f64) {
    let mut open = Vec::new();
    let mut settled = 0.0;
    let mut reduced = Vec::new();
    for (job, item) in program.items.iter().enumerate() {
        let cost = relaxed.price * f64::from(item.gpus);
        reduced.clear();
        for n in relaxed.lo[job]..=item.rounds_max {
            let value = priced_value(program, job, n, work_price);
            reduced.push((n, value, value - cost * n as f64));
        }
        let best = reduced.iter().map(|r| r.2).fold(f64::NEG_INFINITY, f64::max);
        let kept = reduced.iter().filter(|r| best - r.2 <= slack).count();
        if kept <= 1 {
            // The one choice left is the rounding's, unless the rounding broke an edge.
            if let Some(&(n, value, _)) = reduced.iter().find(|r| best - r.2 <= slack)
                && rounds[job] >= n
            {
                rounds[job] = n;
                settled += value;
                continue;
            }
        }
        let current = rounds[job];
        let choices: Vec<_> = reduced
            .iter()
            .filter(|r| best - r.2 <= slack || r.0 == current)
            .map(|r| (r.0, r.1))
            .collect();
        let least_loss = reduced
            .iter()
            .filter(|r| r.0 != current)
            .map(|r| best - r.2)
            .fold(f64::INFINITY, f64::min);
        open.push(Open { job, least_loss, choices });
    }
    (open, settled)
}

/// Exact choice for the open jobs within `width` units of capacity above their least choices.
/// Writes it to `rounds`, returns its value.
fn knapsack(
    program: &Program,
    open: &[Open],
    width: usize,
    unit: u64,
    rounds: &mut [usize],
) -> f64 {
    let mut best = vec![0.0_f64; width + 1];
    let mut next = vec![0.0_f64; width + 1];
    let mut picked = vec![0_u16; open.len() * (width + 1)];
    for (item, picks) in open.iter().zip(picked.chunks_mut(width + 1)) {
        next.fill(f64::NEG_INFINITY);
        let gpus = u64::from(program.items[item.job].gpus);
        for (index, &(n, value)) in item.choices.iter().enumerate() {
            let cost = ((n - item.choices[0].0) as u64 * gpus / unit) as usize;
            if cost > width {
                break;
            }
            let targets = next[cost..].iter_mut().zip(&mut picks[cost..]);
            for (&from, (to, pick)) in best.iter().zip(targets) {
                let total = from + value;
                if total > *to {
                    *to = total;
                    *pick = index as u16;
                }
            }
        }
        std::mem::swap(&mut best, &mut next);
    }
    let value = best[width];
    let mut left = width;
    for (item, picks) in open.iter().zip(picked.chunks(width + 1)).rev() {
        let n = item.choices[usize::from(picks[left])].0;
        let gpus = u64::from(program.items[item.job].gpus);
        left -= ((n - item.choices[0].0) as u64 * gpus / unit) as usize;
        rounds[item.job] = n;
    }
    value
}

pub(super) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
