//! Clipping, skipping and loss scaling, against numbers worked out by hand and against runs without them.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use common::alone;
use shockwave_sdk::gradient::LossScale;
use shockwave_sdk::optim::{AdamW, Optimizer, Sgd};
use shockwave_sdk::policy::{Gns, Static};
use shockwave_sdk::session::{Builder, Every};
use shockwave_sdk::{Batch, Dataset, Error, Output, Precision, Session};
use tch::nn::{self, Init, VarStore};
use tch::{Device, Kind, Tensor};

/// Rows of four numbers, the same one in each; the target is not used.
#[derive(Clone)]
struct Rows(Vec<f32>);

impl Dataset for Rows {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        let x: Vec<f32> = indices.iter().map(|&i| self.0[i]).collect();
        let x = Tensor::from_slice(&x);
        Ok(Batch::new(x.unsqueeze(1).expand([-1, 4], false).contiguous(), x))
    }
}

/// A weight `w` of four elements, all 1, whose loss on a row x is `c . w x`: its gradient is c times the mean of x.
struct Linear {
    vs: VarStore,
    w: Tensor,
    c: Tensor,
}

impl Linear {
    fn new(c: [f32; 4]) -> Self {
        let vs = VarStore::new(Device::Cpu);
        let w = vs.root().var("w", &[4], Init::Const(1.0));
        Self { vs, w, c: Tensor::from_slice(&c) }
    }

