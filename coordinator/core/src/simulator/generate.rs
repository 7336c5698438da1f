//! Generated traces: Gavel's generator as the paper uses it (section 8.1), and a workload with the
//! published statistics of Pollux's trace (Appendix J).

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::profiles::{Profiles, Throughputs};
use super::table::InputError;
use super::trace::{Mode, TraceJob};
use super::workload::Workload;

/// How long jobs are (at their first batch size) and how they arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Gavel's: durations evenly spaced, most of them short (72 % from the shortest fifth, 20 % up
    /// to the half, 5 % up to nine tenths, 3 % above); Poisson arrivals.
    Gavel {
        /// Shortest duration, hours.
        min_h: f64,
        /// Longest duration, hours.
        max_h: f64,
        /// How many durations there are.
        choices: u32,
    },
    /// Pollux's: five durations, and arrivals that follow its eight hours, the sixth of which is the
    /// busiest.
    Pollux,
}

/// What a trace is generated from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Number of jobs.
    pub jobs: u32,
    /// Mean time between arrivals, seconds.
    pub gap_s: f64,
    /// Durations and arrivals.
    pub shape: Shape,
    /// Weights of gangs of 1, 2, 4 and 8 GPUs.
    pub gangs: [f64; 4],
    /// Weights of static, Accordion and GNS jobs.
    pub modes: [f64; 3],
    /// Seed; equal seeds give equal traces.
    pub seed: u64,
}

impl Recipe {
    /// The published traces' recipe: 0.2 to 5 h, gangs 0.6 / 0.3 / 0.09 / 0.01, a third of each
    /// mode. All jobs arrive within about 5000 s whatever their number, so that contention is jobs
    /// over GPUs.
    #[must_use]
    pub fn published(jobs: u32, seed: u64) -> Self {
        Self {
            jobs,
            gap_s: 5000.0 / f64::from(jobs.max(1)),
            shape: Shape::Gavel { min_h: 0.2, max_h: 5.0, choices: 100 },
            gangs: [0.6, 0.3, 0.09, 0.01],
            modes: [1.0, 1.0, 1.0],
            seed,
        }
    }

    /// A recipe for a contention of `contention` jobs per GPU.
    #[must_use]
    pub fn contended(gpus: u32, contention: f64, seed: u64) -> Self {
        Self::published((f64::from(gpus) * contention).round().max(1.0) as u32, seed)
    }
}

/// Classes of Pollux's durations, seconds (longer ones cut to 20,000 s as published), and how many of
/// its 160 jobs are in each.
const POLLUX_DURATIONS: [(f64, f64); 5] =
    [(1500.0, 56.0), (4050.0, 68.0), (13_680.0, 15.0), (19_500.0, 15.0), (20_000.0, 6.0)];
/// Arrivals in each of the eight hours of Pollux's trace.
const POLLUX_HOURLY: [f64; 8] = [19.0, 17.0, 13.0, 15.0, 17.0, 42.0, 24.0, 13.0];
/// Accordion jobs that are shorter than this are made static, as published: they would end before
/// their first change.
const ACCORDION_MIN_S: f64 = 1000.0;

/// Generates a trace.
///
/// # Errors
/// [`InputError`] when the tables hold no model that can be used.
pub fn generate(
    recipe: &Recipe,
    profiles: &Profiles,
    throughputs: &Throughputs,
) -> Result<Vec<TraceJob>, InputError> {
    let templates = templates(profiles, throughputs);
    if templates.is_empty() {
        return Err(InputError {
            table: "throughputs",
            line: 1,
            column: "model".into(),
            got: "no model that is also in the data set table".into(),
            expected: "at least one model with a largest batch size and a throughput on 1 GPU"
                .into(),
        });
    }
    let mut rng = ChaCha8Rng::seed_from_u64(recipe.seed);
    let arrivals = arrivals(recipe, &mut rng);
    let mut jobs: Vec<TraceJob> = Vec::with_capacity(arrivals.len());
    for (id, arrival_s) in arrivals.into_iter().enumerate() {
        let (model, batch) = &templates[rng.random_range(0..templates.len())];
        jobs.push(draw_job(recipe, (model, *batch), throughputs, (id as u64, arrival_s), &mut rng));
    }
    let joined = Workload::join(&jobs, profiles, throughputs)?;
    for (job, real) in jobs.iter_mut().zip(&joined.jobs) {
        job.dataset = profiles.datasets[&job.model].name.clone();
        job.num_epochs = Some(real.spec.epochs_total);
        job.exclusive_s = Some((real.exclusive_s * 1e4).round() / 1e4);
    }
    Ok(jobs)
}

