//! Who runs first among those who run: the order of the window's next round.
//!
//! What a job gains depends on how many rounds of the window it gets, not on which: the objective
//! leaves the order within the window open. It is settled by what the window does not show: fair
//! deadlines and the makespan come due after it, and of two jobs with rounds the one that soon
//! gives its GPUs back delays the others least (Smith's rule).

use super::{Program, Schedule, Sides, fill};

/// What goes first in the window's next round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precedence {
    /// A job that can wait for fewer rounds than this before its fair deadline is lost goes first,
    /// the one with the least slack before all.
    pub promise_rounds: f64,
    /// Then jobs that could wait for fewer rounds than this before they outlast everything else:
    /// they bound the makespan and keep their lanes.
    pub lane_rounds: f64,
    /// How much shorter a running job counts as when compared by what it has left: a start costs
    /// time.
    pub stay: f64,
}

impl Default for Precedence {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Precedence {
    /// What serves every workload (`docs/decisions/0011-order-within-the-window.md`).
    pub const DEFAULT: Self = Self { promise_rounds: 8.0, lane_rounds: 8.0, stay: 1.3 };

    /// A job's class (smaller is earlier) and its place within it.
    fn rank(&self, program: &Program, rounds: usize, job: usize, makespan_s: f64) -> (u8, f64) {
        let item = &program.items[job];
        let laxity_s = makespan_s - item.left_s;
        if item.slack_s < self.promise_rounds * program.round_s {
            return (0, item.slack_s);
        }
        if laxity_s < self.lane_rounds * program.round_s {
            return (1, laxity_s);
        }
        let stay = if item.running { self.stay } else { 1.0 };
        let gpu_s = item.work_s * f64::from(item.gpus) / (stay * item.weight);
        (if rounds > 0 { 2 } else { 3 }, gpu_s)
    }

    /// Jobs in order: promises at risk, lanes of the makespan, those to whom `counts` gives
    /// rounds, then the rest.
    pub(super) fn order(&self, program: &Program, counts: &[usize]) -> Vec<usize> {
        let makespan_s = program.makespan_s(&vec![0; counts.len()]);
        let mut ranked: Vec<((u8, f64), usize)> = (0..counts.len())
            .map(|job| (self.rank(program, counts[job], job, makespan_s), job))
            .collect();
        ranked.sort_by(|(a, i), (b, j)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(i.cmp(j)));
        ranked.into_iter().map(|(_, job)| job).collect()
    }
}

/// A schedule whose first round is filled in `order`. Its other rounds hold what is left of
/// `counts`: in `order` as well when that leaves none out, otherwise with few restarts.
pub(super) fn schedule_in_order(
    program: &Program,
    counts: &[usize],
    order: &[usize],
    pack: impl Fn(&Program, &[usize]) -> Schedule,
) -> Schedule {
    let mut schedule = Schedule::empty(counts.len(), program.rounds);
    fill_round(program, order, &mut schedule, 0, |job| program.items[job].rounds_max > 0);
    let mut left: Vec<usize> = (0..counts.len())
        .map(|job| counts[job].saturating_sub(usize::from(schedule.runs(job, 0))))
        .collect();
    let mut in_turn = schedule.clone();
    let mut waiting = left.clone();
    for round in 1..program.rounds {
        let filled = |job: usize| waiting[job] > 0;
        for job in fill_round(program, order, &mut in_turn, round, filled) {
            waiting[job] -= 1;
        }
    }
    if waiting.iter().all(|&rounds| rounds == 0) {
        schedule = in_turn;
    } else {
        let mut rest = Program { rounds: program.rounds - 1, values: vec![], ..program.clone() };
        for (job, item) in rest.items.iter_mut().enumerate() {
            item.running = schedule.runs(job, 0);
            left[job] = left[job].min(rest.rounds);
        }
        let packed = pack(&rest, &left);
        for job in 0..counts.len() {
            for round in packed.rounds_of(job) {
                schedule.set(job, round + 1);
            }
        }
    }
    let mut counts = schedule.counts();
    fill::fill(program, &Sides::default(), &mut schedule, &mut counts);
    schedule
}

/// Fills one round with those that are wanted, in `order`, as far as their gangs fit; who they are.
fn fill_round(
    program: &Program,
    order: &[usize],
    schedule: &mut Schedule,
    round: usize,
    wanted: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut free = u64::from(program.gpus);
    let mut filled = Vec::new();
    for &job in order {
        let gang = u64::from(program.items[job].gpus);
        if gang <= free && wanted(job) {
            free -= gang;
            schedule.set(job, round);
            filled.push(job);
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::super::testing::program_of;
    use super::*;

    const RULE: Precedence = Precedence { promise_rounds: 3.0, lane_rounds: 2.0, stay: 2.0 };

    /// Jobs of one GPU with this slack and this time left, seconds; rounds of 120 s.
    fn program(jobs: &[(f64, f64)]) -> Program {
        let mut program = program_of(4, 10, &vec![1; jobs.len()]);
        for (item, &(slack_s, left_s)) in program.items.iter_mut().zip(jobs) {
            (item.slack_s, item.left_s, item.work_s) = (slack_s, left_s, left_s);
        }
        program
    }

    #[test]
    fn promises_come_before_lanes_and_lanes_before_the_rest() {
        let program =
            program(&[(1e5, 600.0), (1e5, 9000.0), (359.0, 8000.0), (-50.0, 700.0), (1e5, 8800.0)]);
        assert_eq!(RULE.order(&program, &[1, 1, 1, 1, 1]), [3, 2, 1, 4, 0]);
    }

    #[test]
    fn jobs_with_rounds_come_by_gpu_time_and_before_those_without() {
        let mut program = program(&[(1e5, 1200.0), (1e5, 900.0), (1e5, 100.0), (1e5, 9000.0)]);
        program.items[1].gpus = 2;
        assert_eq!(RULE.order(&program, &[1, 1, 0, 1]), [3, 0, 1, 2]);
        program.items[1].running = true;
        assert_eq!(RULE.order(&program, &[1, 1, 0, 1]), [3, 1, 0, 2]);
        program.items[0].weight = 4.0;
        assert_eq!(RULE.order(&program, &[1, 1, 0, 1]), [3, 0, 1, 2]);
    }
}
