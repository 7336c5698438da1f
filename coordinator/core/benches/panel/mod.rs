//! All predictors side by side in one simulation.

use std::collections::HashMap;

use shockwave_core::predictor::{self, Forecast, NAMES, Predictor, Profile, RegimeForecast};
use shockwave_core::simulator::Workload;
use shockwave_core::types::{Adaptation, JobId, JobProgress, JobSpec, RegimeRecord};

/// Parts of a job's epochs, in each of which it is forecast once.
pub const BINS: usize = 20;
/// Probabilities of the intervals that are checked.
const LEVELS: [f64; 3] = [0.5, 0.8, 0.9];
/// A remaining time counts as hit when it is missed by this part of the run time: epochs are
/// whole where the simulator credits them.
const TOLERANCE: f64 = 1e-3;

/// Width of a 90 % interval over the expected remaining time, from which on a forecast is uncertain
/// of more than the noise of measured step times.
const UNCERTAIN: f64 = 0.05;

/// What one predictor said of one job at one time.
struct Said {
    predictor: usize,
    bin: usize,
    attained_s: f64,
    total_s: f64,
    /// Epochs by batch size: trained so far and forecast.
    epochs: HashMap<u32, f64>,
    intervals: [(f64, f64); LEVELS.len()],
}

impl Said {
    fn is_uncertain(&self) -> bool {
        let (low, high) = self.intervals[LEVELS.len() - 1];
        high - low > UNCERTAIN * (self.total_s - self.attained_s)
    }
}

/// Asks every predictor whenever a job has gone on; the first one serves the policy.
pub struct Panel {
    predictors: Vec<Box<dyn Predictor>>,
    said: HashMap<JobId, Vec<Said>>,
    last_bin: HashMap<JobId, usize>,
    ended: HashMap<JobId, (JobSpec, JobProgress)>,
    /// What is declared of jobs instead of what their traces say.
    declared: HashMap<JobId, JobSpec>,
}

/// How one predictor did over all jobs that change their batch size.
#[derive(Clone, Debug)]
pub struct Score {
    /// Its name.
    pub predictor: &'static str,
    /// Jobs.
    pub jobs: usize,
    /// Mean of `|predicted / true - 1|` of run times, percent: over progress, then over jobs.
    pub run_time_percent: f64,
    /// Mean difference between the predicted and the true share of epochs at each batch size,
    /// percent.
    pub regime_percent: f64,
    /// How often the remaining time was in the 50, 80 and 90 % intervals, percent.
    pub covered_percent: [f64; LEVELS.len()],
    /// The same of the forecasts whose 90 % interval is wider than [`UNCERTAIN`] of the remaining
    /// time: the others are certain of the regimes, and right.
    pub covered_uncertain_percent: [f64; LEVELS.len()],
    /// Forecasts that are so uncertain, percent.
    pub uncertain_percent: f64,
    /// Run-time error by progress, percent.
    pub by_progress: [f64; BINS],
}

fn adapts(spec: &JobSpec) -> bool {
    match spec.adaptation {
        Adaptation::Accordion { small, large } => small != large,
        Adaptation::Gns { initial, max } => initial != max,
        _ => false,
    }
}

fn by_batch(regimes: impl Iterator<Item = (u32, f64)>) -> HashMap<u32, f64> {
    let mut epochs = HashMap::new();
    for (batch, length) in regimes {
        *epochs.entry(batch).or_default() += length;
    }
    epochs
}

impl Panel {
    /// All predictors, the default first; nothing known in advance.
    pub fn new() -> Self {
        Self::with(Profile::default(), HashMap::new())
    }

    /// The same jobs when the batch sizes that come and their step times are known, as the
    /// published code has it; only how long regimes last is not.
    pub fn knowing(&self, workload: &Workload) -> Self {
        let mut profile = Profile::default();
        for job in &workload.jobs {
            for (batch, steps_per_s) in &job.speeds {
                profile.insert(&job.spec.family, job.spec.gpus, *batch, 1.0 / steps_per_s);
            }
        }
        let reached = |(id, (spec, progress)): (&JobId, &(JobSpec, JobProgress))| {
            let trained = progress.regimes.iter().filter(|regime| regime.epochs > 0.0);
            let batches: Vec<u32> = trained.map(|regime| regime.batch).collect();
            let max = batches.iter().copied().max()?;
            let adaptation = match spec.adaptation {
                Adaptation::Gns { initial, .. } => Adaptation::Gns { initial, max },
                _ if batches.iter().all(|batch| *batch == max) => Adaptation::Static,
                ref other => other.clone(),
            };
            Some((*id, JobSpec { adaptation, ..spec.clone() }))
        };
        Self::with(profile, self.ended.iter().filter_map(reached).collect())
    }

    fn with(profile: Profile, declared: HashMap<JobId, JobSpec>) -> Self {
        let named = |name: &&str| predictor::by_name(name, profile.clone()).unwrap();
        Self {
            predictors: NAMES.iter().filter(|name| **name != "agnostic").map(named).collect(),
            said: HashMap::new(),
            last_bin: HashMap::new(),
            ended: HashMap::new(),
            declared,
        }
    }

    fn declared<'a>(&'a self, spec: &'a JobSpec) -> &'a JobSpec {
        self.declared.get(&spec.id).unwrap_or(spec)
    }

