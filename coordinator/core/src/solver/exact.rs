//! The exact path: jobs by rounds as a mixed-integer program, solved by HiGHS.
//!
//! For what the aggregated solver leaves open: gang sizes that are no divisibility chain, clusters
//! of a few GPUs, side constraints, a gap that is left while time remains. Binaries grow with
//! N x T, so it is for small windows only.

use highs::{Col, HighsModelStatus, RowProblem, Sense};

use super::{Program, Schedule, Sides};

/// Most binaries that the exact path takes on.
pub const BINARIES_MAX: usize = 60_000;

/// Why there is no exact plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExactError {
    /// Nothing satisfies the side constraints.
    #[error("no plan satisfies the side constraints (forbidden and pinned rounds, restarts)")]
    Infeasible,
    /// The window is too large for this path.
    #[error("{binaries} binaries, at most {BINARIES_MAX} are solved exactly: fewer jobs or rounds")]
    TooLarge {
        /// Jobs by rounds, plus jobs by counts.
        binaries: usize,
    },
    /// The time ran out before there was any plan.
    #[error("no plan was found within the time limit")]
    OutOfTime,
    /// HiGHS failed.
    #[error("HiGHS: {0}")]
    Solver(String),
}

/// What HiGHS found.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactPlan {
    /// Who runs when.
    pub schedule: Schedule,
    /// No plan under the side constraints has a higher objective.
    pub upper_bound: f64,
}

struct Columns {
    /// `runs[j][t]`: X\[j,t\].
    runs: Vec<Vec<Col>>,
    /// `counts[j][n]`: job j gets n rounds.
    counts: Vec<Vec<Col>>,
    makespan: Col,
    starts: Vec<Vec<Col>>,
}

/// Solves `program` under `sides` within `time_s` seconds, from `warm` if given.
///
/// # Errors
/// [`ExactError`] when nothing satisfies the constraints or none was found in time.
pub fn solve_exact(
    program: &Program,
    sides: &Sides,
    warm: Option<&Schedule>,
    time_s: f64,
) -> Result<ExactPlan, ExactError> {
    if sides.pinned.iter().any(|cell| sides.forbidden.contains(cell)) {
        return Err(ExactError::Infeasible);
    }
    let widths = program.items.iter().map(|item| program.rounds + item.rounds_max + 1);
    let binaries = widths.sum();
    if binaries > BINARIES_MAX {
        return Err(ExactError::TooLarge { binaries });
    }
    let scale = scale(program);
    let (problem, columns) = build(program, sides, scale);
    let width = problem.num_cols();
    let failed = |what: &str| ExactError::Solver(what.to_owned());
    let mut model = problem.try_optimise(Sense::Maximise).map_err(|_| failed("bad model"))?;
    model.make_quiet();
    let options = [("time_limit", time_s.max(0.01)), ("mip_rel_gap", 1e-9), ("mip_abs_gap", 1e-9)];
    for (option, value) in options {
        model.try_set_option(option, value).map_err(|_| failed(option))?;
    }
    model.try_set_option("threads", 1).map_err(|_| failed("threads"))?;
    if let Some(schedule) = warm {
        let start = start_values(program, &columns, schedule, width);
        model.try_set_solution(Some(&start), None, None, None).map_err(|_| failed("start"))?;
    }
    let solved = model.try_solve().map_err(|status| failed(&format!("{status:?}")))?;
    match solved.status() {
        HighsModelStatus::Infeasible | HighsModelStatus::UnboundedOrInfeasible => {
            return Err(ExactError::Infeasible);
        }
        HighsModelStatus::Optimal | HighsModelStatus::ReachedTimeLimit => {}
        other => return Err(failed(&format!("{other:?}"))),
    }
    let bound = solved.double_info_value(c"mip_dual_bound").map_err(|_| failed("no bound"))?;
    let values = solved.get_solution();
    let mut schedule = Schedule::empty(program.items.len(), program.rounds);
    for (job, row) in columns.runs.iter().enumerate() {
        for (round, col) in row.iter().enumerate() {
            if values.columns().get(col.index()).is_some_and(|value| *value > 0.5) {
                schedule.set(job, round);
            }
        }
    }
    let loads = schedule.loads(program);
    if !sides.hold(program, &schedule)
        || loads.iter().any(|&load| load > u64::from(program.gpus))
        || !solved.objective_value().is_finite()
    {
        return Err(ExactError::OutOfTime);
    }
    let none = program.welfare(&vec![0; program.items.len()]);
    Ok(ExactPlan { schedule, upper_bound: none + bound / scale })
}

/// Brings gains to the thousands: HiGHS's tolerances are absolute.
fn scale(program: &Program) -> f64 {
    let gain = (0..program.items.len())
        .map(|job| {
            let values = program.value(job);
            values[program.items[job].rounds_max] - values[0]
        })
        .fold(0.0, f64::max);
    if gain > 0.0 { 1e3 / gain } else { 1.0 }
}

