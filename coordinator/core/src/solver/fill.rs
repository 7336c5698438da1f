//! Work conservation: idle GPUs go to whoever can still use them.

use super::{Program, Schedule, Sides};

/// Gives idle GPUs, round by round, to the jobs that gain most per GPU; between equals, to jobs
/// that run in a neighbouring round and need no start. `counts` follow the schedule.
pub(super) fn fill(
    program: &Program,
    sides: &Sides,
    schedule: &mut Schedule,
    counts: &mut [usize],
) {
    let mut idle: Vec<u64> =
        schedule.loads(program).iter().map(|load| u64::from(program.gpus) - load).collect();
    let least_gang = program
        .items
        .iter()
        .zip(counts.iter())
        .filter(|(item, n)| **n < item.rounds_max)
        .map(|(item, _)| u64::from(item.gpus))
        .min();
    let Some(least_gang) = least_gang else { return };
    for (round, idle) in idle.iter_mut().enumerate() {
        if *idle < least_gang {
            continue;
        }
        let mut candidates: Vec<(f64, bool, usize)> = (0..counts.len())
            .filter(|&job| {
                counts[job] < program.items[job].rounds_max
                    && u64::from(program.items[job].gpus) <= *idle
                    && may_run(program, sides, schedule, job, round)
            })
            .map(|job| {
                (gain(program, job, counts[job]), adjoins(program, schedule, job, round), job)
            })
            .collect();
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        for (_, _, job) in candidates {
            let gang = u64::from(program.items[job].gpus);
            if gang <= *idle {
                *idle -= gang;
                schedule.set(job, round);
                counts[job] += 1;
            }
        }
    }
}

/// Best average gain per GPU round of going on from `n` rounds.
pub(super) fn gain(program: &Program, job: usize, n: usize) -> f64 {
    let item = &program.items[job];
    let values = program.value(job);
    let welfare = (n + 1..=item.rounds_max)
        .map(|more| (values[more] - values[n]) / (more - n) as f64)
        .fold(0.0, f64::max);
    let work = program.work_s(job, n) - program.work_s(job, n + 1);
    welfare / f64::from(item.gpus) + program.makespan_price * work / f64::from(program.gpus.max(1))
}

/// Whether an idle gang of round `round` may go to `job` as far as the job and the side constraints
/// are concerned.
pub(super) fn may_run(
    program: &Program,
    sides: &Sides,
    schedule: &Schedule,
    job: usize,
    round: usize,
) -> bool {
    !schedule.runs(job, round)
        && !sides.forbidden.contains(&(job, round))
        && (sides.starts_max.is_none() || adjoins(program, schedule, job, round))
}

fn adjoins(program: &Program, schedule: &Schedule, job: usize, round: usize) -> bool {
    let before =
        if round == 0 { program.items[job].running } else { schedule.runs(job, round - 1) };
    before || round + 1 < schedule.rounds() && schedule.runs(job, round + 1)
}
