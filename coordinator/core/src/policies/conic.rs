//! Small conic programs over shares, solved to a central point of their optimal set.
//!
//! The optima of the baselines' programs are not unique, and which optimum is returned decides who
//! gets the surplus. The published results come from interior point solvers, which end in the middle
//! of the optimal set; a vertex (simplex) would give other schedules. So an interior point solver it
//! is, and the programs are laid out as the published ones are.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

use crate::types::{ClusterView, Decision};

/// `minimise cost x` subject to rows of `expression <= bound` and second-order cones.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    cost: Vec<f64>,
    /// `(row, variable, coefficient)` of A in `A x + s = b`.
    entries: Vec<(usize, usize, f64)>,
    bounds: Vec<f64>,
    cones: Vec<SupportedConeT<f64>>,
}

/// A linear expression: `(variable, coefficient)`.
pub(super) type Terms<'a> = &'a [(usize, f64)];

impl Program {
    /// Adds a variable.
    pub(super) fn variable(&mut self, cost: f64) -> usize {
        self.cost.push(cost);
        self.cost.len() - 1
    }

    /// Sets a variable's cost.
    pub(super) fn set_cost(&mut self, variable: usize, cost: f64) {
        self.cost[variable] = cost;
    }

    /// Requires `terms <= bound`.
    pub(super) fn at_most(&mut self, terms: Terms<'_>, bound: f64) {
        self.row(terms, bound);
        match self.cones.last_mut() {
            Some(SupportedConeT::NonnegativeConeT(rows)) => *rows += 1,
            _ => self.cones.push(SupportedConeT::NonnegativeConeT(1)),
        }
    }

    /// Requires `a * b >= 1` with both above 0, each an expression.
    pub(super) fn product_at_least_one(&mut self, a: Terms<'_>, b: Terms<'_>) {
        // a b >= 1  <=>  |(a - b, 2)| <= a + b
        let negated = |terms: Terms<'_>, sign: f64| -> Vec<(usize, f64)> {
            terms.iter().map(|(variable, factor)| (*variable, sign * factor)).collect()
        };
        self.row(&[negated(a, -1.0), negated(b, -1.0)].concat(), 0.0);
        self.row(&[negated(a, -1.0), negated(b, 1.0)].concat(), 0.0);
        self.row(&[], 2.0);
        self.cones.push(SupportedConeT::SecondOrderConeT(3));
    }

    fn row(&mut self, terms: Terms<'_>, bound: f64) {
        let row = self.bounds.len();
        self.entries.extend(terms.iter().map(|(variable, factor)| (row, *variable, *factor)));
        self.bounds.push(bound);
    }

    /// Solves it; `None` when there is no optimum.
    pub(super) fn solve(self) -> Option<Vec<f64>> {
        let (rows, columns) = (self.bounds.len(), self.cost.len());
        let (mut i, mut j, mut v) = (Vec::new(), Vec::new(), Vec::new());
        for (row, column, value) in self.entries {
            i.push(row);
            j.push(column);
            v.push(value);
        }
        let matrix = CscMatrix::new_from_triplets(rows, columns, i, j, v);
        let quadratic = CscMatrix::zeros((columns, columns));
        let settings = DefaultSettings { verbose: false, ..DefaultSettings::default() };
        let mut solver = DefaultSolver::new(
            &quadratic,
            &self.cost,
            &matrix,
            &self.bounds,
            &self.cones,
            settings,
        )
        .ok()?;
        solver.solve();
        let solved =
            matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved);
        solved.then(|| solver.solution.x.clone())
    }
}

/// Adds one share per gang: between 0 and 1, and together within the cluster.
pub(super) fn shares(program: &mut Program, gangs: &[f64], gpus: f64) -> Vec<usize> {
    let shares: Vec<usize> = gangs.iter().map(|_| program.variable(0.0)).collect();
    for &share in &shares {
        program.at_most(&[(share, -1.0)], 0.0);
    }
    let used: Vec<(usize, f64)> = shares.iter().copied().zip(gangs.iter().copied()).collect();
    program.at_most(&used, gpus);
    for &share in &shares {
        program.at_most(&[(share, 1.0)], 1.0);
    }
    shares
}

/// Shares as a decision; without a solution, equal shares of the cluster.
pub(super) fn decide(view: &ClusterView, solution: Option<Vec<f64>>, shares: &[usize]) -> Decision {
    let equal = (f64::from(view.gpus) / view.jobs.len().max(1) as f64).min(1.0);
    let share = |place: usize| match &solution {
        Some(values) => values[shares[place]].clamp(0.0, 1.0),
        None => equal / f64::from(view.jobs[place].gpus),
    };
    Decision::Shares(view.jobs.iter().enumerate().map(|(i, job)| (job.id, share(i))).collect())
}
