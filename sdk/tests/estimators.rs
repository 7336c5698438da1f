//! The noise scale against problems whose gradient and covariance are known.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use shockwave_sdk::data::Draw;
use shockwave_sdk::monitor::{NoiseAverage, NoiseSample, NoiseSettings};
use shockwave_sdk::optim::Sgd;
use shockwave_sdk::policy::Needs;
use shockwave_sdk::session::Builder;
use shockwave_sdk::{Batch, Dataset, Error, Output, Session};
use tch::{Device, Kind, Tensor, nn};

/// An endless source of samples `x = mean + sd * normal`, one coordinate each; the targets are unused.
struct Normal {
    mean: Tensor,
    sd: Tensor,
    len: usize,
}

impl Dataset for Normal {
    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        self.training_batch(indices, Draw { seed: 0, epoch: 0 })
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        // One seed per batch: batches are never repeated here.
        tch::manual_seed((draw.epoch * 1_000_003 + indices[0] as u64) as i64);
        let n = indices.len() as i64;
        let x = Tensor::randn([n, self.mean.numel() as i64], (Kind::Float, Device::Cpu));
        Ok(Batch::new(x * &self.sd + &self.mean, Tensor::zeros([n], (Kind::Float, Device::Cpu))))
    }
}

fn policy(batch: u64) -> common::GrowAt {
    let needs = Needs { noise: true, ..Needs::default() };
    common::GrowAt { from: batch, to: batch, at_step: 0, needs, decisions: 0 }
}

fn sum_of_squares(t: &Tensor) -> f64 {
    t.to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[])
}