    fn session(
        &self,
        optimizer: Box<dyn Optimizer>,
        rows: &Rows,
        batch: u64,
        settings: impl FnOnce(Builder<'_>) -> Builder<'_>,
    ) -> Session {
        let builder = Session::builder(&self.vs, optimizer, Static::new(batch));
        let builder = builder.shuffle(false).output(Output::Quiet).handle_signals(false);
        settings(builder.offline()).build(rows.clone()).unwrap()
    }

    fn loss(&self, batch: &Batch) -> Tensor {
        (&batch.x * &self.w * &self.c)
            .sum_dim_intlist([1i64].as_slice(), false, None::<Kind>)
            .mean(None::<Kind>)
    }

    /// Trains an epoch; the weights after each step.
    fn epoch(&self, session: &mut Session) -> Vec<Vec<f32>> {
        session.next_epoch().unwrap();
        let mut weights = Vec::new();
        while let Some(batch) = session.next_batch().unwrap() {
            session.step(&batch, |b| self.loss(b)).unwrap();
            weights.push(Vec::try_from(&self.w.detach()).unwrap());
        }
        session.end_epoch([("none", 0.0)]).unwrap();
        weights
    }
}

fn sgd() -> Box<dyn Optimizer> {
    Box::new(Sgd::new(1.0))
}

fn momentum() -> Box<dyn Optimizer> {
    Box::new(Sgd::new(0.1).momentum(0.9).weight_decay(1e-2))
}

fn adamw() -> Box<dyn Optimizer> {
    Box::new(AdamW::new(0.01))
}

#[test]
fn a_long_gradient_is_shortened_and_a_short_one_stays() {
    let _guard = alone();
    let linear = Linear::new([3.0, 0.0, 4.0, 0.0]);
    // Norms 5, 0.5 and 50 with a limit of 1: the first and the last become (0.6, 0, 0.8, 0).
    let rows = Rows(vec![1.0, 0.1, 10.0]);
    let mut session = linear.session(sgd(), &rows, 1, |b| b.clip_norm(1.0));
    let weights = linear.epoch(&mut session);
    let expected = [[0.4, 1.0, 0.2, 1.0], [0.1, 1.0, -0.2, 1.0], [-0.5, 1.0, -1.0, 1.0]];
    for (got, wanted) in weights.iter().zip(expected) {
        for (g, w) in got.iter().zip(wanted) {
            assert!((g - w).abs() < 2e-6, "{got:?}, expected {wanted:?}");
        }
    }
    // PyTorch's clip_grad_norm_ divides by the norm + 1e-6: 3/5.000001 = 0.59999988.
    assert!((f64::from(1.0 - weights[0][0]) - 0.599_999_88).abs() < 6e-8);
    assert_eq!(session.host_reads(), 1);
}

#[test]
fn a_limit_that_is_never_reached_changes_no_bit() {
    let _guard = alone();
    let rows = Rows((1..20).map(|i| 0.01 * i as f32).collect());
    for optimizer in [momentum, adamw] {
        let run = |settings: fn(Builder<'_>) -> Builder<'_>| {
            let linear = Linear::new([0.3, -0.2, 0.7, 0.1]);
            let mut session = linear.session(optimizer(), &rows, 2, settings);
            linear.epoch(&mut session)
        };
        assert_eq!(run(|b| b), run(|b| b.clip_norm(1e6)));
    }
}

#[test]
fn steps_that_are_not_finite_are_as_if_they_had_not_been() {
    let _guard = alone();
    let finite: Vec<f32> = vec![0.5, -0.25, 0.75, 0.3, -0.6, 0.2];
    for (name, optimizer) in [("sgd", momentum as fn() -> _), ("adamw", adamw)] {
        // Steps of one row each; three of them overflow, the first among them.
        let run = |rows: Vec<f32>| {
            let linear = Linear::new([0.3, -0.2, 0.7, 0.1]);
            let rows = Rows(rows);
            let mut session = linear.session(optimizer(), &rows, 1, |b| b.skip_non_finite(true));
            let weights = linear.epoch(&mut session);
            let moments: Vec<Vec<f32>> =
                session.buffers().values().map(|t| Vec::try_from(t).unwrap()).collect();
            (weights, moments, session.skipped_steps(), session.host_reads())
        };
        let (plain, moments, skipped, _) = run(finite.clone());
        assert_eq!(skipped, 0);
        let mut rows = finite.clone();
        rows.insert(4, f32::INFINITY);
        rows.insert(2, f32::NAN);
        rows.insert(0, f32::NEG_INFINITY);
        let (mut with, with_moments, skipped, reads) = run(rows);
        assert_eq!((skipped, reads), (3, 1), "{name}");
        assert_eq!(with.remove(0), vec![1.0; 4], "{name}: the first step is left out");
        for index in [2, 4] {
            assert_eq!(with[index], with[index - 1], "{name}: step {index} is left out");
            with.remove(index);
        }
        assert_eq!(with, plain, "{name}");
        assert_eq!(with_moments, moments, "{name}");
    }
}

#[test]
fn a_gate_changes_nothing_in_finite_steps() {
    let _guard = alone();
    let rows = Rows((1..40).map(|i| (i as f32).sin()).collect());
    for (name, optimizer) in [("sgd", momentum as fn() -> _), ("adamw", adamw)] {
        let run = |skip: bool| {
            let linear = Linear::new([0.3, -0.2, 0.7, 0.1]);
            let mut session = linear.session(optimizer(), &rows, 1, |b| b.skip_non_finite(skip));
            linear.epoch(&mut session).pop().unwrap()
        };
        let (with, without) = (run(true), run(false));
        for (a, b) in with.iter().zip(&without) {
            assert!((a - b).abs() < 1e-6, "{name}: {with:?}, {without:?}");
        }
    }
}

#[test]
fn the_mean_loss_leaves_skipped_steps_out() {
    let _guard = alone();
    let folder = tempfile::tempdir().unwrap();
    let linear = Linear::new([1.0, 0.0, 0.0, 0.0]);
    let rows = Rows(vec![2.0, f32::NAN, 4.0]);
    // A learning rate of 0 keeps w at 1: the losses are the rows.
    let mut session = linear.session(Box::new(Sgd::new(0.0)), &rows, 1, |b| {
        b.skip_non_finite(true).metrics(folder.path())
    });
    linear.epoch(&mut session);
    drop(session);
    let epochs = shockwave_sdk::metrics::history(folder.path()).unwrap();
    assert_eq!((epochs[0].loss, epochs[0].skipped_steps), (3.0, 1));
}

#[test]
fn a_loss_scale_that_is_a_power_of_two_changes_no_bit() {
    let _guard = alone();
    let rows = Rows((1..60).map(|i| (i as f32).cos()).collect());
    let run = |scale| {
        let linear = Linear::new([0.3, -0.2, 0.7, 0.1]);
        let vs = &linear.vs;
        let mut session = Session::builder(vs, momentum(), Gns::new(4, 8))
            .noise(shockwave_sdk::monitor::NoiseSettings { every_steps: 1, beta: 0.9 })
            .loss_scale(scale)
            .skip_non_finite(true)
            .clip_norm(0.5)
            .output(Output::Quiet)
            .handle_signals(false)
            .offline()
            .build(rows.clone())
            .unwrap();
        let weights = linear.epoch(&mut session);
        (weights, session.noise().unwrap())
    };
    let (plain, noise) = run(LossScale::None);
    let (scaled, scaled_noise) = run(LossScale::Fixed(1024.0));
    assert_eq!(plain, scaled);
    assert_eq!(noise, scaled_noise, "the estimators see the true gradient");
}

#[test]
fn a_dynamic_scale_halves_and_doubles() {
    let _guard = alone();
    let nan = f32::NAN;
    let rows = Rows(vec![0.1, 0.1, 0.1, nan, 0.1, nan, nan, 0.1, 0.1]);
    let scale = LossScale::Dynamic { initial: 8.0, growth_interval: 2 };
    let linear = Linear::new([0.3, -0.2, 0.7, 0.1]);
    let folder = tempfile::tempdir().unwrap();
    let mut session =
        linear.session(sgd(), &rows, 1, |b| b.loss_scale(scale).checkpoints(folder.path()));
    session.next_epoch().unwrap();
    let mut scales = Vec::new();
    while let Some(batch) = session.next_batch().unwrap() {
        session.step(&batch, |b| linear.loss(b)).unwrap();
        // A checkpoint reads the numbers.
        session.save().unwrap();
        scales.push(session.loss_scale().unwrap());
    }
    // Two finite ones: 16. One, then one that overflows: 8. The count begins anew after each change.
    assert_eq!(scales, [8.0, 16.0, 16.0, 8.0, 8.0, 4.0, 2.0, 2.0, 4.0]);
    assert_eq!(session.skipped_steps(), 3);
}

#[test]
fn counts_and_scale_survive_a_resume_to_the_last_bit() {
    let _guard = alone();
    let rows =
        Rows((0..24).map(|i| if i % 5 == 3 { f32::NAN } else { (i as f32).sin() }).collect());
    let scale = LossScale::Dynamic { initial: 8.0, growth_interval: 3 };
    let run = |folder: &std::path::Path, stop_at: Option<u64>| {
        let linear = Linear::new([0.3, -0.2, 0.7, 0.1]);
        let mut session = linear.session(adamw(), &rows, 1, |b| {
            b.loss_scale(scale).epochs(2).checkpoints(folder).checkpoint_every(Every::Steps(100))
        });
        while session.next_epoch().unwrap().is_some() {
            while let Some(batch) = session.next_batch().unwrap() {
                session.step(&batch, |b| linear.loss(b)).unwrap();
                if stop_at == Some(session.steps()) {
                    session.stop_handle().stop("the test asked");
                }
            }
            session.end_epoch([("none", 0.0)]).unwrap();
        }
        let weights: Vec<f32> = Vec::try_from(&linear.w.detach()).unwrap();
        (weights, session.skipped_steps(), session.loss_scale())
    };
    let whole = run(tempfile::tempdir().unwrap().path(), None);
    assert_eq!(whole.1, 2 * 5);
    for stop_at in [1, 4, 5, 30] {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), Some(stop_at));
        assert_eq!(run(folder.path(), None), whole, "stopped at {stop_at}");
    }
}

