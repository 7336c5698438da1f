//! Properties that hold for every predictor, on random jobs, progress and history.

use proptest::prelude::*;

use super::{Forecast, Hierarchical, NAMES, Predictor, Profile, Restatement, by_name, regime};
use crate::types::{Adaptation, JobId, JobProgress, JobSpec, RegimeRecord};

fn adaptation() -> impl Strategy<Value = Adaptation> {
    let sizes = (0u32..5, 0u32..5).prop_map(|(low, up)| (8 << low, 8 << (low + up)));
    prop_oneof![
        Just(Adaptation::Static),
        sizes.clone().prop_map(|(small, large)| Adaptation::Accordion { small, large }),
        sizes.prop_map(|(initial, max)| Adaptation::Gns { initial, max }),
        prop::collection::vec((1u32..60, 1u32..512), 0..4).prop_map(|steps| {
            let mut table = vec![(0, 16)];
            for (gap, batch) in steps {
                table.push((table[table.len() - 1].0 + gap, batch));
            }
            Adaptation::Schedule(table)
        }),
    ]
}

/// A job, and what it did so far: regimes as its policy may make them.
fn job() -> impl Strategy<Value = (JobSpec, JobProgress)> {
    let regimes = prop::collection::vec((0.0..60.0, 1.0..100.0, any::<bool>()), 0..6);
    (adaptation(), 1u32..300, 1u32..3, 0usize..2, 0u64..50, regimes).prop_map(
        |(adaptation, epochs_total, gpus, family, id, lengths)| {
            let initial_batch = match &adaptation {
                Adaptation::Static => 32,
                Adaptation::Accordion { small, .. } => *small,
                Adaptation::Gns { initial, .. } => *initial,
                Adaptation::Schedule(table) => table[0].1,
            };
            let spec = JobSpec {
                id: JobId(id),
                gpus,
                weight: 1.0,
                arrival_s: 0.0,
                epochs_total,
                samples_per_epoch: 10_000,
                initial_batch,
                adaptation,
                family: ["resnet", "lm"][family].into(),
            };
            let progress = played(&spec, &lengths);
            (spec, progress)
        },
    )
}

fn played(spec: &JobSpec, lengths: &[(f64, f64, bool)]) -> JobProgress {
    let mut progress = JobProgress::default();
    let mut left = f64::from(spec.epochs_total);
    for (index, (length, epoch_s, measured)) in lengths.iter().enumerate() {
        let batch = match &spec.adaptation {
            Adaptation::Static => spec.initial_batch,
            Adaptation::Accordion { small, large } => [*small, *large][index % 2],
            Adaptation::Gns { initial, max } => (initial << index).min(*max),
            Adaptation::Schedule(table) => table[index.min(table.len() - 1)].1,
        };
        let epochs = length.min(left);
        left -= epochs;
        let epoch_s = measured.then_some(*epoch_s);
        progress.attained_s += epochs * epoch_s.unwrap_or(0.0);
        progress.regimes.push(RegimeRecord { batch, epochs, epoch_s });
    }
    progress
}

/// Every predictor, each after it has seen `history`.
fn predictors(history: &[(JobSpec, JobProgress)]) -> Vec<Box<dyn Predictor>> {
    let mut all: Vec<_> =
        NAMES.iter().filter_map(|name| by_name(name, Profile::default()).ok()).collect();
    for predictor in &mut all {
        for (index, (spec, progress)) in history.iter().enumerate() {
            let spec = JobSpec { id: JobId(1000 + index as u64), ..spec.clone() };
            predictor.observed(&spec, progress);
            if index % 2 == 0 {
                predictor.finished(&spec, progress);
            }
        }
    }
    all
}

fn bounds(adaptation: &Adaptation, initial: u32) -> (u32, u32) {
    match adaptation {
        Adaptation::Static => (initial, initial),
        Adaptation::Accordion { small, large } => (*small, *large),
        Adaptation::Gns { initial, max } => (*initial, *max),
        Adaptation::Schedule(_) => (1, u32::MAX),
    }
}

fn ordered(spec: &JobSpec, batches: &[u32]) -> bool {
    batches.windows(2).all(|pair| match spec.adaptation {
        Adaptation::Gns { .. } => pair[0] < pair[1],
        Adaptation::Accordion { .. } => pair[0] != pair[1],
        _ => true,
    })
}

fn close(x: f64, y: f64) -> bool {
    (x - y).abs() <= 1e-6 * (1.0 + x.abs().max(y.abs()))
}

/// Forecasts without the distribution, whose outcomes may be ordered differently when equal.
fn same(x: &Forecast, y: &Forecast) -> bool {
    x.regimes.len() == y.regimes.len()
        && close(x.left_s, y.left_s)
        && x.regimes.iter().zip(&y.regimes).all(|(x, y)| {
            x.batch == y.batch && close(x.epochs, y.epochs) && close(x.epoch_s, y.epoch_s)
        })
}

