//! The ceiling on the samples of a forward pass, and batches that are fetched ahead.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use common::{GrowAt, Images, alone, bytes, optimizer, train, with_session};
use shockwave_sdk::optim::Sgd;
use shockwave_sdk::policy::{Needs, Static};
use shockwave_sdk::session::{Builder, Every};
use shockwave_sdk::{Batch, Error, Output, Session};
use tch::nn::{self, Module};
use tch::{Device, TchError, Tensor};

/// How a device says that its memory is full.
#[derive(Clone, Copy)]
enum Full {
    Error,
    Panic,
}

/// Weights, the ceiling that was found, and the size of each pass.
type Trained = (Vec<f32>, Option<usize>, Vec<usize>);

/// Trains three steps of 40 samples on a device that holds 11 at a time; weights and what was found.
fn trained(
    full: Option<Full>,
    settings: impl FnOnce(Builder<'_>) -> Builder<'_>,
) -> Result<Trained, Error> {
    let _guard = alone();
    tch::manual_seed(1);
    let vs = nn::VarStore::new(Device::Cpu);
    let net = nn::linear(vs.root(), 192, 4, Default::default());
    let builder = Session::builder(&vs, Sgd::new(0.1).momentum(0.9), Static::new(40));
    let builder = builder.seed(5).output(Output::Quiet).handle_signals(false).offline();
    let mut session = settings(builder).build(Images::new(120))?;
    let mut passes = Vec::new();
    session.next_epoch()?;
    while let Some(batch) = session.next_batch()? {
        session.step(&batch, |b: &Batch| {
            passes.push(b.len());
            if b.len() > 11 {
                let message = "CUDA out of memory. Tried to allocate 20.00 MiB";
                match full {
                    Some(Full::Error) => return Err(TchError::Torch(message.into())),
                    // As tch's plain methods do.
                    Some(Full::Panic) => panic!("{}", TchError::Torch(message.into())),
                    None => {}
                }
            }
            // Random numbers as of dropout: a repeated step must draw the same.
            let x = b.x.flatten(1, -1).dropout(0.2, true);
            Ok(net.forward(&x).cross_entropy_for_logits(&b.y))
        })?;
    }
    let weights = Vec::try_from(session.arena().params()).unwrap();
    Ok((weights, session.micro_batch(), passes))
}

#[test]
fn the_ceiling_is_found_and_the_steps_are_as_if_it_had_been_given() {
    for full in [Full::Error, Full::Panic] {
        let (found, ceiling, passes) = trained(Some(full), |b| b.find_micro_batch()).unwrap();
        // 40 fails, then 20, then 10 at a time is held.
        assert_eq!(ceiling, Some(10));
        assert_eq!(passes[..4], [40, 20, 10, 10]);
        assert_eq!(passes[2..], [10; 12]);
        let (given, _, _) = trained(Some(full), |b| b.micro_batch(10)).unwrap();
        assert_eq!(found, given);
    }
}

#[test]
fn without_a_ceiling_to_find_the_error_is_the_programs() {
    let error = trained(Some(Full::Error), |b| b).unwrap_err().to_string();
    assert!(error.contains("out of memory"), "{error}");
    let (_, ceiling, passes) = trained(None, |b| b.find_micro_batch()).unwrap();
    assert_eq!((ceiling, passes), (None, vec![40; 3]));
}

/// Trains to the end or to a stop, with batches fetched ahead or not; all bytes, and the samples in their order.
fn run(
    folder: Option<&std::path::Path>,
    ahead: usize,
    stop_at: Option<u64>,
) -> Vec<(String, Vec<u8>)> {
    let needs = Needs { noise: true, layer_norms: true, every_steps: Some(3) };
    let policy = GrowAt { from: 6, to: 14, at_step: 9, needs, decisions: 0 };
    with_session(
        optimizer(true),
        policy,
        Images::new(100),
        |b| {
            let b = b.epochs(3).prefetch(ahead).checkpoint_every(Every::Steps(1000));
            match folder {
                Some(folder) => b.checkpoints(folder),
                None => b,
            }
        },
        |mut session, vs, net| {
            train(&mut session, net, stop_at).unwrap();
            bytes(&session, vs)
        },
    )
    .unwrap()
}

#[test]
fn batches_fetched_ahead_change_no_bit_also_after_a_resume() {
    let plain = run(None, 0, None);
    assert_eq!(run(None, 1, None), plain);
    assert_eq!(run(None, 5, None), plain);
    // Stops before and after the batch has grown, and in the last epoch.
    for stop_at in [4, 10, 25] {
        let folder = tempfile::tempdir().unwrap();
        run(Some(folder.path()), 4, Some(stop_at));
        assert_eq!(run(Some(folder.path()), 4, None), plain, "stopped at {stop_at}");
    }
}

#[test]
fn the_policys_eigenvalue_is_that_of_the_loss() {
    let _guard = alone();
    let vs = nn::VarStore::new(Device::Cpu);
    // Mean square of w: the Hessian is 2/n times the unit matrix, here 0.5.
    let w = vs.root().var("w", &[4], nn::Init::Const(1.0));
    let mut session = Session::builder(&vs, Sgd::new(0.1), Static::new(10))
        .output(Output::Quiet)
        .handle_signals(false)
        .offline()
        .build(Images::new(20))
        .unwrap();
    session.next_epoch().unwrap();
    let batch = session.next_batch().unwrap().unwrap();
    let loss = |_: &Batch| -> Tensor { w.square().mean(tch::Kind::Float) };
    let found = session.top_eigenvalue(&batch, loss, Default::default()).unwrap();
    assert!((found.value - 0.5).abs() < 1e-6 && found.converged, "{found:?}");
    // Training goes on as if it had not been asked.
    session.step(&batch, loss).unwrap();
    let weights: Vec<f32> = Vec::try_from(&w.detach()).unwrap();
    assert!(weights.iter().all(|w| (w - 0.95).abs() < 1e-6), "{weights:?}");
}
