//! Runs a simulation: by names, with a clock and a progress bar.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shockwave_core::policies::{self, Policy, Tuning};
use shockwave_core::predictor::{self, Predictor};
use shockwave_core::simulator::{
    Exact, Faults, Noisy, Observer, Outcome, Workload, product, published,
};
use shockwave_core::types::{ClusterView, Decision, JobId, JobView};

use super::SimulationError;

/// Whose behaviour is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Semantics {
    /// The published simulator's, with its quirks: for comparison with published results.
    Published,
    /// The service's own engine in virtual time.
    Product,
}

impl Semantics {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Semantics::Published => "published",
            Semantics::Product => "product",
        }
    }
}

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// GPUs in the cluster.
    pub gpus: u32,
    /// Policy, by name.
    pub policy: String,
    /// Predictor, by name.
    pub predictor: String,
    /// Settings of the market of a policy by name.
    pub tuning: Tuning,
    /// Whose behaviour.
    pub semantics: Semantics,
    /// GPUs in each machine (product semantics).
    pub gpus_per_node: u32,
    /// What goes wrong; in the published semantics only forecasts can.
    pub faults: Faults,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Whether forecasts and prices are recorded, for pictures.
    pub record: bool,
}

impl Setup {
    /// A policy in the published semantics, with the default forecast, without faults.
    #[must_use]
    pub fn published(gpus: u32, policy: &str) -> Self {
        Self {
            gpus,
            policy: policy.to_owned(),
            predictor: predictor::DEFAULT.into(),
            tuning: Tuning::default(),
            semantics: Semantics::Published,
            gpus_per_node: 8,
            faults: Faults::default(),
            seed: 0,
            record: false,
        }
    }
}

/// A simulation that has been run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was simulated.
    pub setup: Setup,
    /// What came of it.
    pub outcome: Outcome,
    /// Time that the simulation took.
    pub wall: Duration,
    /// Time that each decision of the policy took; in the published semantics with the forecasts
    /// for its view.
    pub decisions: Vec<Duration>,
    /// What was recorded on the way.
    pub trail: Trail,
}

/// What a recorded run leaves beside its outcome.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    /// At each decision and for each active job: the job, the share of its epochs done, and its
    /// predicted run time from start to end, seconds.
    pub forecasts: Vec<(JobId, f64, f64)>,
    /// At each decision: when, seconds, and the price of a GPU in the next round.
    pub prices: Vec<(f64, f64)>,
}

impl Run {
    /// What it is called beside other runs.
    #[must_use]
    pub fn label(&self) -> String {
        self.setup.policy.clone()
    }

    /// Mean relative error of the predicted run times by progress, both in percent.
    #[must_use]
    pub fn forecast_errors(&self) -> Vec<(f64, f64)> {
        const BINS: usize = 20;
        let truth: HashMap<JobId, f64> =
            self.outcome.jobs.iter().map(|job| (job.id, job.attained_s)).collect();
        let mut bins = [(0.0, 0_u32); BINS];
        for (id, progress, total_s) in &self.trail.forecasts {
            let Some(true_s) = truth.get(id).filter(|true_s| **true_s > 0.0) else { continue };
            let bin = &mut bins[((progress * BINS as f64) as usize).min(BINS - 1)];
            bin.0 += (total_s / true_s - 1.0).abs();
            bin.1 += 1;
        }
        let percent = 100.0 / BINS as f64;
        (0..BINS)
            .filter(|bin| bins[*bin].1 > 0)
            .map(|bin| {
                let (sum, count) = bins[bin];
                ((bin as f64 + 0.5) * percent, 100.0 * sum / f64::from(count))
            })
            .collect()
    }
}

/// Runs one simulation of a policy that is known by name.
///
/// # Errors
/// [`SimulationError`] when a name does not exist or a job fits on no cluster of this size.
pub fn run(workload: &Workload, setup: &Setup) -> Result<Run, SimulationError> {
    run_policy(workload, setup, policies::tuned(&setup.policy, &setup.tuning)?.as_mut())
}

/// Runs one simulation of any policy, such as a user's own.
///
/// # Errors
/// [`SimulationError`] when a name does not exist or a job fits on no cluster of this size.
pub fn run_policy(
    workload: &Workload,
    setup: &Setup,
    policy: &mut dyn Policy,
) -> Result<Run, SimulationError> {
    run_with(workload, setup, policy, make_predictor(setup, workload)?)
}

