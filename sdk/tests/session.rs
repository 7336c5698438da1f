//! The session's promises: order of calls, host reads, stops, settings that make no sense.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use common::*;
use shockwave_sdk::lr::{LearningRate, Schedule};
use shockwave_sdk::optim::{AdamW, Sgd};
use shockwave_sdk::policy::{Accordion, BatchPolicy, Expert, Gns, Needs, Static};
use shockwave_sdk::session::Builder;
use shockwave_sdk::{Error, Outcome};
use tch::nn::OptimizerConfig;
use tch::{Device, Kind, Tensor, nn};

fn plain() -> Box<Sgd> {
    Box::new(Sgd::new(0.05).momentum(0.9).weight_decay(5e-4))
}

/// Trains and returns (host reads, epochs' decisions made by the policy in the middle of epochs).
fn reads<P: BatchPolicy + 'static>(policy: P, epochs: u64) -> u64 {
    with_session(
        plain(),
        policy,
        Images::new(200),
        |b| b.epochs(epochs),
        |mut s, _, net| {
            train(&mut s, net, None).unwrap();
            s.host_reads()
        },
    )
    .unwrap()
}

#[test]
fn one_host_read_per_epoch_or_decision() {
    assert_eq!(reads(Static::new(10), 3), 3);
    assert_eq!(reads(Accordion::new(10, 20).window(1), 5), 5);
    assert_eq!(reads(Gns::new(2, 20), 4), 4);
    let needs = Needs { layer_norms: true, noise: true, every_steps: Some(4) };
    // 20 steps an epoch: decisions after steps 4, 8, 12, 16 and at the end.
    assert_eq!(reads(GrowAt { from: 10, to: 10, at_step: 0, needs, decisions: 0 }, 2), 10);
}

#[test]
fn one_step_of_each_optimiser_agrees_with_libtorch() {
    // The same model and batches under tch's own optimisers, in a plain loop.
    for adam in [false, true] {
        let ours = with_session(
            if adam { Box::new(AdamW::new(1e-2)) as _ } else { plain() as _ },
            Static::new(20),
            Images::new(200),
            |b| b.epochs(2).shuffle(false),
            |mut s, vs, _| {
                // Without dropout: the plain loop does not reseed.
                let net = || vs.variables();
                while s.next_epoch().unwrap().is_some() {
                    while let Some(b) = s.next_batch().unwrap() {
                        s.step(&b, |b| head(&net(), &b.x).cross_entropy_for_logits(&b.y)).unwrap();
                    }
                    s.end_epoch([("none", 0.0)]).unwrap();
                }
                vs.variables().into_iter().map(|(n, t)| (n, t.detach().copy())).collect::<Vec<_>>()
            },
        )
        .unwrap();
        let theirs = plain_loop(adam);
        for (name, ours) in ours {
            let gap = (&ours - &theirs[&name]).abs().max().double_value(&[]);
            assert!(gap < 1e-6, "{name}: {gap} (adam: {adam})");
        }
    }
}

type Variables = std::collections::HashMap<String, Tensor>;

/// A network without randomness, from the common network's variables.
fn head(v: &Variables, x: &Tensor) -> Tensor {
    let x = x.conv2d(&v["conv.weight"], Some(&v["conv.bias"]), [1, 1], [1, 1], [1, 1], 1).relu();
    let x = x.adaptive_avg_pool2d([1, 1]).flatten(1, -1) * &v["norm.weight"] + &v["norm.bias"];
    x.linear(&v["head.weight"], Some(&v["head.bias"]))
}

fn plain_loop(adam: bool) -> Variables {
    let _guard = alone();
    tch::manual_seed(1);
    let vs = nn::VarStore::new(Device::Cpu);
    let _net = network(&vs.root());
    let mut opt = if adam {
        nn::AdamW { wd: 0.01, ..Default::default() }.build(&vs, 1e-2).unwrap()
    } else {
        nn::Sgd { momentum: 0.9, dampening: 0.0, wd: 5e-4, nesterov: false }
            .build(&vs, 0.05)
            .unwrap()
    };
    let data = Images::new(200);
    for epoch in 0..2 {
        for start in (0..200).step_by(20) {
            let indices: Vec<usize> = (start..start + 20).collect();
            let draw = shockwave_sdk::data::Draw { seed: 5, epoch };
            let batch = shockwave_sdk::Dataset::training_batch(&data, &indices, draw).unwrap();
            opt.backward_step(&head(&vs.variables(), &batch.x).cross_entropy_for_logits(&batch.y));
        }
    }
    vs.variables()
}

