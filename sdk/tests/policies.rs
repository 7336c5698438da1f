//! The policies on hand-made observations, and in short runs.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use std::collections::BTreeMap;

use common::*;
use shockwave_sdk::Outcome;
use shockwave_sdk::checkpoint::Checkpoints;
use shockwave_sdk::lr::{BatchRule, LearningRate, Schedule};
use shockwave_sdk::monitor::{NoiseEstimate, NoiseSettings};
use shockwave_sdk::policy::{
    Accordion, AccuracyGuard, BatchPolicy, Compose, Expert, Gns, GnsRule, Mode, Observation,
    Static, Target, TargetPolicy,
};
use shockwave_sdk::session::{Best, Every};

/// An observation at the end of `epoch` with nothing measured.
fn at<'a>(epoch: u64, batch: u64, metrics: &'a BTreeMap<String, f64>) -> Observation<'a> {
    Observation {
        epoch,
        epoch_ended: true,
        epochs: 100,
        step: 10 * epoch,
        sample: 1000 * epoch,
        batch,
        lr: 1.0,
        next_lr: 1.0,
        rate: 0.1,
        metrics,
        loss: 2.0,
        layer_norms: None,
        noise: None,
    }
}

fn noise(b_noise: f64, interval: (f64, f64), samples: u64) -> NoiseEstimate {
    NoiseEstimate { s: b_noise, g2: 1.0, b_noise, interval, cosine: 0.5, samples }
}

/// The batch sizes of the epochs after each of `values`, given to the policy as norms of one variable.
fn accordion(mut policy: Accordion, norms: &[f64], drops: &[usize]) -> Vec<u64> {
    let none = BTreeMap::new();
    let mut batch = policy.initial();
    let observe = |(epoch, norm): (usize, &f64)| {
        let norms = [*norm];
        let next_lr = if drops.contains(&epoch) { 0.1 } else { 1.0 };
        let now =
            Observation { layer_norms: Some(&norms), next_lr, ..at(epoch as u64, batch, &none) };
        batch = policy.decide(&now).unwrap().batch;
        batch
    };
    norms.iter().enumerate().map(observe).collect()
}

#[test]
fn accordion_moves_between_two_sizes_with_guards_and_drops() {
    let quiet = [1.0; 12];
    let plain = || Accordion::new(8, 64).window(2).across_changes(true);
    let large_from = |sizes: Vec<u64>| -> Vec<usize> {
        sizes.iter().enumerate().filter(|(_, b)| **b == 64).map(|(e, _)| e + 1).collect()
    };
    // Checked after epochs 0 (critical), 2, 4, ..: large from epoch 3 on.
    assert_eq!(large_from(accordion(plain(), &quiet, &[])), (3..=12).collect::<Vec<_>>());
    // A drop for epoch 6 forces small until the check after epoch 6.
    assert_eq!(large_from(accordion(plain(), &quiet, &[5])), [3, 4, 5, 7, 8, 9, 10, 11, 12]);
    // A drop at a check overrides it: small until the check after epoch 6.
    assert_eq!(large_from(accordion(plain(), &quiet, &[4])), [3, 4, 7, 8, 9, 10, 11, 12]);
    assert_eq!(large_from(accordion(plain().guard_first(10), &quiet, &[])), [10, 11, 12]);
    assert_eq!(large_from(accordion(plain().guard_first_share(0.11), &quiet, &[])), [11, 12]);
    // Within 2 epochs before and after the decay at epoch 8: epochs 6 to 9.
    assert_eq!(
        large_from(accordion(plain().guard_decays([8], 2), &quiet, &[])),
        [3, 4, 5, 10, 11, 12]
    );
    // Norms that move by half or more are critical: down again after the check at epoch 6.
    let moving = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3];
    assert_eq!(large_from(accordion(plain(), &moving, &[])), [3, 4, 5, 6, 9, 10, 11, 12]);
}

