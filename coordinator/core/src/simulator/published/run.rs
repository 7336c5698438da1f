//! The published simulator's loop over rounds.

use std::collections::HashMap;

use super::job::Job;
use super::quirk;
use crate::policies::Policy;
use crate::policies::information;
use crate::policies::mechanism::{Candidate, Mechanism, MechanismConfig};
use crate::predictor::Predictor;
use crate::simulator::observer::Observer;
use crate::simulator::report::{Outcome, RoundRecord};
use crate::simulator::workload::Workload;
use crate::types::{ClusterView, JobId, JobView};

/// What runs, and until when.
struct Running {
    job: usize,
    steps: i64,
    ends_s: f64,
}

/// A simulation in the published semantics.
pub struct Published<'a> {
    gpus: u32,
    policy: &'a mut dyn Policy,
    predictor: &'a mut dyn Predictor,
    mechanism: Mechanism,
    jobs: Vec<Job<'a>>,
    index: HashMap<JobId, usize>,
    arrived: usize,
    active: Vec<usize>,
    running: Vec<Running>,
    /// Whether each job was scheduled in the last round and in the one before.
    scheduled: [Vec<bool>; 2],
    now_s: f64,
    round: u64,
    done: usize,
    outcome: Outcome,
}

/// Plays a workload to its end. Jobs whose gang is larger than the cluster must have been refused
/// before ([`Workload::too_large_for`]); they would never run.
pub fn simulate(
    workload: &Workload,
    gpus: u32,
    policy: &mut dyn Policy,
    predictor: &mut dyn Predictor,
    observer: &mut dyn Observer,
) -> Outcome {
    let mut simulation = Published::new(workload, gpus, policy, predictor);
    while simulation.step(observer) {}
    simulation.into_outcome()
}

impl<'a> Published<'a> {
    /// A simulation at time 0.
    pub fn new(
        workload: &'a Workload,
        gpus: u32,
        policy: &'a mut dyn Policy,
        predictor: &'a mut dyn Predictor,
    ) -> Self {
        let jobs: Vec<Job<'a>> = workload.jobs.iter().map(Job::new).collect();
        let index = workload.jobs.iter().enumerate().map(|(i, job)| (job.spec.id, i)).collect();
        let idle = vec![false; jobs.len()];
        Self {
            gpus,
            policy,
            predictor,
            mechanism: Mechanism::new(MechanismConfig::published(quirk::ROUND_S)),
            jobs,
            index,
            arrived: 0,
            active: Vec::new(),
            running: Vec::new(),
            scheduled: [idle.clone(), idle],
            now_s: 0.0,
            round: 0,
            done: 0,
            outcome: Outcome { gpus, ..Outcome::default() },
        }
    }

    /// Plays one round. False: every job has ended.
    pub fn step(&mut self, observer: &mut dyn Observer) -> bool {
        if self.done == self.jobs.len() {
            return false;
        }
        if self.running.is_empty() {
            self.pass_idle_time();
        } else {
            self.end_round();
            observer.round_ended(self.now_s, self.done, self.jobs.len());
        }
        self.admit();
        if !self.active.is_empty() {
            self.begin_round(observer);
        }
        true
    }

    /// Nothing ran: on to the next arrival, or by one round while active jobs wait.
    fn pass_idle_time(&mut self) {
        let next_s = self.jobs.get(self.arrived).map(|job| job.plan.spec.arrival_s);
        self.now_s = match next_s {
            Some(arrival_s) if self.active.is_empty() => arrival_s.max(self.now_s),
            Some(arrival_s) if arrival_s > self.now_s => arrival_s.min(self.now_s + quirk::ROUND_S),
            _ => self.now_s + quirk::ROUND_S,
        };
        self.round += u64::from(!self.active.is_empty());
    }

    fn end_round(&mut self) {
        let start_s = self.now_s;
        let ends_s = self.running.iter().map(|run| run.ends_s).fold(start_s, f64::max);
        self.now_s = ends_s;
        let contention = self.contention();
        for &job in &self.active {
            self.jobs[job].pass_time(contention, ends_s - start_s);
        }
        let mut ended = std::mem::take(&mut self.running);
        ended.sort_by(|a, b| b.ends_s.total_cmp(&a.ends_s).then(a.job.cmp(&b.job)));
        for run in ended {
            self.end_job_round(&run, start_s);
        }
        for &job in &self.active {
            self.jobs[job].evaluate();
        }
        self.round += 1;
    }

