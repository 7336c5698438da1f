//! The fluid market: its certificate, and what the paper proves of its equilibrium.
#![allow(clippy::unwrap_used)] // A test that cannot go on should fail.

use proptest::prelude::*;
use shockwave_core::market::{FluidBuyer, FluidMarket, equilibrium};

/// A market whose buyers change their gain per round once, up or down (time-variant utilities).
fn market(capped: bool) -> impl Strategy<Value = FluidMarket> {
    let buyer = (
        prop::sample::select(vec![1.0, 2.0, 4.0]),
        0.001_f64..0.1,
        prop::sample::select(vec![0.25, 0.5, 1.0, 2.0, 4.0]),
        0_usize..12,
        0.0_f64..0.9,
        0.2_f64..5.0,
    );
    (prop::collection::vec(buyer, 2..25), 4_u32..12, 1_usize..12).prop_map(
        move |(buyers, gpus, rounds)| {
            let buyers: Vec<FluidBuyer> = buyers
                .into_iter()
                .map(|(gang, gain, factor, change, owned, budget)| FluidBuyer {
                    budget: if capped { budget } else { 1.0 },
                    gpus: gang,
                    owned: if capped { owned } else { 0.0 },
                    gains: (0..rounds)
                        .map(|t| if t < change { gain } else { gain * factor })
                        .collect(),
                })
                .collect();
            FluidMarket { gpus: f64::from(gpus), rounds, capped, buyers }
        },
    )
}

fn total_budget(market: &FluidMarket) -> f64 {
    market.buyers.iter().map(|buyer| buyer.budget).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Theorem C.1: the solution of eq. 3 with the capacity's duals is an equilibrium: no gap, no
    /// unsold round with a price, purchases within capacity.
    #[test]
    fn the_equilibrium_is_certified(market in prop_oneof![market(true), market(false)]) {
        let found = equilibrium(&market, &|| false);
        let gap = market.dual(&found.prices) - market.welfare(&found.bought);
        let budget = total_budget(&market);
        prop_assert!(gap >= -1e-9 * budget, "gap {gap}");
        prop_assert!(gap <= 1e-6 * budget, "gap {gap} of {budget}");
        let sold = market.sold(&found.bought);
        for (sold, price) in sold.iter().zip(&found.prices) {
            prop_assert!(*sold <= market.gpus * (1.0 + 1e-9));
            prop_assert!((market.gpus - sold) * price <= 1e-6 * budget);
        }
        let highest = found.bought.iter().flatten().copied().fold(0.0, f64::max);
        prop_assert!(!market.capped || highest <= 1.0 + 1e-9);
    }

    /// Corollary 4.0.1 (b): with equal budgets every rho, what an equal share gives over what the
    /// market gives, is at most 1; (a): no other allocation has a smaller product of rho.
    #[test]
    fn equal_budgets_share_fairly(market in market(false), shift in prop::collection::vec(0.0_f64..1.0, 25)) {
        let found = equilibrium(&market, &|| false);
        let jobs = market.buyers.len();
        let equal: Vec<Vec<f64>> = market
            .buyers
            .iter()
            .map(|buyer| vec![market.gpus / (jobs as f64 * buyer.gpus); market.rounds])
            .collect();
        let log_rho = |bought: &[Vec<f64>]| -> f64 {
            (0..jobs)
                .map(|job| (market.utility(job, &equal[job]) / market.utility(job, &bought[job])).ln())
                .sum()
        };
        for (job, (equal, bought)) in equal.iter().zip(&found.bought).enumerate() {
            let rho = market.utility(job, equal) / market.utility(job, bought);
            prop_assert!(rho <= 1.0 + 1e-5, "rho {rho}");
        }
        // Any other way to share all of every round.
        let total: f64 = shift[..jobs].iter().sum::<f64>() + 1e-9;
        let other: Vec<Vec<f64>> = market
            .buyers
            .iter()
            .zip(&shift)
            .map(|(buyer, part)| vec![market.gpus * (part + 1e-9) / (total * buyer.gpus); market.rounds])
            .collect();
        prop_assert!(log_rho(&found.bought) <= log_rho(&other) + 1e-5 * jobs as f64);
    }

    /// Pure markets clear budgets: everybody spends everything, in rounds of the best value.
    #[test]
    fn pure_markets_clear_budgets(market in market(false)) {
        let found = equilibrium(&market, &|| false);
        for (buyer, bought) in market.buyers.iter().zip(&found.bought) {
            let spent: f64 =
                bought.iter().zip(&found.prices).map(|(x, p)| x * p * buyer.gpus).sum();
            prop_assert!((spent - buyer.budget).abs() <= 1e-4 * buyer.budget, "spent {spent}");
        }
    }
}
