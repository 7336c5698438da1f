//! What comes of it: each job's account, rounds, and who held which GPU.

use super::life::Life;
use crate::simulator::report::{BatchChange, Held, JobOutcome, Outcome, RoundRecord};
use crate::simulator::workload::WorkloadJob;
use crate::types::JobId;

/// One job's account.
#[derive(Clone, Debug)]
pub(super) struct Account<'a> {
    pub(super) plan: &'a WorkloadJob,
    pub(super) arrived: bool,
    pub(super) ended_s: Option<f64>,
    /// Training time, seconds, and the part of it that was lost.
    trained_s: f64,
    lost_s: f64,
    /// Epochs that the last gang had trained.
    reached: f64,
    leases: u32,
    /// Active jobs summed over the rounds in which this one was active, and how many those were.
    active_sum: (f64, u64),
}

impl<'a> Account<'a> {
    pub(super) fn new(plan: &'a WorkloadJob) -> Self {
        Self {
            plan,
            arrived: false,
            ended_s: None,
            trained_s: 0.0,
            lost_s: 0.0,
            reached: 0.0,
            leases: 0,
            active_sum: (0.0, 0),
        }
    }

    pub(super) fn life(&self) -> Life<'a> {
        Life(self.plan)
    }

    fn is_active(&self) -> bool {
        self.arrived && self.ended_s.is_none()
    }

    /// A gang begins at a position: what was trained beyond it is lost.
    pub(super) fn resumed(&mut self, position: f64) {
        let life = self.life();
        self.lost_s += (life.seconds(self.reached) - life.seconds(position)).max(0.0);
        self.reached = position;
        self.leases += 1;
    }

    /// A gang has trained up to a position.
    pub(super) fn trained(&mut self, position: f64, seconds: f64) {
        self.trained_s += seconds;
        self.reached = position;
    }

    /// Training time that counted, seconds.
    fn worked_s(&self) -> f64 {
        (self.trained_s - self.lost_s).max(0.0)
    }

    fn outcome(&self, ended_s: f64) -> JobOutcome {
        let spec = &self.plan.spec;
        JobOutcome {
            id: spec.id,
            gpus: spec.gpus,
            arrival_s: spec.arrival_s,
            jct_s: ended_s - spec.arrival_s,
            exclusive_s: self.plan.exclusive_s,
            attained_s: self.worked_s(),
            restarts: self.leases.saturating_sub(1),
            active_jobs_mean: self.active_sum.0 / self.active_sum.1.max(1) as f64,
        }
    }
}

/// All accounts.
#[derive(Clone, Debug)]
pub(super) struct Accounts<'a> {
    pub(super) jobs: Vec<Account<'a>>,
    pub(super) done: usize,
    rounds: Vec<RoundRecord>,
    held: Vec<Held>,
    batch_changes: Vec<BatchChange>,
}

impl<'a> Accounts<'a> {
    pub(super) fn new(jobs: impl Iterator<Item = &'a WorkloadJob>) -> Self {
        Self {
            jobs: jobs.map(Account::new).collect(),
            done: 0,
            rounds: Vec::new(),
            held: Vec::new(),
            batch_changes: Vec::new(),
        }
    }

    /// A round begins.
    pub(super) fn round(&mut self, now_s: f64, running: Vec<JobId>) {
        let active = self.jobs.iter().filter(|job| job.is_active()).count();
        for job in self.jobs.iter_mut().filter(|job| job.is_active()) {
            job.active_sum.0 += active as f64;
            job.active_sum.1 += 1;
        }
        if let Some(last) = self.rounds.last_mut() {
            last.end_s = last.end_s.min(now_s);
        }
        let end_s = f64::INFINITY;
        self.rounds.push(RoundRecord { start_s: now_s, end_s, jobs: running, active });
    }

    pub(super) fn held(&mut self, held: Held) {
        self.held.push(held);
    }

    pub(super) fn batch_changed(&mut self, change: BatchChange) {
        self.batch_changes.push(change);
    }

    pub(super) fn ended(&mut self, job: usize, now_s: f64) {
        if self.jobs[job].ended_s.replace(now_s).is_none() {
            self.done += 1;
        }
    }

    /// The first job that has not ended, and how many others.
    pub(super) fn unfinished(&self) -> Option<(JobId, usize)> {
        let mut left = self.jobs.iter().filter(|job| job.ended_s.is_none());
        let first = left.next()?.plan.spec.id;
        Some((first, left.count()))
    }

    pub(super) fn into_outcome(mut self, gpus: u32) -> Outcome {
        let makespan_s = self.jobs.iter().filter_map(|job| job.ended_s).fold(0.0, f64::max);
        if let Some(last) = self.rounds.last_mut() {
            last.end_s = last.end_s.min(makespan_s.max(last.start_s));
        }
        self.held.sort_by(|a, b| a.gpu.cmp(&b.gpu).then(a.from_s.total_cmp(&b.from_s)));
        Outcome {
            gpus,
            makespan_s,
            busy_gpu_s: self
                .jobs
                .iter()
                .map(|job| job.worked_s() * f64::from(job.plan.spec.gpus))
                .sum(),
            jobs: self.jobs.iter().map(|job| job.outcome(job.ended_s.unwrap_or(0.0))).collect(),
            rounds: self.rounds,
            batch_changes: self.batch_changes,
            held: self.held,
        }
    }
}
