//! Data parallel training: several workers against one process, stops, other numbers of workers, a dead worker.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::workers::{TASK, run, run_all};
use common::{GrowAt, Images};
use serde::{Deserialize, Serialize};
use shockwave_sdk::gradient::LossScale;
use shockwave_sdk::optim::Sgd;
use shockwave_sdk::policy::Needs;
use shockwave_sdk::session::Every;
use shockwave_sdk::{Error, Output, Session};
use tch::nn::{self, Module};
use tch::{Device, Tensor};

/// What a run leaves behind.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Left {
    outcome: String,
    exact: bool,
    steps: u64,
    batch: u64,
    /// All parameters, one after the other.
    weights: Vec<f32>,
    /// (epoch, sample) in the order in which this worker saw them.
    seen: Vec<(u64, usize)>,
    /// Mean loss of the epochs.
    losses: Vec<f64>,
    /// S and G2 of the noise scale.
    noise: Option<(f64, f64)>,
    /// The cosine between two halves of a batch.
    cosine: Option<f64>,
}

/// How a run is set up, as a variable of the workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Setup {
    samples: usize,
    from: u64,
    to: u64,
    folder: Option<String>,
    /// (rank, step) at which a worker is asked to stop.
    stop: Option<(usize, u64)>,
    /// (rank, step) at which a worker dies.
    die: Option<(usize, u64)>,
    /// The factor on the loss.
    scale: Option<f64>,
}

impl Setup {
    fn new(samples: usize, from: u64, to: u64) -> Self {
        Self { samples, from, to, folder: None, stop: None, die: None, scale: None }
    }

    fn in_folder(&self, folder: &Path) -> Self {
        Self { folder: Some(folder.to_str().unwrap().to_owned()), ..self.clone() }
    }

    /// What every worker printed in a run of `size` workers.
    fn run(&self, size: usize) -> Vec<Left> {
        let text = serde_json::to_string(self).unwrap();
        let told = run_all("train", size, &[(SETUP, &text)]);
        told.iter().map(|text| left(text)).collect()
    }

    /// One process. One of its own, since libtorch's generators are shared by the tests of a program.
    fn alone(&self) -> Left {
        self.run(1).remove(0)
    }
}

const SETUP: &str = "SHOCKWAVE_TEST_SETUP";
const EPOCHS: u64 = 3;

fn left(text: &str) -> Left {
    let line = text.lines().find_map(|line| line.strip_prefix("left: ")).unwrap();
    serde_json::from_str(line).unwrap()
}

/// A network without BatchNorm and dropout, which see a batch in parts differently.
fn network(vs: &nn::Path) -> impl Module + use<> {
    let first = nn::linear(vs / "first", 192, 16, Default::default());
    let second = nn::linear(vs / "second", 16, 4, Default::default());
    nn::func(move |x| x.flatten(1, -1).apply(&first).tanh().apply(&second))
}

fn train(setup: &Setup, rank: usize) -> Result<Left, Error> {
    // Not the same on all workers: they must begin with rank 0's values all the same.
    tch::manual_seed(1 + rank as i64);
    let vs = nn::VarStore::new(Device::Cpu);
    let net = network(&vs.root());
    let data = Images::new(setup.samples);
    let seen = data.seen.clone();
    let needs = Needs { layer_norms: true, noise: true, every_steps: None };
    let policy = GrowAt { from: setup.from, to: setup.to, at_step: 9, needs, decisions: 0 };
    let sgd = Sgd::new(0.05).momentum(0.9).weight_decay(5e-4);
    let mut builder = Session::builder(&vs, sgd, policy)
        .epochs(EPOCHS)
        .seed(5)
        .output(Output::Quiet)
        .checkpoint_every(Every::Epochs(100))
        .handle_signals(false);
    if let Some(folder) = &setup.folder {
        builder = builder.checkpoints(folder);
    }
    if let Some(scale) = setup.scale {
        builder = builder.loss_scale(LossScale::Fixed(scale));
    }
    let mut session = builder.build(data)?;
    let mut losses = Vec::new();
    while let Some(_epoch) = session.next_epoch()? {
        let (mut sum, mut count) = (0.0, 0);
        while let Some(batch) = session.next_batch()? {
            let step =
                session.step(&batch, |b| net.forward(&b.x).cross_entropy_for_logits(&b.y))?;
            sum += step.loss.double_value(&[]) * step.samples as f64;
            count += step.samples;
            if setup.stop == Some((rank, session.steps())) {
                session.stop_handle().stop("the test asked");
            }
            if setup.die == Some((rank, session.steps())) {
                std::process::exit(0);
            }
        }
        losses.push(sum / count as f64);
        // Only rank 0's metrics count.
        session.end_epoch([("accuracy", 0.5 + rank as f64)])?;
    }
    let metrics: Vec<f64> = session.metrics().values().copied().collect();
    assert!(metrics.iter().all(|&value| value == 0.5), "{metrics:?}");
    let named: BTreeMap<String, Tensor> = vs.variables().into_iter().collect();
    let weights: Vec<Tensor> = named.values().map(|t| t.flatten(0, -1)).collect();
    let weights = Tensor::cat(&weights, 0);
    let (exact, steps, batch) = (session.is_exact(), session.steps(), session.batch_size());
    let noise = session.noise().map(|noise| (noise.s, noise.g2));
    let cosine = session.noise().map(|noise| noise.cosine).filter(|cosine| cosine.is_finite());
    let weights = Vec::<f32>::try_from(weights.detach())?;
    let seen = seen.lock().unwrap().clone();
    let outcome = format!("{:?}", session.finish()?);
    Ok(Left { outcome, exact, steps, batch, weights, seen, losses, noise, cosine })
}

