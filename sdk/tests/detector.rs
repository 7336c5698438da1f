//! Accordion's detector against a re-derivation that looks at whole series instead of keeping a state.
#![allow(clippy::unwrap_used)] // Tests.

use proptest::prelude::*;
use shockwave_sdk::policy::{CriticalDetector, Measure};

/// Whether the epoch after `e` is critical, from the series of norms and of learning-rate drops up to `e`.
fn expected(
    norms: &[Vec<f64>],
    drops: &[bool],
    e: usize,
    w: usize,
    eta: f64,
    measure: Measure,
) -> bool {
    let check = e - e % w;
    if drops[check..=e].contains(&true) || check == 0 {
        return true;
    }
    let (old, new) = (&norms[check - w], &norms[check]);
    let quiet = |a: f64, b: f64| a != 0.0 && ((a - b).abs() / a) < eta;
    match measure {
        Measure::WholeModel => !quiet(old.iter().sum(), new.iter().sum()),
        Measure::L2 => {
            let l2 = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
            !quiet(l2(old), l2(new))
        }
        Measure::Majority => {
            let quiet = old.iter().zip(new).filter(|(a, b)| quiet(**a, **b)).count();
            2 * quiet <= old.len()
        }
    }
}

/// A norm: mostly ordinary, sometimes zero, huge or not a number.
fn norm() -> impl Strategy<Value = f64> {
    prop_oneof![
        16 => 0.01f64..10.0,
        2 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
    ]
}

/// 300 epochs of 3 variables: a slow random walk, so that quiet windows occur, with odd values strewn in.
fn series() -> impl Strategy<Value = (Vec<Vec<f64>>, Vec<bool>)> {
    let layer = (
        prop::collection::vec(0.9f64..1.1, 300),
        prop::collection::vec((0usize..300, norm()), 0..6),
    );
    let layer = layer.prop_map(|(factors, odd)| {
        let mut level = 1.0;
        let mut norms: Vec<f64> = factors
            .iter()
            .map(|f| {
                level *= f;
                level
            })
            .collect();
        for (at, value) in odd {
            norms[at] = value;
        }
        norms
    });
    let drops = prop::collection::vec(prop::bool::weighted(0.02), 300);
    (prop::collection::vec(layer, 3), drops).prop_map(|(layers, drops)| {
        ((0..300).map(|e| layers.iter().map(|l| l[e]).collect()).collect(), drops)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn agrees_with_the_re_derivation((norms, drops) in series(), w in prop::sample::select(vec![5usize, 10])) {
        for measure in [Measure::WholeModel, Measure::Majority, Measure::L2] {
            let mut detector = CriticalDetector::new(w as u64, 0.5, measure);
            for e in 0..300 {
                let got = detector.observe(e as u64, &norms[e], drops[e]);
                prop_assert_eq!(got, expected(&norms, &drops, e, w, 0.5, measure), "epoch {} {:?}", e, measure);
            }
        }
    }
}

#[test]
fn both_regimes_occur_in_the_random_series() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut quiet, mut critical) = (0, 0);
    for _ in 0..50 {
        let (norms, drops) = series().new_tree(&mut runner).unwrap().current();
        for e in 0..300 {
            match expected(&norms, &drops, e, 10, 0.5, Measure::WholeModel) {
                true => critical += 1,
                false => quiet += 1,
            }
        }
    }
    assert!(
        quiet > 2000 && critical > 2000,
        "{quiet} quiet, {critical} critical: the test would be empty"
    );
}

#[test]
fn a_norm_that_settles_switches_at_the_third_check() {
    // The shape of the authors' batch-mode logs (window 10, one switch at epoch 20 that stays): a fast fall in the first
    // ten epochs, then slow.
    let mut detector = CriticalDetector::new(10, 0.5, Measure::WholeModel);
    let norm = |e: u64| if e < 10 { 10.0 - 0.8 * e as f64 } else { 1.9 - 0.004 * (e - 10) as f64 };
    let critical: Vec<bool> = (0..100).map(|e| detector.observe(e, &[norm(e)], false)).collect();
    assert!(critical[..20].iter().all(|c| *c) && critical[20..].iter().all(|c| !c), "{critical:?}");
}
