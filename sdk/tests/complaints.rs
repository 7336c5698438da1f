//! What users of other such systems have complained about, as far as no other test has it; docs/guide.md names all.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave_sdk::data::Draw;
use shockwave_sdk::lr::LearningRate;
use shockwave_sdk::monitor::{NoiseEstimate, NoiseSettings};
use shockwave_sdk::optim::Sgd;
use shockwave_sdk::policy::{
    BatchPolicy, Gns, GnsRule, Needs, Observation, Static, Target, TargetPolicy,
};
use shockwave_sdk::{Batch, Dataset, Error, Outcome, Output, Session};
use tch::nn::{self, Module};
use tch::{Device, Tensor};

/// Memory of this process that is in use, in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    // SAFETY: no arguments but a constant.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

#[test]
fn memory_does_not_grow_over_thousands_of_steps() {
    for adam in [false, true] {
        // 250,000 parameters: a leak of one buffer in every hundred steps would be 10 MB.
        let _guard = alone();
        let vs = nn::VarStore::new(Device::Cpu);
        let net = nn::linear(vs.root(), 192, 1300, Default::default());
        let needs = Needs { layer_norms: true, noise: true, every_steps: Some(50) };
        let policy = GrowAt { from: 2, to: 2, at_step: 0, needs, decisions: 0 };
        let mut session = Session::builder(&vs, optimizer(adam), policy)
            .epochs(30)
            .noise(NoiseSettings { every_steps: 3, beta: 0.99 })
            .clip_norm(1.0)
            .output(Output::Quiet)
            .handle_signals(false)
            .build(Images::new(100))
            .unwrap();
        let mut after = Vec::new();
        while let Some(_epoch) = session.next_epoch().unwrap() {
            while let Some(batch) = session.next_batch().unwrap() {
                let loss = |b: &Batch| net.forward(&b.x.flatten(1, -1)).square().mean(None);
                session.step(&batch, loss).unwrap();
            }
            session.end_epoch([] as [(&str, f64); 0]).unwrap();
            after.push(resident_bytes());
        }
        assert_eq!(session.steps(), 1500);
        let (early, late) = (after[9], after[29]);
        assert!(late < early + 8_000_000, "adam {adam}: {early} bytes, 1000 steps later {late}");
    }
}

/// The batch sizes that a policy goes through while the noise scale wanders by a fifth around `centre`.
fn course(mut policy: impl BatchPolicy, centre: f64, seed: u64) -> Vec<u64> {
    let none = BTreeMap::new();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sizes = vec![policy.initial()];
    for epoch in 0..300 {
        let b_noise = centre * rng.random_range(0.8..1.25);
        let (batch, samples) = (*sizes.last().unwrap(), 100 * (epoch + 1));
        let interval = (0.75 * b_noise, 1.33 * b_noise);
        let estimate =
            NoiseEstimate { s: b_noise, g2: 1.0, b_noise, interval, cosine: 0.5, samples };
        let now = Observation {
            epoch,
            epoch_ended: true,
            epochs: 300,
            step: 0,
            sample: 0,
            batch,
            lr: 1.0,
            next_lr: 1.0,
            rate: 1.0,
            metrics: &none,
            loss: 1.0,
            layer_norms: None,
            noise: Some(&estimate),
        };
        let next = policy.decide(&now).unwrap().batch;
        if next != batch {
            sizes.push(next);
        }
    }
    sizes
}

#[test]
fn the_batch_does_not_flap_when_the_noise_scale_wanders_around_a_rung() {
    for (seed, centre) in [(1, 64.0), (2, 70.0), (3, 58.0), (4, 128.0), (5, 100.0)] {
        let rule = GnsRule::Bound { kappa: 1.0, hysteresis: 0.05, dwell: 1 };
        let bound = course(Gns::new(16, 512).rule(rule), centre, seed);
        let test = TargetPolicy::new(Target::NormTest { theta: 1.0 }, 16, 512);
        let test = course(test, centre, seed);
        let diversity = TargetPolicy::new(Target::Diversity { scale: 1.0 }, 16, 512);
        let diversity = course(diversity, centre, seed);
        let doubling = course(Gns::new(16, 512), centre, seed);
        for sizes in [bound, test, diversity, doubling] {
            assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "around {centre}: {sizes:?}");
        }
    }
}