    fn end_job_round(&mut self, run: &Running, start_s: f64) {
        let job = &mut self.jobs[run.job];
        let id = job.plan.spec.id;
        let (mut run_s, mut steps) = (run.ends_s - start_s, run.steps);
        let started = !self.scheduled[1][run.job];
        if started && self.round != quirk::FREE_FIRST_ROUND && run_s > quirk::RESTART_FREE_S {
            steps = (steps as f64 * ((run_s - quirk::RESTART_S) / run_s)) as i64;
            run_s -= quirk::RESTART_S;
        }
        job.last_s = run.ends_s;
        let gone = job.end_round(steps, run_s);
        if steps <= 0 && run_s <= 0.0 {
            self.mechanism.note_change();
        } else {
            self.mechanism.received(id, run_s);
            self.outcome.busy_gpu_s += run_s * f64::from(job.plan.spec.gpus);
        }
        self.outcome.batch_changes.extend(job.rescale(self.now_s));
        if gone {
            self.predictor.finished(&job.plan.spec, &job.progress);
            self.mechanism.remove(id);
            self.active.retain(|active| *active != run.job);
            self.done += 1;
        } else {
            self.predictor.observed(&job.plan.spec, &job.progress);
        }
    }

    fn admit(&mut self) {
        while let Some(job) = self.jobs.get(self.arrived) {
            if job.plan.spec.arrival_s > self.now_s {
                break;
            }
            self.mechanism.admit(job.plan.spec.id);
            self.active.push(self.arrived);
            self.arrived += 1;
        }
    }

    fn contention(&self) -> f64 {
        (self.active.len() as f64 / f64::from(self.gpus.max(1))).max(1.0)
    }

    fn begin_round(&mut self, observer: &mut dyn Observer) {
        let (contention, active) = (self.contention(), self.active.len());
        for &job in &self.active {
            self.jobs[job].observe_contention(contention, active);
        }
        if self.mechanism.must_decide(self.policy.replan(), self.now_s, self.round) {
            observer.deciding();
            self.mechanism.begin_decision();
            let view = self.view();
            let decision = self.policy.decide(&view);
            observer.decided(&view, &decision, self.policy);
            self.mechanism.adopt(decision, self.now_s);
        }
        let candidates: Vec<Candidate> = self
            .active
            .iter()
            .map(|&job| Candidate {
                id: self.jobs[job].plan.spec.id,
                gpus: self.jobs[job].plan.spec.gpus,
                running: self.scheduled[0][job],
            })
            .collect();
        let chosen = self.mechanism.fill(self.round, &candidates, self.gpus);
        self.start(chosen);
    }

    fn start(&mut self, chosen: Vec<JobId>) {
        self.scheduled.swap(0, 1);
        self.scheduled[0].fill(false);
        for id in &chosen {
            let Some(&index) = self.index.get(id) else { continue };
            let job = &mut self.jobs[index];
            let steps = quirk::whole_steps(job.steps_per_s, job.steps_left());
            let ends_s = self.now_s.max(self.now_s + steps as f64 / job.steps_per_s);
            job.starts += u32::from(!self.scheduled[1][index]);
            self.scheduled[0][index] = true;
            self.running.push(Running { job: index, steps, ends_s });
        }
        let ends_s = self.running.iter().map(|run| run.ends_s).fold(self.now_s, f64::max);
        let active = self.active.len();
        let record = RoundRecord { start_s: self.now_s, end_s: ends_s, jobs: chosen, active };
        self.outcome.rounds.push(record);
    }

    fn view(&self) -> ClusterView {
        let information = self.policy.information();
        let jobs = self
            .active
            .iter()
            .map(|&index| {
                let job = &self.jobs[index];
                let spec = &job.plan.spec;
                let forecast = information::forecast(
                    information,
                    self.predictor,
                    spec,
                    &job.progress,
                    job.speed(),
                );
                JobView {
                    id: spec.id,
                    gpus: spec.gpus,
                    weight: spec.weight,
                    arrival_s: spec.arrival_s,
                    running: self.scheduled[0][index],
                    epochs_total: f64::from(spec.epochs_total),
                    epochs_done: job.progress.epochs_done(),
                    attained_s: job.progress.attained_s,
                    steps_left: job.steps_left() as f64,
                    steps_per_s: job.steps_per_s,
                    restart_s: quirk::RESTART_S,
                    forecast,
                    samples: information::samples(self.policy, self.predictor, spec, &job.progress),
                    contention_max: job.progress.contention_max,
                    contention_mean: job.progress.contention_mean,
                }
            })
            .collect();
        ClusterView {
            now_s: self.now_s,
            round_s: quirk::ROUND_S,
            round: self.round,
            gpus: self.gpus,
            jobs,
        }
    }

    /// The result, once [`step`](Self::step) has returned false.
    #[must_use]
    pub fn into_outcome(mut self) -> Outcome {
        self.outcome.makespan_s = self.now_s;
        self.outcome.jobs = self.jobs.iter().map(Job::outcome).collect();
        self.outcome
    }
}