proptest! {
    #[test]
    fn forecasts_are_whole_ordered_and_consistent(
        (spec, progress) in job(),
        history in prop::collection::vec(job(), 0..12),
    ) {
        let left = f64::from(spec.epochs_total) - progress.epochs_done();
        let (low, high) = bounds(&spec.adaptation, spec.initial_batch);
        for predictor in predictors(&history) {
            let name = predictor.name();
            let forecast = predictor.forecast(&spec, &progress);
            let epochs: f64 = forecast.regimes.iter().map(|r| r.epochs).sum();
            prop_assert!(close(epochs, left), "{name}: {epochs} ahead, {left} left");
            let time: f64 = forecast.regimes.iter().map(|r| r.epochs * r.epoch_s).sum();
            prop_assert!(close(time, forecast.left_s), "{name}: {time} {}", forecast.left_s);
            prop_assert!(close(forecast.total_s, progress.attained_s + forecast.left_s));
            for regime in &forecast.regimes {
                prop_assert!(regime.epochs >= 0.0 && regime.epoch_s > 0.0, "{name}: {regime:?}");
                prop_assert!((low..=high).contains(&regime.batch), "{name}: {regime:?}");
            }
            let batches: Vec<u32> = forecast.regimes.iter().map(|r| r.batch).collect();
            prop_assert!(ordered(&spec, &batches), "{name}: {batches:?}");
            prop_assert!(forecast.left_upper_s >= forecast.left_s, "{name}");
            prop_assert!(forecast.left_sd_s >= 0.0 && forecast.left_sd_s.is_finite(), "{name}");
            let mut before = 0.0;
            for p in [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95] {
                let quantile = forecast.left.quantile_s(p);
                let least = before - 1e-6 * (1.0 + before);
                prop_assert!(quantile >= least && quantile.is_finite(), "{name} {p}: {quantile}");
                before = quantile;
            }
        }
    }

    #[test]
    fn samples_are_whole_and_reproducible(
        (spec, progress) in job(),
        history in prop::collection::vec(job(), 0..8),
        seed in any::<u64>(),
    ) {
        let left = f64::from(spec.epochs_total) - progress.epochs_done();
        let (low, high) = bounds(&spec.adaptation, spec.initial_batch);
        for predictor in predictors(&history) {
            let trajectories = predictor.sample(&spec, &progress, 5, seed);
            prop_assert_eq!(trajectories.len(), 5);
            prop_assert_eq!(&trajectories, &predictor.sample(&spec, &progress, 5, seed));
            for trajectory in trajectories {
                let epochs: f64 = trajectory.iter().map(|r| r.epochs).sum();
                prop_assert!(close(epochs, left), "{}: {epochs} of {left}", predictor.name());
                for regime in trajectory {
                    prop_assert!(regime.epochs >= 0.0 && regime.epoch_s > 0.0);
                    prop_assert!((low..=high).contains(&regime.batch));
                }
            }
        }
    }

    #[test]
    fn without_history_the_hierarchical_forecast_is_the_papers((spec, progress) in job()) {
        let hierarchical = Hierarchical::default().forecast(&spec, &progress);
        let mut restatement = Restatement::default().forecast(&spec, &progress);
        while restatement.regimes.len() > 1
            && restatement.regimes.last().is_some_and(|r| r.epochs <= 1e-9)
            && hierarchical.regimes.len() < restatement.regimes.len()
        {
            restatement.regimes.pop();
        }
        prop_assert!(same(&hierarchical, &restatement), "{hierarchical:?} {restatement:?}");
    }

    #[test]
    fn a_job_does_not_learn_from_itself(
        (spec, progress) in job(),
        history in prop::collection::vec(job(), 0..8),
    ) {
        for mut predictor in predictors(&history) {
            let before = predictor.forecast(&spec, &progress);
            // Half way: the job is noted, and what is trusted may change only by what it showed.
            let start = JobProgress {
                regimes: progress.regimes.iter().take(1).copied().collect(),
                ..progress.clone()
            };
            predictor.observed(&spec, &start);
            predictor.observed(&spec, &start);
            if start.regimes.len() == progress.regimes.len() {
                prop_assert!(same(&before, &predictor.forecast(&spec, &progress)));
            }
        }
    }

    #[test]
    fn memory_brings_back_every_forecast(
        (spec, progress) in job(),
        history in prop::collection::vec(job(), 0..20),
    ) {
        for predictor in predictors(&history) {
            let Ok(mut again) = by_name(predictor.name(), Profile::default()) else { continue };
            prop_assert!(again.recall(&predictor.memory()).is_ok());
            let (before, after) =
                (predictor.forecast(&spec, &progress), again.forecast(&spec, &progress));
            prop_assert!(same(&before, &after), "{before:?} {after:?}");
            let nonsense = again.recall("{}");
            prop_assert!(nonsense.is_err());
        }
    }

    /// As long as the ongoing regime has not outlasted its share: then the rule splits what is left
    /// anew, and a longer job may spend less of it in a slow regime.
    #[test]
    fn more_epochs_take_longer((spec, progress) in job(), more in 1u32..100) {
        let elapsed = regime::epochs_in_regime(&progress);
        let rest = regime::epochs_left(&spec, &progress) + elapsed;
        prop_assume!(elapsed <= rest / regime::ahead(&spec, &progress).len() as f64);
        let longer = JobSpec { epochs_total: spec.epochs_total + more, ..spec.clone() };
        let rule = Restatement::default();
        let (short, long) = (rule.forecast(&spec, &progress), rule.forecast(&longer, &progress));
        prop_assert!(long.left_s >= short.left_s - 1e-9);
    }
}