#[test]
fn a_stop_before_the_first_step_and_one_in_the_warm_up_are_seen_at_once() {
    let run = |folder: &std::path::Path, stop_at: Option<u64>| {
        with_session(
            optimizer(false),
            GrowAt { from: 8, to: 32, at_step: 5, needs: every(1), decisions: 0 },
            Images::new(96),
            |b| {
                let lr = LearningRate::new().warmup_epochs(2.0);
                b.epochs(3).learning_rate(lr).checkpoints(folder)
            },
            |mut session, vs, net| {
                if stop_at == Some(0) {
                    session.stop_handle().stop("asked before the first step");
                }
                train(&mut session, net, stop_at).unwrap();
                let (steps, rate) = (session.steps(), session.learning_rate());
                (steps, rate, bytes(&session, vs), session.finish().unwrap())
            },
        )
        .unwrap()
    };
    let whole = tempfile::tempdir().unwrap();
    let (_, _, expected, _) = run(whole.path(), None);
    for stop_at in [0, 6] {
        let folder = tempfile::tempdir().unwrap();
        let (steps, rate, _, outcome) = run(folder.path(), Some(stop_at));
        assert!(is_yield(&outcome) && steps == stop_at, "{steps} steps, {outcome:?}");
        // Half way from 0.05 to four times that.
        assert!(stop_at == 0 || (rate > 0.051 && rate < 0.19), "no warm-up: {rate}");
        let (_, _, got, outcome) = run(folder.path(), None);
        assert_eq!(outcome, Outcome::Finished);
        assert!(got == expected, "stopped at {stop_at}");
    }
}

fn every(steps: u64) -> Needs {
    Needs { every_steps: Some(steps), ..Needs::default() }
}

/// Takes its time for each batch.
struct Slow(Images);

impl Dataset for Slow {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        self.0.batch(indices)
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        std::thread::sleep(Duration::from_millis(20));
        self.0.training_batch(indices, draw)
    }
}

#[test]
fn steps_samples_and_throughput_count_batches_and_not_micro_batches() {
    let folder = tempfile::tempdir().unwrap();
    let _guard = alone();
    let vs = nn::VarStore::new(Device::Cpu);
    let net = nn::linear(vs.root(), 192, 4, Default::default());
    let mut session = Session::builder(&vs, Sgd::new(0.1), Static::new(20))
        .epochs(2)
        .micro_batch(5)
        .metrics(folder.path())
        .output(Output::Quiet)
        .handle_signals(false)
        .build(Slow(Images::new(100)))
        .unwrap();
    let mut passes = 0;
    while let Some(_epoch) = session.next_epoch().unwrap() {
        while let Some(batch) = session.next_batch().unwrap() {
            let mut loss = |b: &Batch| -> Tensor {
                passes += 1;
                net.forward(&b.x.flatten(1, -1)).cross_entropy_for_logits(&b.y)
            };
            let step = session.step(&batch, &mut loss).unwrap();
            assert_eq!(step.samples, 20);
        }
        session.end_epoch([] as [(&str, f64); 0]).unwrap();
    }
    assert_eq!((passes, session.steps()), (40, 10));
    session.finish().unwrap();
    let text = std::fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let epochs: Vec<_> = lines.filter(|line| line["kind"] == "epoch").collect();
    for (index, epoch) in epochs.iter().enumerate() {
        let done = 5 * (index as u64 + 1);
        assert_eq!((&epoch["step"], &epoch["sample"]), (&done.into(), &(20 * done).into()));
        // Five batches of 20 ms each and more: counting passes would give four times as much.
        let rate = epoch["samples_per_s"].as_f64().unwrap();
        assert!(rate > 0.0 && rate <= 100.0 / 0.1, "{rate} samples a second");
    }
    assert_eq!(epochs.len(), 2);
}
