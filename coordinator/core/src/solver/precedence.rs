//! Who runs first among those who run: the order of the window's next round.

use super::hull::append_edges;
use super::{Program, Schedule, Sides, fill};

/// Jobs in order of precedence. First those that need (nearly) every round of the window to hold
/// the makespan or to finish, then those with rounds, then the rest; within each by what the first
/// step of their value is worth per GPU round, times `stay` for jobs that run already.
pub(super) fn precedence(
    program: &Program,
    counts: &[usize],
    lo: &[usize],
    stay: f64,
) -> Vec<usize> {
    let (mut scratch, mut edges) = (Vec::new(), Vec::new());
    let mut ranked: Vec<(u8, f64, usize)> = (0..counts.len())
        .map(|job| {
            let item = &program.items[job];
            edges.clear();
            append_edges(program, job, lo[job], 0.0, &mut scratch, &mut edges);
            let slope = edges.first().map_or(0.0, |edge| edge.slope);
            let n = counts[job];
            let bound_to_lane = lo[job] > 0 && n + 1 >= program.rounds;
            let class = match n {
                0 => 2,
                _ if n >= program.rounds || bound_to_lane => 0,
                _ => 1,
            };
            (class, if item.running { stay * slope } else { slope }, job)
        })
        .collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    ranked.into_iter().map(|(_, _, job)| job).collect()
}

/// A schedule whose first round is filled in `order` and whose others hold what is left of
/// `counts`, with few restarts.
pub(super) fn schedule_in_order(
    program: &Program,
    counts: &[usize],
    order: &[usize],
    pack: impl Fn(&Program, &[usize]) -> Schedule,
) -> Schedule {
    let mut schedule = Schedule::empty(counts.len(), program.rounds);
    let mut free = u64::from(program.gpus);
    for &job in order {
        let gang = u64::from(program.items[job].gpus);
        if gang <= free && program.items[job].rounds_max > 0 {
            free -= gang;
            schedule.set(job, 0);
        }
    }
    let mut rest = Program { rounds: program.rounds - 1, values: vec![], ..program.clone() };
    let mut left = Vec::with_capacity(counts.len());
    for (job, item) in rest.items.iter_mut().enumerate() {
        item.running = schedule.runs(job, 0);
        left.push(counts[job].saturating_sub(usize::from(item.running)).min(rest.rounds));
    }
    let packed = pack(&rest, &left);
    for job in 0..counts.len() {
        for round in packed.rounds_of(job) {
            schedule.set(job, round + 1);
        }
    }
    let mut counts = schedule.counts();
    fill::fill(program, &Sides::default(), &mut schedule, &mut counts);
    schedule
}
