//! A prior that learns across jobs (beyond the paper; the paper's rule when there is no history).
//!
//! A job's trajectory is drawn from a mixture in the manner of a Dirichlet process: from the flat
//! Dirichlet prior of the restatement rule, or like that of a job that was seen before, at the same
//! epochs or at the same fractions of all epochs. What the job itself shows reweighs them (Bayes);
//! how far each degree of likeness is to be trusted is learnt from every change that is seen.

mod analogy;
mod family;
mod history;
mod memory;
mod mixture;
mod noise;

use super::throughput::{EpochModel, KnownStep, Profile};
use super::{Forecast, Predictor, RegimeForecast, rules, sampling};
use crate::types::{JobProgress, JobSpec, MemoryError};
use analogy::{AHEAD, Target};
use family::StepTimes;
use history::{History, Kind};
use mixture::{Mixture, Trust};
use noise::Noise;

/// Learns from every job that was observed where regimes change and how long steps take.
#[derive(Clone, Debug, Default)]
pub struct Hierarchical {
    profile: Profile,
    history: History,
    times: StepTimes,
    noise: Noise,
    accordion: Trust,
    gns: Trust,
}

impl Hierarchical {
    /// With step times that were measured beforehand; [`Profile::default`] when there are none.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    fn trust(&self, kind: Kind) -> &Trust {
        match kind {
            Kind::Accordion => &self.accordion,
            Kind::Gns => &self.gns,
        }
    }

    fn known(&self, spec: &JobSpec) -> Vec<KnownStep> {
        let declared = self.profile.known(spec);
        if declared.is_empty() { self.times.known(spec) } else { declared }
    }

    fn mixture(&self, spec: &JobSpec, progress: &JobProgress) -> Option<(Target, Mixture)> {
        let class = self.history.class(spec)?;
        let target = Target::new(class.kind, spec, progress);
        let restated = rules::restated(spec, progress);
        let alike = self.history.alike(class, spec.id);
        let mixture = Mixture::new(&target, &restated, &alike, self.trust(class.kind));
        Some((target, mixture))
    }

    fn note(&mut self, spec: &JobSpec, progress: &JobProgress, ended: bool) {
        self.times.note(spec, progress);
        self.noise.note(spec, progress, ended);
        let Some(class) = self.history.class(spec) else { return };
        let changed = history::changes(progress).len() > self.history.known_changes(spec.id);
        let complete = ended && progress.epochs_done() >= f64::from(spec.epochs_total) - 0.5;
        if changed || complete {
            let alike = self.history.alike(class, spec.id);
            if !alike.is_empty() {
                let (start, end) = last_regime(progress, complete);
                let start = Target::new(class.kind, spec, &start);
                let end = Target::new(class.kind, spec, &end);
                let likelihood = mixture::likelihood(&start, &end, &alike);
                match class.kind {
                    Kind::Accordion => self.accordion.learn(&likelihood),
                    Kind::Gns => self.gns.learn(&likelihood),
                }
            }
        }
        self.history.note(spec, progress, ended);
    }
}

/// What was seen when the regime that ended last began, and when it ended: with the change that
/// ended it, or, for a job that is `complete`, a moment before its end.
fn last_regime(progress: &JobProgress, complete: bool) -> (JobProgress, JobProgress) {
    let (mut start, mut end) = (progress.clone(), progress.clone());
    if complete {
        if let Some(last) = end.regimes.last_mut() {
            last.epochs -= last.epochs.min(0.5);
        }
    } else {
        start.regimes.pop();
        if let Some(last) = end.regimes.last_mut() {
            last.epochs = 0.0;
        }
    }
    if let Some(last) = start.regimes.last_mut() {
        last.epochs = 0.0;
    }
    (start, end)
}

impl Predictor for Hierarchical {
    fn name(&self) -> &'static str {
        "hierarchical"
    }

    fn observed(&mut self, spec: &JobSpec, progress: &JobProgress) {
        self.note(spec, progress, false);
    }

    fn finished(&mut self, spec: &JobSpec, progress: &JobProgress) {
        self.note(spec, progress, true);
    }

    fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast {
        let model = EpochModel::fit(spec, progress, &self.known(spec));
        match self.mixture(spec, progress) {
            Some((target, mixture)) => {
                mixture.forecast(&target, progress, &model, self.noise.relative_sd())
            }
            None => rules::forecast(spec, progress, &rules::restated(spec, progress), &model),
        }
    }

    fn sample(
        &self,
        spec: &JobSpec,
        progress: &JobProgress,
        count: usize,
        seed: u64,
    ) -> Vec<Vec<RegimeForecast>> {
        let model = EpochModel::fit(spec, progress, &self.known(spec));
        let Some((target, mixture)) = self.mixture(spec, progress) else {
            let ahead = rules::restated(spec, progress);
            return rules::sample(spec, &ahead, &model, count, seed);
        };
        let mut rng = sampling::generator(spec, seed);
        let draw = |_| {
            let epochs: [f64; AHEAD] = mixture.draw(&mut rng);
            let mut regimes = sampling::regimes(&mut rng, &target.batches, &epochs, &model);
            regimes.retain(|regime| regime.epochs > 0.0);
            regimes
        };
        (0..count).map(draw).collect()
    }

    fn memory(&self) -> String {
        self.save()
    }

    fn recall(&mut self, memory: &str) -> Result<(), MemoryError> {
        self.restore(memory)
    }
}