/// Every (model, batch size) that runs on one GPU and may grow to a known batch size.
fn templates(profiles: &Profiles, throughputs: &Throughputs) -> Vec<(String, u32)> {
    let mut templates = Vec::new();
    for (model, dataset) in &profiles.datasets {
        let Some(max) = dataset.max_batch else { continue };
        let batches = throughputs.by_batch(model, 1);
        templates.extend(
            batches.into_keys().filter(|batch| *batch <= max).map(|batch| (model.clone(), batch)),
        );
    }
    templates
}

fn draw_job(
    recipe: &Recipe,
    (model, batch): (&str, u32),
    throughputs: &Throughputs,
    (id, arrival_s): (u64, f64),
    rng: &mut ChaCha8Rng,
) -> TraceJob {
    let wanted = [1, 2, 4, 8][draw(&recipe.gangs, rng)];
    let speed = |gpus| throughputs.by_batch(model, gpus).get(&batch).copied();
    let (gpus, steps_per_s) =
        speed(wanted).map_or_else(|| (1, speed(1).unwrap_or(1.0)), |speed| (wanted, speed));
    let duration_s = draw_duration_s(recipe.shape, rng);
    let mode = match [Mode::Static, Mode::Accordion, Mode::Gns][draw(&recipe.modes, rng)] {
        Mode::Accordion if duration_s < ACCORDION_MIN_S => Mode::Static,
        mode => mode,
    };
    TraceJob {
        line: id + 2,
        arrival_s,
        id,
        model: model.to_owned(),
        dataset: String::new(),
        batch,
        gpus,
        total_steps: ((duration_s * steps_per_s) as u64).max(1),
        duration_s: Some(duration_s),
        mode,
        priority: 1.0,
        slo_s: None,
        num_epochs: None,
        exclusive_s: None,
    }
}

fn draw_duration_s(shape: Shape, rng: &mut ChaCha8Rng) -> f64 {
    match shape {
        Shape::Gavel { min_h, max_h, choices } => {
            let class = draw(&[0.72, 0.20, 0.05, 0.03], rng);
            let edges = [0.0, 0.2, 0.5, 0.9, 1.0];
            let edge = |place: usize| (edges[place] * f64::from(choices)).round() as u32;
            let (from, to) = (edge(class), edge(class + 1).max(edge(class) + 1));
            let choice = rng.random_range(from..to).min(choices.saturating_sub(1));
            let step_h = (max_h - min_h) / f64::from(choices.max(2) - 1);
            (3600.0 * (min_h + step_h * f64::from(choice))).round()
        }
        Shape::Pollux => {
            let weights = POLLUX_DURATIONS.map(|class| class.1);
            let (duration_s, _) = POLLUX_DURATIONS[draw(&weights, rng)];
            (duration_s * rng.random_range(0.98..1.02)).round()
        }
    }
}

/// Arrival times, ascending from 0, whole seconds.
fn arrivals(recipe: &Recipe, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut times: Vec<f64> = match recipe.shape {
        Shape::Gavel { .. } => {
            let mut now_s = 0.0;
            (0..recipe.jobs)
                .map(|job| {
                    if job > 0 {
                        now_s += -(1.0 - rng.random::<f64>()).ln() * recipe.gap_s;
                    }
                    now_s
                })
                .collect()
        }
        Shape::Pollux => {
            let hour_s = recipe.gap_s * f64::from(recipe.jobs) / POLLUX_HOURLY.len() as f64;
            (0..recipe.jobs)
                .map(|_| (draw(&POLLUX_HOURLY, rng) as f64 + rng.random::<f64>()) * hour_s)
                .collect()
        }
    };
    times.sort_by(f64::total_cmp);
    let first = times.first().copied().unwrap_or(0.0);
    times.iter().map(|time| (time - first).floor()).collect()
}

/// Draws a place by weight.
fn draw(weights: &[f64], rng: &mut ChaCha8Rng) -> usize {
    let total: f64 = weights.iter().sum();
    let mut mark = rng.random::<f64>() * total;
    for (place, weight) in weights.iter().enumerate() {
        if mark < *weight {
            return place;
        }
        mark -= weight;
    }
    weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)
}
