//! The market of one planning window: its buyers are the jobs, its goods the GPU rounds.

/// A stretch of constant throughput that lies ahead of a job (a micro-job of Appendix G).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MicroJob {
    /// Epochs to train in it.
    pub epochs: f64,
    /// Duration of an epoch on the job's whole gang, seconds.
    pub epoch_s: f64,
}

/// A way that the rest of a job may go: its micro-jobs in order.
pub type Trajectory = Vec<MicroJob>;

/// Run time of a trajectory, seconds.
#[must_use]
pub fn run_time_s(trajectory: &[MicroJob]) -> f64 {
    trajectory.iter().map(|part| part.epochs * part.epoch_s).sum()
}

/// One job as the market sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Buyer {
    /// Gang size, GPUs.
    pub gpus: u32,
    /// Budget relative to other jobs (B_j before the fairness weight).
    pub weight: f64,
    /// Whether it holds its gang when the window begins.
    pub running: bool,
    /// Epochs that it will train, E_j.
    pub epochs_total: f64,
    /// Epochs trained so far, F_j.
    pub epochs_done: f64,
    /// How the rest may go, equally likely; one trajectory is the posterior mean, several are
    /// samples from the posterior (Appendix F).
    pub trajectories: Vec<Trajectory>,
    /// Estimated finish-time fairness rho_j (eq. 9).
    pub rho: f64,
    /// Time since submission, L_j + W_j, seconds.
    pub elapsed_s: f64,
    /// Service received, L_j, seconds.
    pub attained_s: f64,
    /// Contention that its fair deadline is scaled by, at least 1.
    pub contention: f64,
    /// Lower estimate of the remaining time: what the fair deadline counts, seconds.
    pub left_lower_s: f64,
    /// Remaining time that the longest-job part of the makespan estimate counts, seconds.
    pub left_upper_s: f64,
}

impl Buyer {
    /// Mean remaining run time over the trajectories, R_j, seconds.
    #[must_use]
    pub fn left_s(&self) -> f64 {
        let total: f64 = self.trajectories.iter().map(|t| run_time_s(t)).sum();
        total / self.trajectories.len().max(1) as f64
    }

    /// How long it can wait before its fair deadline (run time alone times contention after its
    /// submission) is lost, seconds.
    ///
    /// Under contention a longer run time moves the deadline by more than it takes, so it is the
    /// lower estimate that is safe.
    #[must_use]
    pub fn slack_s(&self) -> f64 {
        let fair_s = (self.attained_s + self.left_lower_s) * self.contention;
        fair_s - self.elapsed_s - self.left_lower_s
    }

    /// Run time of the longest trajectory, seconds.
    #[must_use]
    pub fn left_longest_s(&self) -> f64 {
        self.trajectories.iter().map(|t| run_time_s(t)).fold(0.0, f64::max)
    }
}

/// One planning window.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// GPUs, M.
    pub gpus: u32,
    /// Rounds, T.
    pub rounds: usize,
    /// Length of a round D, seconds.
    pub round_s: f64,
    /// k: the power of rho in a job's budget.
    pub k: f64,
    /// lambda: the weight of the makespan estimate.
    pub lambda: f64,
    /// The jobs.
    pub buyers: Vec<Buyer>,
}