/// Not a test by itself: what a started worker does.
#[test]
fn worker() {
    if std::env::var(TASK).is_err() {
        return;
    }
    let setup: Setup = serde_json::from_str(&std::env::var(SETUP).unwrap()).unwrap();
    let rank: usize = std::env::var("RANK").unwrap().parse().unwrap();
    match train(&setup, rank) {
        Ok(left) => println!("left: {}", serde_json::to_string(&left).unwrap()),
        Err(error) => println!("error: {error}"),
    }
    println!("task done");
}

fn assert_close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-5 + 1e-4 * a.abs(), "{a} and {b}");
    }
}

/// Every sample of each epoch exactly once.
fn assert_each_once<'a>(seen: impl IntoIterator<Item = &'a Left>, samples: usize) {
    let mut all: Vec<(u64, usize)> = seen.into_iter().flat_map(|left| left.seen.clone()).collect();
    all.sort_unstable();
    let expected: Vec<_> = (0..EPOCHS).flat_map(|e| (0..samples).map(move |s| (e, s))).collect();
    assert_eq!(all, expected);
}

fn compare(setup: &Setup, size: usize) -> (Left, Vec<Left>) {
    let alone = setup.alone();
    let workers = setup.run(size);
    for worker in &workers {
        assert_eq!(worker.weights, workers[0].weights, "workers differ");
        assert_eq!((worker.steps, worker.batch), (alone.steps, alone.batch));
        assert_eq!(worker.losses, workers[0].losses);
        assert_close(&worker.weights, &alone.weights);
        for (a, b) in worker.losses.iter().zip(&alone.losses) {
            assert!((a - b).abs() < 1e-5, "{a} and {b}");
        }
    }
    (alone, workers)
}

#[test]
fn two_and_four_workers_end_as_one_process_does() {
    // 12 a step, from the second epoch's end on 30: growth, and shares of different lengths.
    let setup = Setup::new(90, 12, 30);
    for size in [2, 4] {
        let (alone, workers) = compare(&setup, size);
        assert_eq!((alone.batch, alone.outcome.as_str()), (30, "Finished"));
        assert_each_once(&workers, 90);
        // The noise scale comes from every step for free, and is the same on all.
        assert!(workers.iter().all(|worker| worker.noise == workers[0].noise));
        let ((s, g2), (alone_s, alone_g2)) = (workers[0].noise.unwrap(), alone.noise.unwrap());
        assert!((0.3..3.0).contains(&(s / alone_s)) && g2.abs() < 10.0 * alone_g2.abs().max(s));
    }
}

#[test]
fn simigrads_cosine_is_known_to_any_number_of_workers() {
    let setup = Setup::new(96, 12, 12);
    let cosine = |size: usize| {
        let workers = setup.run(size);
        let cosine = workers[0].cosine.unwrap();
        assert!(workers.iter().all(|worker| worker.cosine == Some(cosine)));
        cosine
    };
    let [two, four] = [2, 4].map(cosine);
    assert!((two - four).abs() < 0.3 && two > 0.0 && two < 1.0, "{two} and {four}");
}

#[test]
fn a_loss_scale_that_is_a_power_of_two_changes_no_bit() {
    let setup = Setup::new(90, 12, 30);
    let scaled = Setup { scale: Some(512.0), ..setup.clone() };
    // Weights, losses and the noise scale of the workers' own norms.
    assert_eq!(scaled.run(2), setup.run(2));
}

#[test]
fn last_batch_may_have_fewer_samples_than_workers() {
    // 8 + 8 + 8 + 8 + 1.
    compare(&Setup::new(33, 8, 8), 4);
}

#[test]
fn all_stop_at_the_same_step_and_any_number_goes_on() {
    let setup = Setup::new(90, 12, 30);
    let whole = setup.alone();
    for (first, then) in [(2, 2), (2, 3), (3, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let setup = setup.in_folder(folder.path());
        // Not the chief is asked, in the middle of the second epoch.
        let stopped = Setup { stop: Some((first - 1, 11)), ..setup.clone() }.run(first);
        for worker in &stopped {
            assert_eq!(worker.steps, 11);
            assert!(worker.outcome.starts_with("Yielded"), "{}", worker.outcome);
        }
        let resumed = if then == 1 { vec![setup.alone()] } else { setup.run(then) };
        assert_each_once(stopped.iter().chain(&resumed), 90);
        assert_eq!(resumed[0].exact, first == then, "{first} workers, then {then}");
        assert_close(&resumed[0].weights, &whole.weights);
        if first == then {
            let straight = setup_without_folder(&setup).run(first);
            assert_eq!(resumed[0].weights, straight[0].weights, "not the same bytes");
        }
    }
}

fn setup_without_folder(setup: &Setup) -> Setup {
    Setup { folder: None, ..setup.clone() }
}

#[test]
fn dead_worker_ends_the_others_with_an_error() {
    let setup = Setup { die: Some((1, 5)), ..Setup::new(90, 12, 12) };
    let text = serde_json::to_string(&setup).unwrap();
    let told = run("train", 3, &[(SETUP, &text)]);
    for rank in [0, 2] {
        assert!(
            told[rank].1.contains("A worker has ended or cannot be reached"),
            "{}",
            told[rank].1
        );
    }
}
