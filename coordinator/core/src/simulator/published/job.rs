//! A job as the published simulator plays it.

use super::quirk;
use crate::policies::information::CurrentSpeed;
use crate::simulator::report::{BatchChange, JobOutcome};
use crate::simulator::workload::{Adapts, WorkloadJob, in_segments};
use crate::types::{JobProgress, RegimeRecord};

/// A batch size change that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Grow,
    Shrink,
}

/// The regimes that a job goes through when it runs alone from start to end, as the published
/// simulator plays it.
pub(crate) fn play_alone(plan: &WorkloadJob) -> Vec<RegimeRecord> {
    let mut job = Job::new(plan);
    loop {
        let steps = quirk::whole_steps(job.steps_per_s, job.steps_left());
        if job.end_round(steps, steps as f64 / job.steps_per_s) {
            return job.progress.regimes;
        }
        job.rescale(0.0);
        job.evaluate();
    }
}

/// One job's state.
#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    pub(super) plan: &'a WorkloadJob,
    pub(super) batch: u32,
    pub(super) steps_per_s: f64,
    pub(super) steps_total: i64,
    pub(super) steps_run: i64,
    due: Option<Due>,
    failed_rounds: u32,
    pub(super) progress: JobProgress,
    pub(super) last_s: f64,
    pub(super) starts: u32,
    /// Active jobs summed over the rounds in which this one was active, and how many those were.
    pub(super) active_sum: (f64, u64),
    /// Contention integrated over time, and that time, seconds.
    contention_sum: (f64, f64),
}

impl<'a> Job<'a> {
    pub(super) fn new(plan: &'a WorkloadJob) -> Self {
        let batch = plan.spec.initial_batch;
        let steps_per_s = plan.speed(batch).unwrap_or(0.0);
        let mut job = Self {
            plan,
            batch,
            steps_per_s,
            steps_total: i64::try_from(plan.steps_total).unwrap_or(i64::MAX),
            steps_run: 0,
            due: None,
            failed_rounds: 0,
            progress: JobProgress::default(),
            last_s: plan.spec.arrival_s,
            starts: 0,
            active_sum: (0.0, 0),
            contention_sum: (0.0, 0.0),
        };
        job.progress.contention_max = 1.0;
        job.progress.contention_mean = 1.0;
        let epoch_s = Some(job.steps_per_epoch() as f64 / steps_per_s);
        job.progress.regimes.push(RegimeRecord { batch, epochs: 0.0, epoch_s });
        job
    }

    fn steps_per_epoch(&self) -> i64 {
        self.plan.steps_per_epoch(self.batch) as i64
    }

    /// Steps left; below zero for a zombie.
    pub(super) fn steps_left(&self) -> i64 {
        self.steps_total - self.steps_run
    }

    pub(super) fn speed(&self) -> CurrentSpeed {
        CurrentSpeed {
            batch: self.batch,
            steps_per_s: self.steps_per_s,
            first_steps_per_s: self.plan.speed(self.plan.spec.initial_batch).unwrap_or(0.0),
        }
    }

    /// Ends a round in which the job was to do `steps` and had `run_s`. True: the job is gone.
    pub(super) fn end_round(&mut self, steps: i64, run_s: f64) -> bool {
        if steps <= 0 && run_s <= 0.0 {
            self.failed_rounds += 1;
            return self.failed_rounds >= quirk::ZOMBIE_ROUNDS;
        }
        self.failed_rounds = 0;
        self.steps_run += steps;
        self.progress.attained_s += run_s;
        self.observe_epochs();
        self.steps_left() <= 0
    }

    /// Writes the epochs trained in the regime that goes on, and its measured epoch duration.
    fn observe_epochs(&mut self) {
        let per_epoch = self.steps_per_epoch() as f64;
        let before: f64 = self.progress.regimes.iter().rev().skip(1).map(|r| r.epochs).sum();
        if let Some(regime) = self.progress.regimes.last_mut() {
            regime.epochs = (self.steps_run as f64 / per_epoch - before).max(0.0);
            regime.epoch_s = Some(per_epoch / self.steps_per_s);
        }
    }

