//! Upper concave hulls of the value tables: what relaxing n_j to a fraction can reach.

use super::Program;

/// An edge of a job's hull: going from `from` to `to` rounds gains `slope` per GPU round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) slope: f64,
}

/// A job's value when a second of left-over work costs `work_price` on each of its GPUs.
pub(super) fn priced_value(program: &Program, job: usize, n: usize, work_price: f64) -> f64 {
    let gpus = f64::from(program.items[job].gpus);
    program.value(job)[n] - work_price * gpus * program.work_s(job, n)
}

/// Appends the hull's edges of positive slope on `lo..=rounds_max`, steepest first, to `edges`.
/// `scratch` is overwritten: hull corners as (rounds, value).
pub(super) fn append_edges(
    program: &Program,
    job: usize,
    lo: usize,
    work_price: f64,
    scratch: &mut Vec<(usize, f64)>,
    edges: &mut Vec<Edge>,
) {
    scratch.clear();
    for n in lo..=program.items[job].rounds_max {
        let value = priced_value(program, job, n, work_price);
        while let [.., (n0, v0), (n1, v1)] = scratch[..] {
            let below = (v1 - v0) * (n - n1) as f64 <= (value - v1) * (n1 - n0) as f64;
            if !below {
                break;
            }
            scratch.pop();
        }
        scratch.push((n, value));
    }
    let gpus = f64::from(program.items[job].gpus);
    for pair in scratch.windows(2) {
        let slope = (pair[1].1 - pair[0].1) / (gpus * (pair[1].0 - pair[0].0) as f64);
        if slope <= 0.0 {
            break;
        }
        edges.push(Edge { from: pair[0].0 as u16, to: pair[1].0 as u16, slope });
    }
}

/// The hulls of all jobs from 0 rounds on, built once for each price of left-over work.
#[derive(Debug, Default)]
pub(super) struct Hulls {
    pub(super) work_price: f64,
    /// Edges of job j: `edges[starts[j]..starts[j + 1]]`.
    pub(super) starts: Vec<usize>,
    pub(super) edges: Vec<Edge>,
}

impl Hulls {
    pub(super) fn build(program: &Program, work_price: f64) -> Self {
        let jobs = program.items.len();
        let mut hulls = Self { work_price, starts: Vec::with_capacity(jobs + 1), edges: vec![] };
        let mut scratch = Vec::new();
        hulls.starts.push(0);
        for job in 0..jobs {
            append_edges(program, job, 0, work_price, &mut scratch, &mut hulls.edges);
            hulls.starts.push(hulls.edges.len());
        }
        hulls
    }

    pub(super) fn of(&self, job: usize) -> &[Edge] {
        &self.edges[self.starts[job]..self.starts[job + 1]]
    }
}

/// Hulls that begin at each job's floor: jobs without one share `base`.
#[derive(Debug)]
pub(super) struct Floored<'a> {
    base: &'a Hulls,
    own: Hulls,
}

impl<'a> Floored<'a> {
    /// Hulls from `lo[j]` rounds on.
    pub(super) fn new(program: &Program, base: &'a Hulls, lo: &[usize]) -> Self {
        let mut own = Hulls { work_price: base.work_price, ..Hulls::default() };
        let mut scratch = Vec::new();
        own.starts.reserve(lo.len() + 1);
        own.starts.push(0);
        for (job, &floor) in lo.iter().enumerate() {
            if floor > 0 {
                let price = base.work_price;
                append_edges(program, job, floor, price, &mut scratch, &mut own.edges);
            }
            own.starts.push(own.edges.len());
        }
        Self { base, own }
    }

    /// Edges of one job whose floor is `floor`.
    pub(super) fn of(&self, job: usize, floor: usize) -> &[Edge] {
        if floor == 0 { self.base.of(job) } else { self.own.of(job) }
    }
}