#[test]
fn a_stop_in_the_evaluation_repeats_it_after_the_resume() {
    let folder = tempfile::tempdir().unwrap();
    let run = |stop_in_epoch: Option<u64>| {
        with_session(
            plain(),
            Static::new(10),
            Images::new(60),
            |b| b.epochs(3).checkpoints(folder.path()),
            |mut s, _, net| {
                let test = Images::new(40);
                let mut evaluated = Vec::new();
                while let Some(epoch) = s.next_epoch().unwrap() {
                    while let Some(b) = s.next_batch().unwrap() {
                        s.step(&b, |b| net(&b.x, true).cross_entropy_for_logits(&b.y)).unwrap();
                    }
                    let mut batches = 0;
                    for _ in s.evaluation(&test, 10) {
                        batches += 1;
                        if stop_in_epoch == Some(epoch.index) && batches == 2 {
                            s.stop_handle().stop("in the evaluation");
                        }
                    }
                    evaluated.push((epoch.index, batches));
                    s.end_epoch([("batches", f64::from(batches))]).unwrap();
                }
                let metrics = s.metrics().clone();
                (s.finish().unwrap(), evaluated, metrics)
            },
        )
        .unwrap()
    };
    let (outcome, evaluated, metrics) = run(Some(1));
    assert!(is_yield(&outcome));
    assert_eq!(evaluated, [(0, 4), (1, 2)]);
    assert_eq!(metrics["batches"], 4.0, "the cut evaluation's metrics are not used");
    let (outcome, evaluated, _) = run(None);
    assert_eq!((outcome, evaluated), (Outcome::Finished, vec![(1, 4), (2, 4)]));
}

#[test]
fn calls_out_of_order_say_what_to_do() {
    with_session(
        plain(),
        Static::new(10),
        Images::new(30),
        |b| b,
        |mut s, _, net| {
            let order = |e: Error| match e {
                Error::OutOfOrder { call, .. } => call,
                other => panic!("{other}"),
            };
            assert_eq!(order(s.next_batch().unwrap_err()), "next_batch");
            assert_eq!(order(s.end_epoch([("x", 0.0)]).unwrap_err()), "end_epoch");
            s.next_epoch().unwrap();
            assert_eq!(order(s.next_epoch().unwrap_err()), "next_epoch");
            let batch = s.next_batch().unwrap().unwrap();
            assert_eq!(order(s.end_epoch([("x", 0.0)]).unwrap_err()), "end_epoch");
            let loss = |b: &shockwave_sdk::Batch| net(&b.x, true).cross_entropy_for_logits(&b.y);
            let error = s.step(&batch, |b| net(&b.x, true)).unwrap_err();
            assert!(error.to_string().contains("expected a scalar"), "{error}");
            s.step(&batch, loss).unwrap();
            assert_eq!(order(s.step(&batch, loss).unwrap_err()), "step");
            assert_eq!(order(s.finish().unwrap_err()), "finish");
        },
    )
    .unwrap();
}

#[test]
fn a_variable_that_leaves_the_buffers_is_named() {
    with_session(
        plain(),
        Static::new(30),
        Images::new(30),
        |b| b.epochs(9),
        |mut s, vs, _| {
            let name_of = |s: &mut shockwave_sdk::Session| match s.next_epoch() {
                Err(Error::LeftArena { name, what }) => (name, what),
                other => panic!("{other:?}"),
            };
            let mut weight = vs.variables().remove("head.weight").unwrap();
            let flat = s.arena().slots().iter().find(|x| x.name == "head.weight").unwrap().clone();
            weight.zero_grad();
            let _ = vs.variables()["conv.bias"].grad();
            // tch's zero_grad detaches and zeroes in place; dropping the gradient is what its optimisers do.
            let mut opt = nn::Sgd::default().build(vs, 0.1).unwrap();
            opt.zero_grad();
            let (name, what) = name_of(&mut s);
            assert!(what.contains("gradient"), "{name}: {what}");
            assert_eq!(name, "conv.bias", "the first in order of names");
            assert_eq!(flat.len, 32);
        },
    )
    .unwrap();
    with_session(
        plain(),
        Static::new(30),
        Images::new(30),
        |b| b,
        |mut s, vs, _| {
            let _late = vs.root().zeros("late", &[3]);
            let error = s.next_epoch().unwrap_err().to_string();
            assert!(error.contains("'late'") && error.contains("after the session"), "{error}");
        },
    )
    .unwrap();
    with_session(
        plain(),
        Static::new(30),
        Images::new(30),
        |b| b,
        |mut s, vs, _| {
            let mut weight = vs.variables().remove("head.weight").unwrap();
            tch::no_grad(|| weight.set_data(&weight.copy()));
            let error = s.next_epoch().unwrap_err().to_string();
            assert!(error.contains("'head.weight'") && error.contains("moved"), "{error}");
        },
    )
    .unwrap();
}

