//! Branch and bound over the makespan: bounds, a rounding and, where a gap is left, core searches.
//!
//! On a branch with the longest remaining job between `a` and `b` seconds, for theta 0 or 1,
//! `max(S, longest) >= theta S + (1 - theta) a`: the linear relaxation under `R_j(n_j) <= b`, with
//! S priced at `theta mu`, is an upper bound there.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::Program;
use super::core_search::core_search;
use super::hull::Hulls;
use super::relax::{Relaxed, relax};

/// How hard to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Relative gap that is good enough.
    pub gap: f64,
    /// Most branches of the makespan.
    pub branches: usize,
    /// Most cell updates of all core searches.
    pub core_work: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { gap: 1e-6, branches: 200, core_work: 20_000_000 }
    }
}

/// The best round counts found, before they are packed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) rounds: Vec<usize>,
    /// Objective of `rounds`.
    pub(super) objective: f64,
    /// No plan has a higher objective.
    pub(super) bound: f64,
    /// Price of a GPU round in the relaxation that gave `rounds`.
    pub(super) price: f64,
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    bound: f64,
    from_s: f64,
    to_s: f64,
    sharpened: bool,
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Branch {}
impl PartialOrd for Branch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Branch {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.total_cmp(&other.bound).then(other.from_s.total_cmp(&self.from_s))
    }
}

struct Search<'a> {
    program: &'a Program,
    hulls: [Option<Hulls>; 2],
    memo: HashMap<(u64, usize), Option<Relaxed>>,
    best: Counts,
}

/// Finds round counts; `stop` is asked between steps and ends the search with the best so far.
pub(super) fn search(program: &Program, effort: &Effort, stop: &dyn Fn() -> bool) -> Counts {
    let none = vec![0; program.items.len()];
    let best = Counts {
        objective: program.objective(&none),
        bound: f64::INFINITY,
        price: 0.0,
        rounds: none,
    };
    let mut search = Search { program, hulls: [None, None], memo: HashMap::new(), best };
    let mut open = BinaryHeap::new();
    let (least, most) = search.makespan_range();
    open.extend(search.branch(least, most));
    let mut closed = search.split(&mut open, effort, stop);
    closed.append(&mut open.into_vec());
    search.sharpen(closed, effort, stop)
}