/// Trains one weight vector on `loss` and hands the session and the weights to `each` after every step.
fn run(
    data: Normal,
    lr: f64,
    batch: u64,
    settings: impl FnOnce(Builder<'_>) -> Builder<'_>,
    loss: impl Fn(&Tensor, &Batch) -> Tensor,
    mut before: impl FnMut(&Tensor),
) -> Session {
    let _guard = common::alone();
    let vs = nn::VarStore::new(Device::Cpu);
    let w = vs.root().zeros("w", &[data.mean.numel() as i64]);
    let builder = Session::builder(&vs, Sgd::new(lr), policy(batch)).shuffle(false);
    let builder = builder.output(Output::Quiet).handle_signals(false);
    let mut session = settings(builder).build(data).unwrap();
    while session.next_epoch().unwrap().is_some() {
        while let Some(batch) = session.next_batch().unwrap() {
            before(&w);
            session.step(&batch, |b| loss(&w, b)).unwrap();
        }
        session.end_epoch([("none", 0.0)]).unwrap();
    }
    session
}

/// A covariance with a spread spectrum: standard deviations from 0.3 to 3.
fn spread(d: i64) -> Tensor {
    (Tensor::linspace(-0.52, 0.48, d, (Kind::Float, Device::Cpu)) * std::f64::consts::LN_10).exp()
}

/// The loss `w . x` has the per-sample gradient `x`: the gradient's mean and covariance are those of the data.
fn linear(w: &Tensor, b: &Batch) -> Tensor {
    b.x.matmul(w).mean(Kind::Float)
}

fn known(d: i64, ratio: f64, batch: u64) -> (Normal, f64, f64) {
    let sd = spread(d);
    let s = sum_of_squares(&sd);
    // |G|^2 such that the noise scale is `ratio` times the batch.
    let level = (s / (ratio * batch as f64) / d as f64).sqrt();
    let mean = Tensor::full([d], level, (Kind::Float, Device::Cpu));
    let g2 = sum_of_squares(&mean);
    (Normal { mean, sd, len: 100_000 }, s, g2)
}

#[test]
fn no_bias_over_1e5_samples_with_two_halves() {
    let (data, s, g2) = known(1024, 1.0, 100);
    let session = run(
        data,
        0.0,
        100,
        |b| b.noise(NoiseSettings { every_steps: 1, beta: 0.99999 }),
        linear,
        |_| (),
    );
    let e = session.noise().unwrap();
    assert_eq!(e.samples, 1000);
    eprintln!("S {:+.4} G2 {:+.4}", e.s / s - 1.0, e.g2 / g2 - 1.0);
    assert!(
        (e.s / s - 1.0).abs() < 0.01 && (e.g2 / g2 - 1.0).abs() < 0.01,
        "{e:?}, truth {s} {g2}"
    );
}

#[test]
fn no_bias_over_1e5_samples_with_micro_batches() {
    let (data, s, g2) = known(1024, 1.0, 100);
    // 100 samples in parts of at most 30: four parts of 25.
    let noise = NoiseSettings { every_steps: 1, beta: 0.99999 };
    let session = run(data, 0.0, 100, |b| b.noise(noise).micro_batch(30), linear, |_| ());
    let e = session.noise().unwrap();
    eprintln!("S {:+.4} G2 {:+.4}", e.s / s - 1.0, e.g2 / g2 - 1.0);
    assert!(
        (e.s / s - 1.0).abs() < 0.01 && (e.g2 / g2 - 1.0).abs() < 0.01,
        "{e:?}, truth {s} {g2}"
    );
}

#[test]
fn ratio_within_a_tenth_after_200_steps_at_ten_batches() {
    for ratio in [1.0, 3.0, 10.0] {
        let (mut data, s, g2) = known(4096, ratio, 32);
        data.len = 200 * 32;
        let noise = NoiseSettings { every_steps: 1, beta: 0.99 };
        let session = run(data, 0.0, 32, |b| b.noise(noise), linear, |_| ());
        let error = session.noise().unwrap().b_noise / (s / g2) - 1.0;
        eprintln!("noise scale {ratio} batches: error {error:+.3}");
        assert!(error.abs() <= 0.10, "ratio {ratio}: {error:+.3}");
    }
}

/// A moving optimum: loss 1/2 |h (w - x)|^2 has the gradient h^2 (w - x); at its noise floor the true gradient is small.
#[test]
fn at_most_five_percent_bias_on_the_moving_quadratic() {
    let (d, batch, steps) = (16_384i64, 2u64, 12_000usize);
    for lr in [0.01, 0.1, 1.0] {
        let ones = Tensor::ones([d], (Kind::Float, Device::Cpu));
        let data = Normal { mean: ones.zeros_like(), sd: ones, len: steps * batch as usize };
        let loss = |w: &Tensor, b: &Batch| {
            (w - &b.x).square().sum(Kind::Float) * (0.5 / b.x.size()[0] as f64)
        };
        let truth = std::cell::Cell::new((0.0, 0u32));
        // Curvature 1, so L = 1. The first steps go from zero to the noise floor; all are compared with the truth.
        let noise = NoiseSettings { every_steps: 1, beta: 1.0 - 1e-9 };
        let session = run(
            data,
            lr,
            batch,
            |b| b.noise(noise),
            loss,
            |w| {
                let (sum, n) = truth.get();
                truth.set((sum + sum_of_squares(w), n + 1));
            },
        );
        let (sum, n) = truth.get();
        let (s, g2) = (d as f64, sum / f64::from(n));
        let e = session.noise().unwrap();
        let bias = (e.s / s - 1.0, e.g2 / g2 - 1.0);
        eprintln!(
            "lr {lr}/L: B_noise/B {:.0}, bias S {:+.4} G2 {:+.4}",
            s / g2 / 2.0,
            bias.0,
            bias.1
        );
        assert!(bias.0.abs() <= 0.05 && bias.1.abs() <= 0.05, "lr {lr}: {bias:?}");
    }
}

#[test]
fn the_interval_covers_the_truth_in_90_to_98_percent_of_runs() {
    let _guard = common::alone();
    let (runs, steps) = (1000usize, 200i64);
    // (effective dimension, noise scale over half batch): from few dimensions and much noise to many and little.
    for (d, ratio) in [(30i64, 1.0), (30, 4.0), (300, 1.0), (300, 10.0), (3000, 10.0)] {
        let mut covered = 0;
        let half = 16.0;
        let g2: f64 = 1.0;
        let s = ratio * 2.0 * half * g2;
        let level = (g2 / d as f64).sqrt();
        let sd = (s / half / d as f64).sqrt();
        let runs = if d > 1000 { 200 } else { runs };
        for run in 0..runs {
            tch::manual_seed(run as i64 * 7919 + d);
            let normal = || Tensor::randn([steps, d], (Kind::Float, Device::Cpu)) * sd + level;
            let (a, b) = (normal(), normal());
            let dots =
                Vec::<f64>::try_from((&a * &b).sum_dim_intlist(1, false, Kind::Double)).unwrap();
            let gaps = (&a - &b).square().sum_dim_intlist(1, false, Kind::Double);
            let gaps = Vec::<f64>::try_from(gaps).unwrap();
            let mut average = NoiseAverage::new(0.99);
            for (dot, gap) in dots.iter().zip(gaps) {
                average.add(NoiseSample { s: gap * half / 2.0, g2: *dot, cosine: f64::NAN });
            }
            let (low, high) = average.estimate().unwrap().interval;
            covered += usize::from(low <= s / g2 && s / g2 <= high);
        }
        let share = covered as f64 / runs as f64;
        eprintln!("d {d}, noise {ratio} batches: {:.1} % of {runs} intervals cover", 100.0 * share);
        assert!((0.90..=0.98).contains(&share), "d {d}, ratio {ratio}: {share}");
    }
}
