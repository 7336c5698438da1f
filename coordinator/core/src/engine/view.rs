//! What the policy sees.

use super::{Engine, job::Job};
use crate::{
    policies::information::{CurrentSpeed, forecast, samples},
    types::{ClusterView, JobProgress, JobView},
};

impl Engine {
    /// The view for a decision. What the predictor expects of epochs that are not measured yet is
    /// noted, for the estimates until the next decision.
    pub(super) fn view(&mut self) -> ClusterView {
        let (view, guesses) = self.view_now();
        for (job, guess) in view.jobs.iter().zip(guesses) {
            if let Some(job) = self.state.jobs.get_mut(&job.id) {
                job.track.guess(guess);
            }
        }
        view
    }

    /// The cluster and its active jobs at this moment, and the epoch times that the predictor
    /// expects. Jobs that no part of the cluster could host are left out.
    pub(super) fn view_now(&self) -> (ClusterView, Vec<Option<f64>>) {
        let state = &self.state;
        let admitted = state.admitted.values().filter_map(|id| state.jobs.get(id));
        let hosted =
            admitted.filter(|job| job.is_active() && !state.unhosted.contains(&job.spec.id));
        let (jobs, guesses) = hosted.map(|job| self.view_job(job)).unzip();
        let view = ClusterView {
            now_s: state.now_s,
            round_s: state.settings.round_s,
            round: state.clock.round + 1,
            gpus: state.cluster.gpus(),
            jobs,
        };
        (view, guesses)
    }

    /// One job's view, and the epoch time that the predictor expects now.
    fn view_job(&self, job: &Job) -> (JobView, Option<f64>) {
        let state = &self.state;
        let progress = self.progress_of(job, state.now_s);
        let spec = &job.spec;
        let expected = || {
            let forecast = self.predictor.forecast(spec, &progress);
            forecast.regimes.first().map(|regime| regime.epoch_s)
        };
        let measured = progress.regimes.last().and_then(|regime| regime.epoch_s);
        let guess = if measured.is_some() { None } else { expected() };
        let speed = self.speed_of(job, guess);
        let epochs_done = progress.epochs_done();
        let epochs_left = (f64::from(spec.epochs_total) - epochs_done).max(0.0);
        let steps_per_epoch = spec.samples_per_epoch.div_ceil(u64::from(speed.batch.max(1)));
        let view = JobView {
            id: spec.id,
            gpus: spec.gpus,
            weight: self.weight_of(job),
            // Time on hold is not the cluster's fault.
            arrival_s: state.now_s - job.seen.active_s(state.now_s),
            running: state.leases.get(&spec.id).is_some_and(|lease| lease.is_live()),
            epochs_total: f64::from(spec.epochs_total),
            epochs_done,
            attained_s: progress.attained_s,
            steps_left: epochs_left * steps_per_epoch as f64,
            steps_per_s: speed.steps_per_s,
            restart_s: job.restart_s(&state.settings),
            forecast: forecast(self.policy.information(), &*self.predictor, spec, &progress, speed),
            samples: samples(&*self.policy, &*self.predictor, spec, &progress),
            contention_max: progress.contention_max,
            contention_mean: progress.contention_mean,
        };
        (view, guess)
    }

    fn speed_of(&self, job: &Job, guess: Option<f64>) -> CurrentSpeed {
        let batch = job.track.batch().unwrap_or(job.spec.initial_batch);
        let per_epoch =
            |batch: u32| job.spec.samples_per_epoch.div_ceil(u64::from(batch.max(1))) as f64;
        let speed = |batch: u32, epoch_s: Option<f64>| {
            epoch_s.or(guess).filter(|epoch_s| *epoch_s > 0.0).map_or(0.0, |e| per_epoch(batch) / e)
        };
        CurrentSpeed {
            batch,
            steps_per_s: speed(batch, job.track.epoch_s()),
            first_steps_per_s: speed(job.spec.initial_batch, job.track.first_epoch_s()),
        }
    }

    /// Progress with the estimate for the running epoch and the contention seen.
    pub(super) fn progress_of(&self, job: &Job, now_s: f64) -> JobProgress {
        let mut progress = job.track.estimate(now_s, job.spec.epochs_total);
        progress.contention_max = job.seen.max(&self.state.contention);
        progress.contention_mean = job.seen.mean(now_s, &self.state.contention);
        progress
    }
}
