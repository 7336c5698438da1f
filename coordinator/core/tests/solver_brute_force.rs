//! The solver against exhaustive search on thousands of tiny windows, and its invariants.
#![allow(clippy::unwrap_used)] // A test that cannot go on should fail.

use std::collections::BTreeSet;

use proptest::prelude::*;
use shockwave_core::market::{Buyer, MicroJob, Objective, Window};
use shockwave_core::solver::{Effort, Placement, Plan, Precedence, Program, solve};

/// Whether the counts can be packed: every set of rounds for every job, memoised on what is left.
fn packable(program: &Program, counts: &[usize]) -> bool {
    let rounds = program.rounds;
    let mut states = BTreeSet::from([vec![program.gpus; rounds]]);
    for (item, &count) in program.items.iter().zip(counts) {
        let mut next = BTreeSet::new();
        for state in &states {
            for mask in 0_u32..1 << rounds {
                let fits = (0..rounds).all(|t| mask >> t & 1 == 0 || state[t] >= item.gpus);
                if mask.count_ones() as usize == count && fits {
                    let mut left = state.clone();
                    for (t, free) in left.iter_mut().enumerate() {
                        *free -= (mask >> t & 1) * item.gpus;
                    }
                    left.sort_unstable();
                    next.insert(left);
                }
            }
        }
        states = next;
    }
    !states.is_empty()
}

/// The best objective over all packable counts.
fn best(program: &Program) -> f64 {
    let jobs = program.items.len();
    let mut counts = vec![0; jobs];
    let mut best = f64::NEG_INFINITY;
    loop {
        let objective = program.objective(&counts);
        if objective > best && packable(program, &counts) {
            best = objective;
        }
        let Some(next) = (0..jobs).find(|&job| counts[job] < program.items[job].rounds_max) else {
            return best;
        };
        counts[..next].fill(0);
        counts[next] += 1;
    }
}

fn buyer(gangs: Vec<u32>) -> impl Strategy<Value = Buyer> {
    let regime = (1_u32..40, 20_u32..300)
        .prop_map(|(e, s)| MicroJob { epochs: f64::from(e) / 4.0, epoch_s: f64::from(s) });
    (
        prop::sample::select(gangs),
        prop::collection::vec(regime, 1..4),
        0_u32..20,
        0.3_f64..2.5,
        any::<bool>(),
        0_u32..4000,
        prop::sample::select(vec![0.5, 1.0, 2.0]),
    )
        .prop_map(|(gpus, ahead, done, rho, running, elapsed, weight)| {
            let left: f64 = ahead.iter().map(|part| part.epochs).sum();
            let left_s: f64 = ahead.iter().map(|part| part.epochs * part.epoch_s).sum();
            Buyer {
                gpus,
                weight,
                running,
                epochs_total: f64::from(done) + left,
                epochs_done: f64::from(done),
                trajectories: vec![ahead],
                rho,
                elapsed_s: f64::from(elapsed),
                attained_s: f64::from(elapsed) * 0.4,
                contention: 1.5,
                left_lower_s: left_s,
                left_upper_s: left_s,
            }
        })
}

fn window(gangs: Vec<u32>) -> impl Strategy<Value = Window> {
    (prop::collection::vec(buyer(gangs), 1..5), 1_usize..5, 4_u32..9, 0_usize..4).prop_map(
        |(buyers, rounds, gpus, lambda)| Window {
            gpus,
            rounds,
            round_s: 120.0,
            k: 5.0,
            lambda: [0.0, 1e-3, 0.1, 10.0][lambda],
            buyers,
        },
    )
}

fn check(program: &Program, plan: &Plan) {
    let counts = plan.schedule.counts();
    for (job, &n) in counts.iter().enumerate() {
        assert!(n <= program.items[job].rounds_max);
    }
    assert!(plan.schedule.loads(program).iter().all(|&load| load <= u64::from(program.gpus)));
    assert_eq!(plan.certificate.rounds_lost, 0);
    assert!(plan.certificate.restarts >= plan.certificate.restarts_bound);
    assert_eq!(plan.certificate.objective, program.objective(&counts));
}

fn tiny_plan_is_certified(window: &Window, objective: Objective) -> f64 {
    let program = objective.program(window);
    let ranked = Placement::ByPrecedence(Precedence::default());
    check(&program, &solve(&program, &Effort::default(), ranked, &|| false));
    let plan = solve(&program, &Effort::default(), Placement::FewStarts, &|| false);
    check(&program, &plan);
    let best = best(&program);
    let slack = 1e-9 * best.abs().max(1e-9);
    let certificate = &plan.certificate;
    assert!(certificate.objective <= best + slack, "{} > {best}", certificate.objective);
    assert!(certificate.upper_bound >= best - slack, "{} < {best}", certificate.upper_bound);
    (best - certificate.objective) / best.abs().max(1e-9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn progress_on_chains(window in window(vec![1, 2, 4])) {
        tiny_plan_is_certified(&window, Objective::Progress);
    }

    #[test]
    fn finish_time_on_chains(window in window(vec![1, 2, 4])) {
        tiny_plan_is_certified(&window, Objective::FinishTime);
    }

    #[test]
    fn any_gangs(window in window(vec![1, 2, 3, 4])) {
        tiny_plan_is_certified(&window, Objective::Progress);
        tiny_plan_is_certified(&window, Objective::FinishTime);
    }
}