fn build(program: &Program, sides: &Sides, scale: f64) -> (RowProblem, Columns) {
    let mut problem = RowProblem::new();
    let jobs = program.items.len();
    let makespan = problem.add_column(-scale * program.makespan_price, 0.0..);
    let mut columns = Columns { runs: vec![], counts: vec![], makespan, starts: vec![] };
    for job in 0..jobs {
        let values = program.value(job);
        let most = program.items[job].rounds_max;
        let runs: Vec<Col> = (0..program.rounds)
            .map(|round| {
                let low = u8::from(sides.pinned.contains(&(job, round)));
                let high = u8::from(!sides.forbidden.contains(&(job, round)));
                problem.add_integer_column(0.0, low..=high.max(low))
            })
            .collect();
        let counts: Vec<Col> = (0..=most)
            .map(|n| problem.add_integer_column(scale * (values[n] - values[0]), 0..=1))
            .collect();
        problem.add_row(1..=1, counts.iter().map(|&count| (count, 1.0)));
        let total = runs.iter().map(|&run| (run, 1.0));
        let chosen = counts.iter().enumerate().map(|(n, &count)| (count, -(n as f64)));
        problem.add_row(0..=0, total.chain(chosen).collect::<Vec<_>>());
        columns.runs.push(runs);
        columns.counts.push(counts);
    }
    add_capacity(program, &mut problem, &columns);
    add_makespan(program, &mut problem, &columns);
    if let Some(most) = sides.starts_max {
        add_starts(program, &mut problem, &mut columns, most);
    }
    (problem, columns)
}

fn add_capacity(program: &Program, problem: &mut RowProblem, columns: &Columns) {
    for round in 0..program.rounds {
        let load: Vec<(Col, f64)> = columns
            .runs
            .iter()
            .zip(&program.items)
            .map(|(runs, item)| (runs[round], f64::from(item.gpus)))
            .collect();
        problem.add_row(..=f64::from(program.gpus), load);
    }
}

/// `H >= sum_j g_j R_j(n_j) / M` and, for every job, `H >= R_j(n_j)` (eq. 10), in rounds.
fn add_makespan(program: &Program, problem: &mut RowProblem, columns: &Columns) {
    if program.makespan_price <= 0.0 {
        return;
    }
    let unit = 1.0 / program.round_s;
    let mut work = vec![(columns.makespan, f64::from(program.gpus) * unit)];
    for (job, counts) in columns.counts.iter().enumerate() {
        let gpus = f64::from(program.items[job].gpus);
        let mut longest = vec![(columns.makespan, unit)];
        for (n, &count) in counts.iter().enumerate() {
            work.push((count, -gpus * unit * program.work_s(job, n)));
            longest.push((count, -unit * program.left_s(job, n)));
        }
        problem.add_row(0.0.., longest);
    }
    problem.add_row(0.0.., work);
}

/// `start >= run - run before`, and at most `most` starts.
fn add_starts(program: &Program, problem: &mut RowProblem, columns: &mut Columns, most: usize) {
    for (job, runs) in columns.runs.iter().enumerate() {
        let mut starts = Vec::with_capacity(runs.len());
        for (round, &run) in runs.iter().enumerate() {
            let start = problem.add_column(0.0, 0.0..=1.0);
            let held = round == 0 && program.items[job].running;
            let before = (round > 0).then(|| (runs[round - 1], -1.0));
            let row = [(run, 1.0), (start, -1.0)].into_iter().chain(before);
            problem.add_row(..=f64::from(u8::from(held)), row.collect::<Vec<_>>());
            starts.push(start);
        }
        columns.starts.push(starts);
    }
    let all: Vec<(Col, f64)> = columns.starts.iter().flatten().map(|&start| (start, 1.0)).collect();
    problem.add_row(..=most as f64, all);
}

fn start_values(
    program: &Program,
    columns: &Columns,
    schedule: &Schedule,
    width: usize,
) -> Vec<f64> {
    let mut values = vec![0.0; width];
    let counts = schedule.counts();
    values[columns.makespan.index()] = program.makespan_s(&counts);
    for (job, runs) in columns.runs.iter().enumerate() {
        for (round, col) in runs.iter().enumerate() {
            values[col.index()] = f64::from(u8::from(schedule.runs(job, round)));
        }
        if let Some(count) = columns.counts[job].get(counts[job]) {
            values[count.index()] = 1.0;
        }
    }
    for (job, starts) in columns.starts.iter().enumerate() {
        let mut holds = program.items[job].running;
        for (round, col) in starts.iter().enumerate() {
            let runs = schedule.runs(job, round);
            values[col.index()] = f64::from(u8::from(runs && !holds));
            holds = runs;
        }
    }
    values
}