    /// Notes the contention of a round that lasts `round_s`.
    pub(super) fn observe_contention(&mut self, contention: f64, active: usize) {
        self.progress.contention_max = self.progress.contention_max.max(contention);
        self.active_sum.0 += active as f64;
        self.active_sum.1 += 1;
        if self.contention_sum.1 == 0.0 {
            self.progress.contention_mean = contention;
        }
    }

    /// Notes that a round of this contention has passed.
    pub(super) fn pass_time(&mut self, contention: f64, round_s: f64) {
        self.contention_sum.0 += contention * round_s;
        self.contention_sum.1 += round_s;
        if self.contention_sum.1 > 0.0 {
            self.progress.contention_mean = self.contention_sum.0 / self.contention_sum.1;
        }
    }

    /// Notes whether another batch size is due, at the end of any round.
    pub(super) fn evaluate(&mut self) {
        let epoch = quirk::ceil_div(self.steps_run, self.steps_per_epoch()).max(0);
        let epoch = u32::try_from(epoch).unwrap_or(u32::MAX);
        let first = self.plan.spec.initial_batch;
        match &self.plan.adapts {
            Adapts::Never => {}
            Adapts::Gns { table, max } => {
                let at = |epoch| in_segments(table, epoch).unwrap_or(first);
                let wanted = at(epoch.saturating_add(1)).max(at(epoch));
                if wanted > self.batch && self.batch != *max {
                    self.due = Some(Due::Grow);
                }
            }
            Adapts::Accordion { rule, large } => {
                let critical = rule.simulated.contains(epoch);
                if self.batch == first && !critical && self.batch != *large {
                    self.due = Some(Due::Grow);
                } else if self.batch != first && critical {
                    self.due = Some(Due::Shrink);
                }
            }
        }
    }

    /// Changes the batch size that is due, at the end of a round in which the job ran.
    pub(super) fn rescale(&mut self, now_s: f64) -> Option<BatchChange> {
        let due = self.due.take()?;
        let first = self.plan.spec.initial_batch;
        let wanted = match (&self.plan.adapts, due) {
            (Adapts::Accordion { large, .. }, Due::Grow) => *large,
            (Adapts::Accordion { .. }, Due::Shrink) => first,
            _ => self.batch.saturating_mul(2),
        };
        // A batch size whose throughput was never measured is refused.
        let steps_per_s = self.plan.speed(wanted)?;
        let (old, old_per_epoch) = (self.batch, self.steps_per_epoch());
        self.batch = wanted;
        self.steps_per_s = steps_per_s;
        let new_per_epoch = self.steps_per_epoch();
        self.steps_total =
            quirk::rescaled_total(self.steps_total, (old, wanted), (old_per_epoch, new_per_epoch));
        if let Some(regime) = self.progress.regimes.last_mut() {
            let credited = quirk::ceil_div(self.steps_run, old_per_epoch) as f64
                - self.steps_run as f64 / old_per_epoch as f64;
            regime.epochs += credited;
        }
        self.steps_run = quirk::rounded_up(self.steps_run, old_per_epoch, new_per_epoch);
        self.progress.regimes.push(RegimeRecord { batch: wanted, epochs: 0.0, epoch_s: None });
        Some(BatchChange { at_s: now_s, id: self.plan.spec.id, from: old, to: wanted })
    }

    pub(super) fn outcome(&self) -> JobOutcome {
        JobOutcome {
            id: self.plan.spec.id,
            gpus: self.plan.spec.gpus,
            arrival_s: self.plan.spec.arrival_s,
            jct_s: self.last_s - self.plan.spec.arrival_s,
            exclusive_s: self.plan.exclusive_s,
            attained_s: self.progress.attained_s,
            restarts: self.starts.saturating_sub(1),
            active_jobs_mean: self.active_sum.0 / self.active_sum.1.max(1) as f64,
        }
    }
}