    fn ask(&mut self, spec: &JobSpec, progress: &JobProgress) {
        let part = progress.epochs_done() / f64::from(spec.epochs_total);
        let bin = ((part * BINS as f64) as usize).min(BINS - 1);
        if !adapts(spec) || self.last_bin.insert(spec.id, bin) == Some(bin) {
            return;
        }
        for (index, predictor) in self.predictors.iter().enumerate() {
            let forecast = predictor.forecast(spec, progress);
            let done = progress.regimes.iter().map(|r| (r.batch, r.epochs));
            let ahead = forecast.regimes.iter().map(|r| (r.batch, r.epochs));
            self.said.entry(spec.id).or_default().push(Said {
                predictor: index,
                bin,
                attained_s: progress.attained_s,
                total_s: forecast.total_s,
                epochs: by_batch(done.chain(ahead)),
                intervals: LEVELS.map(|level| forecast.left.interval_s(level)),
            });
        }
    }

    /// The scores, in the order of the predictors.
    pub fn scores(&self) -> Vec<Score> {
        (0..self.predictors.len()).map(|index| self.score(index)).collect()
    }

    fn score(&self, index: usize) -> Score {
        let (mut jobs, mut said_of_all) = (0, 0.0);
        let (mut run_time, mut regime) = (0.0, 0.0);
        let mut covered = [0.0; LEVELS.len()];
        let (mut covered_uncertain, mut uncertain) = ([0.0; LEVELS.len()], 0.0);
        let mut bins = [(0.0, 0.0); BINS];
        for (id, (spec, progress)) in &self.ended {
            let all = self.said.get(id).into_iter().flatten();
            let said: Vec<&Said> = all.filter(|said| said.predictor == index).collect();
            if said.is_empty() || progress.attained_s <= 0.0 {
                continue;
            }
            jobs += 1;
            let truth =
                by_batch(progress.regimes.iter().map(|r: &RegimeRecord| (r.batch, r.epochs)));
            for one in &said {
                let error = (one.total_s / progress.attained_s - 1.0).abs();
                run_time += error / said.len() as f64;
                regime += regime_error(spec, &one.epochs, &truth) / said.len() as f64;
                bins[one.bin].0 += error;
                bins[one.bin].1 += 1.0;
                let left_s = progress.attained_s - one.attained_s;
                let slack_s = TOLERANCE * progress.attained_s;
                let wide = one.is_uncertain();
                uncertain += f64::from(u8::from(wide));
                for (level, (low, high)) in one.intervals.into_iter().enumerate() {
                    let hit = (low - slack_s..=high + slack_s).contains(&left_s);
                    covered[level] += f64::from(u8::from(hit));
                    covered_uncertain[level] += f64::from(u8::from(hit && wide));
                }
                said_of_all += 1.0;
            }
        }
        let count = f64::max(jobs as f64, 1.0);
        Score {
            predictor: self.predictors[index].name(),
            jobs,
            run_time_percent: 100.0 * run_time / count,
            regime_percent: 100.0 * regime / count,
            covered_percent: covered.map(|sum| 100.0 * sum / f64::max(said_of_all, 1.0)),
            covered_uncertain_percent: covered_uncertain
                .map(|sum| 100.0 * sum / f64::max(uncertain, 1.0)),
            uncertain_percent: 100.0 * uncertain / f64::max(said_of_all, 1.0),
            by_progress: bins.map(|(sum, n)| 100.0 * sum / f64::max(n, 1.0)),
        }
    }
}

/// A job's progress at the end of its last declared epoch: the traces count steps and end most jobs
/// within it.
fn to_the_end(spec: &JobSpec, progress: &JobProgress) -> JobProgress {
    let mut whole = progress.clone();
    let epochs = (f64::from(spec.epochs_total) - progress.epochs_done()).max(0.0);
    // A batch size that was never trained with has no speed: such a last regime is empty.
    if let Some(last) = whole.regimes.iter_mut().rev().find(|regime| regime.epoch_s.is_some()) {
        last.epochs += epochs;
        whole.attained_s += epochs * last.epoch_s.unwrap_or(0.0);
    }
    whole
}

/// Mean over the batch sizes that were expected or came of the difference between their shares.
fn regime_error(spec: &JobSpec, said: &HashMap<u32, f64>, truth: &HashMap<u32, f64>) -> f64 {
    let mut batches: Vec<u32> = said.keys().chain(truth.keys()).copied().collect();
    batches.sort_unstable();
    batches.dedup();
    let of = |epochs: &HashMap<u32, f64>, batch| epochs.get(batch).copied().unwrap_or(0.0);
    let differences = batches.iter().map(|batch| (of(said, batch) - of(truth, batch)).abs());
    differences.sum::<f64>() / f64::from(spec.epochs_total) / batches.len() as f64
}

impl Predictor for Panel {
    fn name(&self) -> &'static str {
        "panel"
    }

    fn observed(&mut self, spec: &JobSpec, progress: &JobProgress) {
        let spec = &self.declared(spec).clone();
        for predictor in &mut self.predictors {
            predictor.observed(spec, progress);
        }
        self.ask(spec, progress);
    }

    fn finished(&mut self, spec: &JobSpec, progress: &JobProgress) {
        let spec = &self.declared(spec).clone();
        for predictor in &mut self.predictors {
            predictor.finished(spec, progress);
        }
        self.ended.insert(spec.id, (spec.clone(), to_the_end(spec, progress)));
    }

    fn forecast(&self, spec: &JobSpec, progress: &JobProgress) -> Forecast {
        self.predictors[0].forecast(self.declared(spec), progress)
    }

    fn sample(
        &self,
        spec: &JobSpec,
        progress: &JobProgress,
        count: usize,
        seed: u64,
    ) -> Vec<Vec<RegimeForecast>> {
        self.predictors[0].sample(self.declared(spec), progress, count, seed)
    }
}