impl Search<'_> {
    /// The least and the greatest that the longest remaining job can be left with, seconds.
    fn makespan_range(&self) -> (f64, f64) {
        let mut least = 0.0_f64;
        let mut most = 0.0_f64;
        for (job, item) in self.program.items.iter().enumerate() {
            least = least.max(self.program.left_s(job, item.rounds_max));
            most = most.max(item.left_s);
        }
        if self.program.makespan_price > 0.0 { (least, most) } else { (most, most) }
    }

    /// Relaxes with share `theta` (0 or 1) at `h_s`, once.
    fn relaxed(&mut self, h_s: f64, theta: usize) -> Option<&Relaxed> {
        let program = self.program;
        let hulls = &mut self.hulls[theta];
        self.memo
            .entry((h_s.to_bits(), theta))
            .or_insert_with(|| {
                let price = theta as f64 * program.makespan_price / f64::from(program.gpus.max(1));
                let hulls = hulls.get_or_insert_with(|| Hulls::build(program, price));
                relax(program, hulls, h_s)
            })
            .as_ref()
    }

    fn thetas(&self) -> &'static [usize] {
        if self.program.makespan_price > 0.0 { &[1, 0] } else { &[0] }
    }

    /// What the part of the makespan that the relaxation does not count costs at least.
    fn offset(&self, theta: usize, from_s: f64) -> f64 {
        self.program.makespan_price * (1 - theta) as f64 * from_s
    }

    /// Bounds one branch and rounds its relaxations; `None` when nothing fits.
    fn branch(&mut self, from_s: f64, to_s: f64) -> Option<Branch> {
        let mut bound = f64::INFINITY;
        for &theta in self.thetas() {
            let offset = self.offset(theta, from_s);
            let relaxed = self.relaxed(to_s, theta)?.clone();
            bound = bound.min(relaxed.bound - offset);
            let objective = self.program.objective(&relaxed.rounds);
            self.offer(objective, relaxed.rounds, relaxed.price);
        }
        Some(Branch { bound, from_s, to_s, sharpened: false })
    }

    fn offer(&mut self, objective: f64, rounds: Vec<usize>, price: f64) {
        if objective > self.best.objective
            || self.best.price == 0.0 && objective >= self.best.objective
        {
            self.best = Counts { rounds, objective, bound: self.best.bound, price };
        }
    }

    fn good_enough(&self, bound: f64, effort: &Effort) -> bool {
        bound - self.best.objective <= effort.gap * bound.abs()
    }

    /// Halves the branch of the highest bound until its width no longer matters. Returns the
    /// branches that are too narrow to split.
    fn split(
        &mut self,
        open: &mut BinaryHeap<Branch>,
        effort: &Effort,
        stop: &dyn Fn() -> bool,
    ) -> Vec<Branch> {
        let mut narrow = Vec::new();
        let mut branches = 0;
        while let Some(top) = open.pop() {
            if self.good_enough(top.bound, effort) || branches >= effort.branches || stop() {
                open.push(top);
                break;
            }
            let worth = (top.to_s - top.from_s) * self.program.makespan_price;
            if worth <= 0.5 * effort.gap * top.bound.abs() || top.to_s - top.from_s <= 0.5 {
                narrow.push(top);
                continue;
            }
            let middle = 0.5 * (top.from_s + top.to_s);
            branches += 2;
            let halves = [self.branch(top.from_s, middle), self.branch(middle, top.to_s)];
            for mut half in halves.into_iter().flatten() {
                half.bound = half.bound.min(top.bound);
                open.push(half);
            }
        }
        narrow
    }

    /// Core searches on the branches of the highest bounds; then the bound over all of them.
    fn sharpen(
        mut self,
        branches: Vec<Branch>,
        effort: &Effort,
        stop: &dyn Fn() -> bool,
    ) -> Counts {
        let mut open = BinaryHeap::from(branches);
        let mut work_left = effort.core_work;
        while let Some(mut top) = open.pop() {
            if top.sharpened || self.good_enough(top.bound, effort) || work_left == 0 || stop() {
                open.push(top);
                break;
            }
            work_left = work_left.saturating_sub(self.sharpen_branch(&mut top, effort));
            top.sharpened = true;
            open.push(top);
        }
        // A branch below the incumbent holds nothing better than the incumbent.
        let bound = open.peek().map_or(f64::NEG_INFINITY, |top| top.bound);
        self.best.bound = bound.max(self.best.objective);
        self.best
    }

    /// Core searches of one branch, at most twice for each theta; returns what they may have cost.
    fn sharpen_branch(&mut self, branch: &mut Branch, effort: &Effort) -> u64 {
        let per_search = effort.core_work / 8;
        let mut spent = 0;
        for &theta in self.thetas() {
            for _ in 0..2 {
                let Some(mut relaxed) = self.relaxed(branch.to_s, theta).cloned() else { break };
                let offset = self.offset(theta, branch.from_s);
                let work_price = self.hulls[theta].as_ref().map_or(0.0, |h| h.work_price);
                let before = self.best.objective;
                if within(&relaxed.lo, &self.best.rounds) {
                    relaxed.rounds.clone_from(&self.best.rounds);
                }
                let found =
                    core_search(self.program, &relaxed, work_price, before + offset, per_search);
                spent += found.work;
                if let Some(bound) = found.bound {
                    branch.bound = branch.bound.min((bound - offset).max(before));
                }
                let objective = self.program.objective(&found.rounds);
                self.offer(objective, found.rounds, relaxed.price);
                if found.bound.is_some() || self.best.objective <= before {
                    break;
                }
            }
            if self.good_enough(branch.bound, effort) {
                break;
            }
        }
        spent
    }
}

fn within(lo: &[usize], rounds: &[usize]) -> bool {
    lo.iter().zip(rounds).all(|(lo, n)| lo <= n)
}
