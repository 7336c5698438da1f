//! Who runs in which round: X\[j,t\] of eq. 2.

use super::Program;

/// A binary matrix of jobs by rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    width: usize,
    cells: Vec<bool>,
}

impl Schedule {
    /// Nobody runs.
    #[must_use]
    pub fn empty(jobs: usize, rounds: usize) -> Self {
        Self { width: rounds, cells: vec![false; jobs * rounds] }
    }

    /// Rounds in the window.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.width
    }

    /// A job's row, one entry per round.
    #[must_use]
    pub fn row(&self, job: usize) -> &[bool] {
        &self.cells[job * self.width..(job + 1) * self.width]
    }

    /// Whether a job runs in a round.
    #[must_use]
    pub fn runs(&self, job: usize, round: usize) -> bool {
        self.cells[job * self.width + round]
    }

    /// Lets a job run in a round.
    pub fn set(&mut self, job: usize, round: usize) {
        self.cells[job * self.width + round] = true;
    }

    /// Number of rounds of a job, n_j.
    #[must_use]
    pub fn count(&self, job: usize) -> usize {
        self.row(job).iter().filter(|&&runs| runs).count()
    }

    /// Number of rounds of every job.
    #[must_use]
    pub fn counts(&self) -> Vec<usize> {
        let jobs = self.cells.len().checked_div(self.width).unwrap_or(0);
        (0..jobs).map(|job| self.count(job)).collect()
    }

    /// The rounds of a job, ascending.
    pub fn rounds_of(&self, job: usize) -> impl Iterator<Item = usize> + '_ {
        self.row(job).iter().enumerate().filter(|(_, runs)| **runs).map(|(round, _)| round)
    }

    /// GPUs in use in each round.
    #[must_use]
    pub fn loads(&self, program: &Program) -> Vec<u64> {
        let mut loads = vec![0; self.width];
        for (job, item) in program.items.iter().enumerate() {
            for round in self.rounds_of(job) {
                loads[round] += u64::from(item.gpus);
            }
        }
        loads
    }

    /// How often a job starts: blocks of rounds, less the one that a running job goes on in.
    #[must_use]
    pub fn starts(&self, program: &Program) -> usize {
        (0..program.items.len()).map(|job| self.starts_of(job, program.items[job].running)).sum()
    }

    /// How often one job starts.
    #[must_use]
    pub fn starts_of(&self, job: usize, running: bool) -> usize {
        let mut holds = running;
        let mut starts = 0;
        for &runs in self.row(job) {
            starts += usize::from(runs && !holds);
            holds = runs;
        }
        starts
    }
}