#[test]
fn accordion_compares_norms_of_one_batch_size_only() {
    let sizes = |policy: Accordion, norms: &[f64], drops: &[usize]| accordion(policy, norms, drops);
    let own = || Accordion::new(8, 64).window(2);
    // Large from epoch 3 on; there the norm triples and stays: published, a critical regime; here, another scale.
    let tripled = [1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0];
    assert_eq!(sizes(own(), &tripled, &[]), [8, 8, 64, 64, 64, 64, 64, 64, 64]);
    assert_eq!(sizes(own().across_changes(true), &tripled, &[])[4], 8);
    // The norm of the first check at the large batch is what the next one is compared with.
    let moving = [1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    assert_eq!(sizes(own(), &moving, &[]), [8, 8, 64, 64, 64, 64, 8, 8, 8, 8, 64]);
    // A drop makes it small at once, and it stays so until two checks have seen the small batch.
    assert_eq!(sizes(own(), &[1.0; 11], &[5]), [8, 8, 64, 64, 64, 8, 8, 8, 64, 64, 64]);
}

#[test]
fn gns_doubles_when_the_noise_scale_exceeds_its_mean_of_ten_epochs() {
    let none = BTreeMap::new();
    let mut policy = Gns::new(16, 100);
    let mut batch = 16;
    let mut changes = Vec::new();
    // Rises until epoch 34, then falls: checks after epochs 10, 20 and 30 double; the one after 40 does not.
    for epoch in 0..60 {
        let scale = if epoch < 35 { 50.0 + epoch as f64 } else { 200.0 - 3.0 * epoch as f64 };
        let estimate = noise(scale, (scale - 1.0, scale + 1.0), epoch);
        let choice = policy
            .decide(&Observation { noise: Some(&estimate), ..at(epoch, batch, &none) })
            .unwrap();
        if choice.batch != batch {
            changes.push((epoch + 1, choice.batch));
            assert_eq!(choice.estimate, Some(scale));
        }
        batch = choice.batch;
    }
    assert_eq!(changes, [(11, 32), (21, 64), (31, 100)]);
    assert_eq!(policy.declare().configurations, [16, 32, 64, 100]);
}

#[test]
fn the_bound_rule_acts_on_the_interval_and_dwells() {
    let none = BTreeMap::new();
    let rule = GnsRule::Bound { kappa: 1.0, hysteresis: 0.05, dwell: 2 };
    let mut policy = Gns::new(16, 256).rule(rule);
    let mut decide = |epoch, batch, low, high| {
        let estimate = noise(100.0, (low, high), 100);
        policy
            .decide(&Observation { noise: Some(&estimate), ..at(epoch, batch, &none) })
            .unwrap()
            .batch
    };
    assert_eq!(decide(0, 16, 90.0, 110.0), 16, "dwell: one epoch is not enough");
    assert_eq!(
        decide(1, 16, 33.0, f64::INFINITY),
        16,
        "a wide interval does not act: 33 is within 5 % of 32"
    );
    assert_eq!(decide(2, 16, 90.0, 110.0), 64, "the largest that fits");
    assert_eq!(decide(3, 64, 10.0, 20.0), 64, "dwell");
    assert_eq!(decide(4, 64, 10.0, 66.0), 64, "64 is within 5 % of the upper end");
    assert_eq!(decide(5, 64, 10.0, 40.0), 32, "surely too large");
}

#[test]
fn targets_follow_their_formulas() {
    let none = BTreeMap::new();
    let decide = |target, batch, estimate: NoiseEstimate| {
        let mut policy = TargetPolicy::new(target, 16, 1024);
        policy.check().unwrap();
        policy.decide(&Observation { noise: Some(&estimate), ..at(3, batch, &none) }).unwrap().batch
    };
    // theta 0.5: four times the noise scale of 100 is 400, its lower end 380: the largest rung below is 256.
    assert_eq!(decide(Target::NormTest { theta: 0.5 }, 16, noise(100.0, (95.0, 105.0), 50)), 256);
    assert_eq!(
        decide(Target::NormTest { theta: 0.5 }, 16, noise(100.0, (95.0, 105.0), 5)),
        16,
        "too few samples"
    );
    // lr 0.1 * S 4000 / loss 2 = 200.
    let s4000 = NoiseEstimate { s: 4000.0, ..noise(100.0, (95.0, 105.0), 50) };
    assert_eq!(decide(Target::Cabs, 16, s4000), 128);
    assert_eq!(decide(Target::Diversity { scale: 1.0 }, 16, noise(100.0, (95.0, 105.0), 50)), 64);
    assert_eq!(decide(Target::Diversity { scale: 1.0 }, 256, noise(100.0, (95.0, 105.0), 50)), 64);
    // The estimate's cosine is 0.5.
    assert_eq!(decide(Target::SimiGrad { cosine: 0.7 }, 64, noise(100.0, (95.0, 105.0), 50)), 128);
    assert_eq!(decide(Target::SimiGrad { cosine: 0.3 }, 64, noise(100.0, (95.0, 105.0), 50)), 32);
    assert_eq!(decide(Target::SimiGrad { cosine: 0.51 }, 64, noise(100.0, (95.0, 105.0), 50)), 64);
}

#[test]
fn compositions_take_the_first_change_or_the_smaller_batch() {
    let none = BTreeMap::new();
    let table = |entries: &[(u64, u64)]| Expert::new(entries.iter().copied());
    let (a, b) = (|| table(&[(0, 8), (2, 16), (4, 64)]), || table(&[(0, 8), (3, 32)]));
    let run = |mode| {
        let mut policy = Compose::new(mode, a(), b());
        policy.check().unwrap();
        let mut batch = policy.initial();
        (0..5)
            .map(|e| {
                batch = policy.decide(&at(e, batch, &none)).unwrap().batch;
                batch
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(Mode::Both), [8, 8, 16, 32, 32]);
    // The first speaks whenever its answer differs from the batch in use.
    assert_eq!(run(Mode::First), [8, 16, 32, 64, 32]);
    let mismatch = Compose::new(Mode::Both, Static::new(8), Static::new(9));
    assert!(
        mismatch.check().unwrap_err().to_string().contains("second policy's initial batch is 9")
    );
}

#[test]
fn the_accuracy_guard_falls_back_for_good_and_says_so() {
    let mut policy = AccuracyGuard::new(Expert::new([(0, 8), (2, 64)]), "loss", 0.1, 2);
    let losses = [1.0, 0.8, 0.85, 0.95, 0.95, 0.7, 0.6];
    let mut batch = 8;
    let mut sizes = Vec::new();
    for (epoch, loss) in losses.iter().enumerate() {
        let metrics = BTreeMap::from([("loss".to_owned(), *loss)]);
        let choice = policy.decide(&at(epoch as u64, batch, &metrics)).unwrap();
        if epoch == 4 {
            assert!(
                choice.reason.contains("accuracy guard: loss worse than 0.8"),
                "{}",
                choice.reason
            );
        }
        batch = choice.batch;
        sizes.push(batch);
    }
    // Best of the small phase 0.8, limit 0.88: worse after epochs 3 and 4.
    assert_eq!(sizes, [8, 64, 64, 64, 8, 8, 8]);
    let empty = BTreeMap::new();
    let error = policy.decide(&at(7, 8, &empty)).unwrap_err().to_string();
    assert!(error.contains("metric 'loss' is missing"), "{error}");
}

#[test]
fn the_state_of_every_policy_survives_a_checkpoint() {
    let policies: Vec<fn() -> Box<dyn BatchPolicy>> = vec![
        || Box::new(Static::new(8)),
        || Box::new(Expert::new([(0, 8), (7, 64)])),
        || Box::new(Accordion::new(8, 64).window(3)),
        || Box::new(Gns::new(8, 64)),
        || {
            Box::new(Gns::new(8, 64).rule(GnsRule::Bound {
                kappa: 1.0,
                hysteresis: 0.05,
                dwell: 2,
            }))
        },
        || Box::new(TargetPolicy::new(Target::NormTest { theta: 1.0 }, 8, 64)),
        || Box::new(Compose::new(Mode::Both, Accordion::new(8, 64).window(3), Gns::new(8, 64))),
        || Box::new(AccuracyGuard::new(Gns::new(8, 64), "loss", 0.0, 1)),
    ];
    for make in policies {
        let mut whole = make();
        let mut batch = whole.initial();
        let mut parted = make();
        for epoch in 0..40u64 {
            let metrics = BTreeMap::from([("loss".to_owned(), 1.0 + (epoch as f64 * 0.7).sin())]);
            let scale = 30.0 + 20.0 * (epoch as f64 * 0.3).sin();
            let estimate = noise(scale, (scale - 5.0, scale + 5.0), 12 * epoch);
            let norms = [2.0 + (epoch as f64 * 0.4).sin(), f64::NAN];
            let now = Observation {
                noise: Some(&estimate),
                layer_norms: Some(&norms[..1 + usize::from(epoch == 20)]),
                ..at(epoch, batch, &metrics)
            };
            // The second one is thrown away and restored from text after each decision.
            let text = serde_json::to_string(&parted.state()).unwrap();
            parted = make();
            parted.restore(&serde_json::from_str(&text).unwrap()).unwrap();
            let (a, b) = (whole.decide(&now).unwrap(), parted.decide(&now).unwrap());
            assert_eq!(a, b, "{} after epoch {epoch}", whole.kind());
            batch = a.batch;
        }
        let stranger = serde_json::json!({"something": "else"});
        let stateless = whole.state().is_null();
        assert!(stateless || whole.restore(&stranger).is_err(), "{} takes anything", whole.kind());
    }
}

#[test]
fn a_run_under_gns_grows_its_batch_and_accumulates() {
    let rule = GnsRule::Bound { kappa: 4.0, hysteresis: 0.05, dwell: 1 };
    let lr = LearningRate::new().rule(BatchRule::AdaScale);
    let folder = tempfile::tempdir().unwrap();
    with_session(
        optimizer(false),
        Gns::new(4, 64).rule(rule),
        Images::new(400),
        |b| {
            b.epochs(6)
                .noise(NoiseSettings { every_steps: 2, beta: 0.95 })
                .learning_rate(lr)
                .micro_batch(16)
                .checkpoints(folder.path())
                .keep_last(1)
                .keep_best("accuracy", Best::Highest)
        },
        |mut s, _, net| {
            train(&mut s, net, None).unwrap();
            assert!(s.batch_size() > 4, "noise {:?}", s.noise());
            let gain = s.learning_rate() / 0.05;
            assert!(gain > 1.0 && gain < s.batch_size() as f64 / 4.0, "AdaScale's gain is {gain}");
            assert_eq!(s.finish().unwrap(), Outcome::Finished);
        },
    )
    .unwrap();
    let checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
    let best = checkpoints.best().unwrap().unwrap();
    let names: Vec<String> = checkpoints.list().unwrap().iter().map(ToString::to_string).collect();
    assert!(names.contains(&best.checkpoint) && names.len() <= 2, "{names:?} without {best:?}");
}

#[test]
fn simigrad_grows_with_micro_batches_too() {
    // Wanted more alike than any half batch is: it must climb whatever the noise is measured from.
    for micro in [None, Some(4)] {
        let policy = TargetPolicy::new(Target::SimiGrad { cosine: 0.999 }, 16, 64);
        with_session(
            optimizer(false),
            policy,
            Images::new(400),
            |b| {
                let b = b.epochs(5).noise(NoiseSettings { every_steps: 2, beta: 0.9 });
                match micro {
                    Some(samples) => b.micro_batch(samples),
                    None => b,
                }
            },
            |mut s, _, net| {
                train(&mut s, net, None).unwrap();
                let cosine = s.noise().unwrap().cosine;
                assert!((-1.0..=1.0).contains(&cosine), "{micro:?}: {cosine}");
                assert_eq!(s.batch_size(), 64, "{micro:?}: {:?}", s.decisions());
            },
        )
        .unwrap();
    }
}

#[test]
fn accordion_in_a_run_uses_norms_that_can_be_compared_across_batch_sizes() {
    // With a step of zero the gradient's sum over an epoch stays nearly the same: quiet from the second check on, and
    // still quiet after the change, although there are four times fewer steps.
    let sgd = Box::new(shockwave_sdk::optim::Sgd::new(0.0));
    with_session(
        sgd,
        Accordion::new(10, 40).window(1).eta(0.8),
        Images::new(200),
        |b| b.epochs(6),
        |mut s, _, net| {
            train(&mut s, net, None).unwrap();
            let changes: Vec<_> = s.decisions().iter().map(|d| (d.epoch, d.new_batch)).collect();
            assert_eq!(changes, [(2, 40)], "{:?}", s.decisions());
        },
    )
    .unwrap();
}

#[test]
fn a_drop_of_the_learning_rate_reaches_accordion() {
    let lr = LearningRate::new().schedule(Schedule::Step(vec![(4.0, 0.1)]));
    let sgd = Box::new(shockwave_sdk::optim::Sgd::new(1e-9));
    let settings = Accordion::new(10, 40).window(3).eta(0.9);
    with_session(
        sgd,
        settings,
        Images::new(100),
        |b| b.epochs(8).learning_rate(lr).checkpoint_every(Every::Epochs(9)),
        |mut s, _, net| {
            train(&mut s, net, None).unwrap();
            let changes: Vec<_> = s.decisions().iter().map(|d| (d.epoch, d.new_batch)).collect();
            // The check after epoch 3 coincides with the drop for epoch 4: small until the check after epoch 6.
            assert_eq!(changes, [(7, 40)], "{:?}", s.decisions());
            assert!(
                s.learning_rate() > 3.9e-10 && s.learning_rate() < 4.1e-10,
                "a tenth, times four"
            );
        },
    )
    .unwrap();
}
