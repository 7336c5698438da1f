//! What a plan is worth and how far it can be from the best, recomputed from its schedule alone.

use serde::Serialize;

use super::fill::may_run;
use super::{Program, Schedule, Sides};

/// A plan's figures. Only `upper_bound` is taken from the search; everything else follows from
/// the schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// The program's objective.
    pub objective: f64,
    /// No plan has a higher objective.
    pub upper_bound: f64,
    /// `(upper_bound - objective) / |upper_bound|`.
    pub gap: f64,
    /// H of eq. 10 after the window, seconds.
    pub makespan_s: f64,
    /// GPUs in use, per round.
    pub load: Vec<u64>,
    /// How often a job starts or restarts in the window.
    pub restarts: usize,
    /// No packing of the same round counts starts jobs less often.
    pub restarts_bound: usize,
    /// GPU rounds that lie idle although a job with work left fits: 0 in a work-conserving plan.
    pub rounds_lost: u64,
}

impl Certificate {
    /// Recomputes all figures of `schedule`.
    #[must_use]
    pub fn of(program: &Program, sides: &Sides, schedule: &Schedule, upper_bound: f64) -> Self {
        let counts = schedule.counts();
        let objective = program.objective(&counts);
        // The two are sums of the same numbers in different orders.
        let rounding = 1e-12 * objective.abs();
        let upper_bound = if upper_bound < objective + rounding { objective } else { upper_bound };
        let load = schedule.loads(program);
        Self {
            objective,
            upper_bound,
            gap: (upper_bound - objective) / upper_bound.abs().max(f64::MIN_POSITIVE),
            makespan_s: program.makespan_s(&counts),
            restarts: schedule.starts(program),
            restarts_bound: restarts_bound(program, &counts),
            rounds_lost: rounds_lost(program, sides, schedule, &load),
            load,
        }
    }
}

/// Scheduled jobs less the running ones that can go on: those share round 0 with the jobs that
/// need every round.
fn restarts_bound(program: &Program, counts: &[usize]) -> usize {
    let mut free = u64::from(program.gpus);
    let mut kept = 0;
    let mut gangs = Vec::new();
    for (item, &n) in program.items.iter().zip(counts) {
        if n > 0 && n == program.rounds {
            free = free.saturating_sub(u64::from(item.gpus));
            kept += usize::from(item.running);
        } else if n > 0 && item.running {
            gangs.push(u64::from(item.gpus));
        }
    }
    gangs.sort_unstable();
    for gang in gangs {
        if gang > free {
            break;
        }
        free -= gang;
        kept += 1;
    }
    counts.iter().filter(|&&n| n > 0).count() - kept
}

fn rounds_lost(program: &Program, sides: &Sides, schedule: &Schedule, load: &[u64]) -> u64 {
    let counts = schedule.counts();
    let mut lost = 0;
    for (round, &load) in load.iter().enumerate() {
        let mut idle = u64::from(program.gpus).saturating_sub(load);
        for (job, item) in program.items.iter().enumerate() {
            let gang = u64::from(item.gpus);
            if idle == 0 {
                break;
            }
            if gang <= idle
                && counts[job] < item.rounds_max
                && may_run(program, sides, schedule, job, round)
            {
                idle -= gang;
                lost += gang;
            }
        }
    }
    lost
}