#[test]
fn half_precision_trains_with_weights_in_single_precision() {
    let _guard = alone();
    for precision in [Precision::Bf16, Precision::Fp16] {
        tch::manual_seed(1);
        let vs = VarStore::new(Device::Cpu);
        let net = nn::seq()
            .add(nn::linear(&vs.root() / "a", 4, 32, Default::default()))
            .add_fn(Tensor::relu)
            .add(nn::linear(&vs.root() / "b", 32, 1, Default::default()));
        let rows = Rows((0..64).map(|i| (i as f32 * 0.37).sin()).collect());
        let mut session = Session::builder(&vs, adamw(), Static::new(8))
            .precision(precision)
            .epochs(30)
            .output(Output::Quiet)
            .handle_signals(false)
            .offline()
            .build(rows)
            .unwrap();
        let (mut first, mut last) = (f64::NAN, 0.0);
        while session.next_epoch().unwrap().is_some() {
            while let Some(batch) = session.next_batch().unwrap() {
                let mut kinds = Vec::new();
                let step = session.step(&batch, |b| {
                    let y = b.x.apply(&net);
                    kinds.push(y.kind());
                    (y.squeeze_dim(1).to_kind(Kind::Float) - b.y.square())
                        .square()
                        .mean(Kind::Float)
                });
                last = step.unwrap().loss.double_value(&[]);
                let half = if precision == Precision::Bf16 { Kind::BFloat16 } else { Kind::Half };
                assert_eq!(kinds, [half]);
            }
            if first.is_nan() {
                first = last;
            }
            session.end_epoch([("none", 0.0)]).unwrap();
        }
        assert!(last < first / 3.0, "{precision:?}: {first} to {last}");
        assert_eq!(session.arena().kind(), Kind::Float);
        // fp16 begins with a scale of 65536, and halves it where a scaled gradient exceeds fp16's 65504: with gradients
        // of about 1, a few times.
        let most = if precision == Precision::Bf16 { 0 } else { 16 };
        assert!(session.skipped_steps() <= most, "{precision:?}: {}", session.skipped_steps());
        assert!(session.loss_scale().is_none_or(|scale| scale <= 65_536.0));
        assert_eq!(session.loss_scale().is_some(), precision == Precision::Fp16);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let _guard = alone();
    let refused = |settings: fn(Builder<'_>) -> Builder<'_>| {
        let linear = Linear::new([1.0; 4]);
        let builder = Session::builder(&linear.vs, sgd(), Static::new(1)).handle_signals(false);
        settings(builder.offline()).build(Rows(vec![1.0])).err().unwrap().to_string()
    };
    assert!(refused(|b| b.clip_norm(0.0)).contains("norm to clip gradients to is 0"));
    assert!(refused(|b| b.clip_norm(f64::NAN)).contains("norm to clip gradients to is NaN"));
    assert!(refused(|b| b.loss_scale(LossScale::Fixed(-2.0))).contains("loss scale is -2"));
    let scale = LossScale::Dynamic { initial: 8.0, growth_interval: 0 };
    let refused_scale = {
        let linear = Linear::new([1.0; 4]);
        let builder = Session::builder(&linear.vs, sgd(), Static::new(1)).handle_signals(false);
        builder.offline().loss_scale(scale).build(Rows(vec![1.0])).err().unwrap().to_string()
    };
    assert!(refused_scale.contains("growth interval is 0"), "{refused_scale}");
}