/// Runs one simulation of any policy with any predictor.
///
/// # Errors
/// [`SimulationError`] when a job fits on no cluster of this size, when the semantics do not know
/// the faults, or when jobs do not come to their end.
pub fn run_with(
    workload: &Workload,
    setup: &Setup,
    policy: &mut dyn Policy,
    predictor: Box<dyn Predictor>,
) -> Result<Run, SimulationError> {
    if let Some(job) = workload.too_large_for(setup.gpus) {
        let (id, gpus) = (job.spec.id.0, job.spec.gpus);
        return Err(SimulationError::TooLarge { id, gpus, cluster: setup.gpus });
    }
    let forecast = setup.faults.forecast;
    let mut predictor = match forecast > 0.0 {
        true => Box::new(Noisy::new(predictor, forecast, setup.seed)),
        false => predictor,
    };
    let mut watch = Watch::new(setup, workload.jobs.len());
    let begun = Instant::now();
    let outcome = match setup.semantics {
        Semantics::Published if setup.faults.touch_the_cluster() => {
            return Err(SimulationError::Option {
                option: "--faults",
                got: "faults of machines or messages".into(),
                expected: "forecast=PERCENT alone, or --semantics product",
            });
        }
        Semantics::Published => {
            published::simulate(workload, setup.gpus, policy, predictor.as_mut(), &mut watch)
        }
        Semantics::Product => {
            let setting = product::Setting {
                gpus_per_node: setup.gpus_per_node,
                faults: setup.faults,
                seed: setup.seed,
                ..product::Setting::of(setup.gpus)
            };
            product::simulate(workload, &setting, policy, predictor, &mut watch)?
        }
    };
    let wall = begun.elapsed();
    watch.bar.finish_and_clear();
    let Watch { decisions, trail, .. } = watch;
    Ok(Run { setup: setup.clone(), outcome, wall, decisions, trail })
}

fn make_predictor(
    setup: &Setup,
    workload: &Workload,
) -> Result<Box<dyn Predictor>, SimulationError> {
    let name = setup.predictor.as_str();
    if name == "exact" {
        return Ok(Box::new(match setup.semantics {
            Semantics::Published => Exact::new(workload),
            Semantics::Product => Exact::profiled(workload),
        }));
    }
    predictor::by_name(name, predictor::Profile::default()).map_err(|_| {
        SimulationError::Predictor {
            got: name.to_owned(),
            known: format!("{}, exact", predictor::NAMES.join(", ")),
        }
    })
}

/// Follows a simulation: the bar (none when stderr is not a terminal) and the time of decisions.
struct Watch {
    bar: ProgressBar,
    asked: Option<Instant>,
    decisions: Vec<Duration>,
    record: bool,
    trail: Trail,
}

impl Watch {
    fn new(setup: &Setup, jobs: usize) -> Self {
        let bar =
            ProgressBar::with_draw_target(Some(jobs as u64), ProgressDrawTarget::stderr_with_hz(5));
        if let Ok(style) =
            ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} jobs {msg}")
        {
            bar.set_style(style);
        }
        bar.set_prefix(setup.policy.clone());
        let (decisions, trail) = (Vec::new(), Trail::default());
        Self { bar, asked: None, decisions, record: setup.record, trail }
    }
}

impl Observer for Watch {
    fn round_ended(&mut self, now_s: f64, done: usize, _jobs: usize) {
        self.bar.set_position(done as u64);
        self.bar.set_message(format!("{:.1} h", now_s / 3600.0));
    }

    fn deciding(&mut self) {
        self.asked = Some(Instant::now());
    }

    fn decided(&mut self, view: &ClusterView, decision: &Decision, _policy: &dyn Policy) {
        self.decisions.extend(self.asked.take().map(|asked| asked.elapsed()));
        if !self.record {
            return;
        }
        if let Decision::Plan(plan) = decision
            && let Some(price) = plan.appraisal.as_ref().and_then(|it| it.prices.first())
        {
            self.trail.prices.push((view.now_s, *price));
        }
        let forecast =
            |job: &JobView| (job.id, job.epochs_done / job.epochs_total, job.forecast.total_s);
        self.trail.forecasts.extend(view.jobs.iter().map(forecast));
    }
}
