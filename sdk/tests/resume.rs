//! A run that is stopped and resumed ends with the same bytes as one that was not.
#![allow(clippy::unwrap_used)] // Tests.

mod common;

use common::*;
use shockwave_sdk::Outcome;
use shockwave_sdk::lr::LearningRate;
use shockwave_sdk::monitor::NoiseSettings;
use shockwave_sdk::policy::Needs;
use shockwave_sdk::session::Every;

const SAMPLES: usize = 90;
const EPOCHS: u64 = 4;

fn policy() -> GrowAt {
    // Both kinds of measurements; the change at step 20 falls into the middle of the third epoch.
    let needs = Needs { layer_norms: true, noise: true, every_steps: Some(5) };
    GrowAt { from: 10, to: 25, at_step: 20, needs, decisions: 0 }
}

type Bytes = Vec<(String, Vec<u8>)>;

/// Runs until the end or the stop; returns the outcome, all bytes, the samples seen, and (metrics, decisions) as text.
fn run(
    adam: bool,
    folder: &std::path::Path,
    stop_at: Option<u64>,
) -> (Outcome, Bytes, Vec<(u64, usize)>, String) {
    let data = Images::new(SAMPLES);
    let seen = data.seen.clone();
    with_session(
        optimizer(adam),
        policy(),
        data,
        |b| {
            b.epochs(EPOCHS)
                .noise(NoiseSettings { every_steps: 3, beta: 0.9 })
                .learning_rate(LearningRate::new().warmup_epochs(0.5))
                .checkpoints(folder)
                .checkpoint_every(Every::Epochs(100))
        },
        |mut session, vs, net| {
            train(&mut session, net, stop_at).unwrap();
            let bytes = bytes(&session, vs);
            let text =
                format!("{:?} {:?} {:?}", session.metrics(), session.decisions(), session.noise());
            let seen = seen.lock().unwrap().clone();
            (session.finish().unwrap(), bytes, seen, text)
        },
    )
    .unwrap()
}

fn check(adam: bool) {
    let whole = tempfile::tempdir().unwrap();
    let (outcome, expected, all, text) = run(adam, whole.path(), None);
    assert_eq!(outcome, Outcome::Finished);
    let steps = 9 + 9 + 5 + 4; // 90 samples: 9 of 10 each; the third epoch 2 of 10, then 25s; the last all 25s.
    for stop_at in 1..=steps {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, _, mut seen, _) = run(adam, folder.path(), Some(stop_at));
        assert!(is_yield(&outcome), "stopped at {stop_at}: {outcome:?}");
        let (outcome, got, rest, resumed_text) = run(adam, folder.path(), None);
        assert_eq!(outcome, Outcome::Finished);
        for ((name, a), (_, b)) in expected.iter().zip(&got) {
            assert!(a == b, "{name} differs after a stop at step {stop_at} (adam: {adam})");
        }
        assert_eq!(resumed_text, text, "stopped at {stop_at}");
        seen.extend(rest);
        assert_eq!(seen, all, "samples or their order differ after a stop at step {stop_at}");
        assert_eq!(newest_tensors(folder.path()), newest_tensors(whole.path()));
    }
    for epoch in 0..EPOCHS {
        let mut samples: Vec<usize> = all.iter().filter(|s| s.0 == epoch).map(|s| s.1).collect();
        samples.sort_unstable();
        assert_eq!(samples, (0..SAMPLES).collect::<Vec<_>>());
    }
}

#[test]
fn sgd_resumes_bit_exactly_at_every_step() {
    check(false);
}

#[test]
fn adamw_resumes_bit_exactly_at_every_step() {
    check(true);
}

#[test]
fn many_stops_in_one_run() {
    let whole = tempfile::tempdir().unwrap();
    let (_, expected, all, _) = run(false, whole.path(), None);
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for stop_at in [2, 3, 4, 9, 11, 19, 20, 21, 26] {
        let (outcome, _, part, _) = run(false, folder.path(), Some(stop_at));
        assert!(is_yield(&outcome));
        seen.extend(part);
    }
    let (_, got, part, _) = run(false, folder.path(), None);
    seen.extend(part);
    assert_eq!(seen, all);
    assert!(got == expected);
}
