//! The aggregated program: how many rounds of the window each job gets.
//!
//! UTIL_j depends only on the number of rounds n_j that a job is given, because its regimes stay
//! in order. So the N x T binaries of eq. 2 fold into N integers: maximise
//! `sum_j v_j[n_j] - mu max(sum_j g_j R_j(n_j) / M, max_j R_j(n_j))` subject to `n` being
//! packable into T rounds of M GPUs, with `R_j(n) = max(0, R_j - n D)`.

/// One job of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Gang size g_j, GPUs.
    pub gpus: u32,
    /// Remaining run time R_j as the sum in the makespan term H counts it, seconds.
    pub work_s: f64,
    /// Remaining run time as the maximum in H counts it, seconds: R_j, or an upper estimate.
    pub left_s: f64,
    /// Most rounds that it can use in the window.
    pub rounds_max: usize,
    /// How long it can wait before its fair deadline is lost, seconds; below 0 when it is.
    pub slack_s: f64,
    /// Its weight relative to other jobs, above 0.
    pub weight: f64,
    /// Whether it holds its gang when the window begins.
    pub running: bool,
}

/// The program of one window.
#[derive(Clone, Debug)]
pub struct Program {
    /// GPUs, M.
    pub gpus: u32,
    /// Rounds in the window, T.
    pub rounds: usize,
    /// Length of a round D, seconds.
    pub round_s: f64,
    /// mu: what a second of the makespan estimate H costs, in units of the objective.
    pub makespan_price: f64,
    /// The jobs.
    pub items: Vec<Item>,
    /// `values[j (T + 1) + n]`: what n rounds are worth to job j; never falls with n.
    pub values: Vec<f64>,
}

impl Program {
    /// v_j as a table over 0..=T rounds.
    #[must_use]
    pub fn value(&self, job: usize) -> &[f64] {
        let width = self.rounds + 1;
        &self.values[job * width..(job + 1) * width]
    }

    /// What remains of job `job` after `rounds` rounds for the sum in H, seconds.
    #[must_use]
    pub fn work_s(&self, job: usize, rounds: usize) -> f64 {
        (self.items[job].work_s - rounds as f64 * self.round_s).max(0.0)
    }

    /// What remains of job `job` after `rounds` rounds for the maximum in H, seconds.
    #[must_use]
    pub fn left_s(&self, job: usize, rounds: usize) -> f64 {
        (self.items[job].left_s - rounds as f64 * self.round_s).max(0.0)
    }

    /// GPU rounds in the window, M T.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        u64::from(self.gpus) * self.rounds as u64
    }

    /// H of eq. 10 when each job gets so many rounds, seconds.
    #[must_use]
    pub fn makespan_s(&self, rounds: &[usize]) -> f64 {
        let mut work = 0.0;
        let mut longest = 0.0_f64;
        for (job, (item, &n)) in self.items.iter().zip(rounds).enumerate() {
            work += f64::from(item.gpus) * self.work_s(job, n);
            longest = longest.max(self.left_s(job, n));
        }
        longest.max(work / f64::from(self.gpus.max(1)))
    }

    /// The first term of the objective: sum_j v_j\[n_j\].
    #[must_use]
    pub fn welfare(&self, rounds: &[usize]) -> f64 {
        rounds.iter().enumerate().map(|(job, &n)| self.value(job)[n]).sum()
    }

    /// The whole objective.
    #[must_use]
    pub fn objective(&self, rounds: &[usize]) -> f64 {
        let makespan = if self.makespan_price > 0.0 { self.makespan_s(rounds) } else { 0.0 };
        self.welfare(rounds) - self.makespan_price * makespan
    }

    /// The fewest rounds that leave job `job` with at most `h_s` seconds; `None` when even all the
    /// rounds that it can use leave more.
    #[must_use]
    pub fn rounds_min(&self, job: usize, h_s: f64) -> Option<usize> {
        let item = &self.items[job];
        if item.left_s <= h_s {
            return Some(0);
        }
        // The slack forgives the rounding of h = R - n D itself.
        let need = ((item.left_s - h_s) / self.round_s - 1e-9).ceil().max(0.0) as usize;
        (need <= item.rounds_max).then_some(need)
    }
}