/// The error of building a session.
fn refused<P: BatchPolicy + 'static>(
    policy: P,
    settings: impl FnOnce(Builder<'_>) -> Builder<'_>,
) -> String {
    with_session(plain(), policy, Images::new(30), settings, |_, _, _| ()).unwrap_err().to_string()
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let cases = [
        (refused(Static::new(0), |b| b), "the batch size is 0"),
        (refused(Static::new(8), |b| b.batch_bounds(64, 8)), "bounds is 64..=8"),
        (refused(Static::new(8), |b| b.batch_bounds(0, 8)), "smallest batch size is 0"),
        (refused(Static::new(8), |b| b.epochs(0)), "number of epochs is 0"),
        (refused(Static::new(8), |b| b.micro_batch(0)), "micro-batch is 0"),
        (
            refused(Accordion::new(64, 8), |b| b),
            "large batch is 8; expected more than the small batch (64)",
        ),
        (refused(Accordion::new(8, 64).window(0), |b| b), "window is 0"),
        (refused(Accordion::new(8, 64).eta(f64::NAN), |b| b), "eta is NaN"),
        (refused(Gns::new(64, 8), |b| b), "maximum is 8"),
        (refused(Expert::new([(3, 8)]), |b| b), "first epoch is 3; expected 0"),
        (
            refused(Static::new(8), |b| b.learning_rate(LearningRate::new().warmup_epochs(-1.0))),
            "warm-up is -1",
        ),
        (
            refused(Static::new(8), |b| {
                b.learning_rate(
                    LearningRate::new().schedule(Schedule::Step(vec![(5.0, 0.1), (5.0, 0.01)])),
                )
            }),
            "steps' epochs is [5.0, 5.0]",
        ),
    ];
    for (got, expected) in cases {
        assert!(got.contains(expected), "{got:?} does not say {expected:?}");
    }
    let bad = |o: Sgd| {
        with_session(Box::new(o), Static::new(8), Images::new(30), |b| b, |_, _, _| ())
            .unwrap_err()
            .to_string()
    };
    assert!(bad(Sgd::new(-0.1)).contains("learning rate is -0.1"));
    assert!(bad(Sgd::new(0.1).momentum(1.0)).contains("momentum is 1"));
    assert!(bad(Sgd::new(0.1).nesterov()).contains("above 0"));
    let empty =
        with_session(plain(), Static::new(8), Images::new(0), |b| b, |_, _, _| ()).unwrap_err();
    assert!(matches!(empty, Error::Data(_)), "{empty}");
}

#[test]
fn models_that_cannot_be_flat_are_refused() {
    let build = |vs: &nn::VarStore| {
        shockwave_sdk::Session::builder(vs, Sgd::new(0.1), Static::new(8))
            .handle_signals(false)
            .build(Images::new(30))
            .err()
            .unwrap()
            .to_string()
    };
    let vs = nn::VarStore::new(Device::Cpu);
    assert!(build(&vs).contains("number of trainable variables is 0"));
    let _a = vs.root().zeros("a", &[2]);
    let b = Tensor::zeros([2], (Kind::Double, Device::Cpu));
    let _b = vs.root().add("b", b, true);
    assert!(build(&vs).contains("variable 'b' cannot be trained"), "{}", build(&vs));
}

#[test]
fn a_batch_larger_than_the_data_is_the_whole_data() {
    with_session(
        plain(),
        Static::new(1000),
        Images::new(30),
        |b| b.epochs(2),
        |mut s, _, net| {
            train(&mut s, net, None).unwrap();
            assert_eq!(s.steps(), 2);
        },
    )
    .unwrap();
}

#[test]
fn the_policy_stays_within_the_users_bounds_and_says_so() {
    let policy = Expert::new([(0, 10), (1, 40)]);
    with_session(
        plain(),
        policy,
        Images::new(60),
        |b| b.epochs(3).batch_bounds(10, 20),
        |mut s, _, net| {
            train(&mut s, net, None).unwrap();
            let decision = &s.decisions()[0];
            assert_eq!((decision.epoch, decision.old_batch, decision.new_batch), (1, 10, 20));
            assert_eq!(decision.sample, 60);
            assert!(
                decision.reason.contains("40 is outside the bounds 10..=20"),
                "{}",
                decision.reason
            );
            // Linear rule: twice the batch, twice the rate.
            assert!((s.learning_rate() - 0.1).abs() < 1e-12);
            assert_eq!(s.steps(), 6 + 3 + 3);
        },
    )
    .unwrap();
}

#[test]
fn resuming_with_narrower_bounds_moves_the_batch_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let run = |max, epochs| {
        let policy = Expert::new([(0, 10), (1, 40)]);
        with_session(
            plain(),
            policy,
            Images::new(60),
            |b| b.epochs(epochs).batch_bounds(10, max).checkpoints(folder.path()),
            |mut s, _, net| {
                let batch = s.batch_size();
                train(&mut s, net, None).unwrap();
                (batch, s.decisions().last().unwrap().reason.clone())
            },
        )
        .unwrap()
    };
    assert_eq!(run(40, 1).0, 10);
    let (batch, reason) = run(20, 2);
    assert_eq!(batch, 20);
    assert!(reason.contains("resumed with the bounds 10..=20"), "{reason}");
}
