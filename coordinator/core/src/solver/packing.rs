//! From round counts to rounds, exactly.
//!
//! Capacity over the window is not enough (8 GPUs, 2 rounds, gangs 8 and 1 with 1 and 2 rounds).
//! When gang sizes form a divisibility chain, placing the largest gang first, each job into its
//! least-loaded rounds, finds a packing whenever there is one: loads stay as level as they can be.

use std::cmp::Reverse;

use super::{Program, Schedule};

/// Gang sizes in use, largest first, if each divides the one before.
pub(super) fn chain(program: &Program) -> Option<Vec<u32>> {
    let mut sizes: Vec<u32> = program.items.iter().map(|item| item.gpus).collect();
    sizes.sort_unstable_by_key(|&size| Reverse(size));
    sizes.dedup();
    sizes.windows(2).all(|pair| pair[0] % pair[1] == 0).then_some(sizes)
}

/// Packs `counts`; a job that does not get all its rounds keeps those that fit.
/// Exact on divisibility chains, good otherwise.
pub(super) fn pack_level(program: &Program, counts: &[usize]) -> Schedule {
    let gpus = u64::from(program.gpus);
    let mut schedule = Schedule::empty(counts.len(), program.rounds);
    let mut loads = vec![0_u64; program.rounds];
    let mut order: Vec<usize> = (0..counts.len()).filter(|&job| counts[job] > 0).collect();
    order.sort_by_key(|&job| (Reverse(program.items[job].gpus), Reverse(counts[job]), job));
    let mut rounds: Vec<usize> = (0..program.rounds).collect();
    for job in order {
        let gang = u64::from(program.items[job].gpus);
        rounds.sort_by_key(|&round| (loads[round], round));
        for &round in rounds.iter().take(counts[job]) {
            if loads[round] + gang > gpus {
                break;
            }
            loads[round] += gang;
            schedule.set(job, round);
        }
    }
    schedule
}

/// GPU rounds of `counts` that `schedule` leaves out.
pub(super) fn lost(program: &Program, counts: &[usize], schedule: &Schedule) -> u64 {
    program
        .items
        .iter()
        .enumerate()
        .map(|(job, item)| {
            counts[job].saturating_sub(schedule.count(job)) as u64 * u64::from(item.gpus)
        })
        .sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::program_of;
    use super::*;

    /// Whether any packing exists: tries every set of rounds for every job, memoised on loads.
    fn packable(gangs: &[u32], counts: &[usize], gpus: u32, rounds: usize) -> bool {
        let mut order: Vec<usize> = (0..gangs.len()).collect();
        order.sort_by_key(|&job| Reverse(gangs[job]));
        let mut states = std::collections::BTreeSet::from([vec![gpus; rounds]]);
        for job in order {
            let mut next = std::collections::BTreeSet::new();
            for state in &states {
                for mask in 0_u32..1 << rounds {
                    let fits = (0..rounds).all(|t| mask >> t & 1 == 0 || state[t] >= gangs[job]);
                    if mask.count_ones() as usize == counts[job] && fits {
                        let mut left = state.clone();
                        for (t, free) in left.iter_mut().enumerate() {
                            *free -= (mask >> t & 1) * gangs[job];
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]
        #[test]
        fn level_packing_is_exact_on_chains(
            chain in prop::sample::select(vec![vec![1_u32, 2, 4, 8], vec![1, 3, 6], vec![2, 4]]),
            picks in prop::collection::vec((0_usize..4, 0_usize..6), 2..8),
            gpus in 6_u32..20,
            rounds in 2_usize..6,
        ) {
            let gangs: Vec<u32> = picks
                .iter()
                .map(|&(i, _)| chain[i % chain.len()])
                .map(|g| if g > gpus { 2 } else { g })
                .collect();
            let counts: Vec<usize> = picks.iter().map(|&(_, n)| n.min(rounds)).collect();
            let program = program_of(gpus, rounds, &gangs);
            if chain_holds(&gangs) {
                let schedule = pack_level(&program, &counts);
                let fits = lost(&program, &counts, &schedule) == 0;
                prop_assert_eq!(fits, packable(&gangs, &counts, gpus, rounds));
            }
            let loads = pack_level(&program, &counts).loads(&program);
            prop_assert!(loads.iter().all(|&load| load <= u64::from(gpus)));
        }
    }

    fn chain_holds(gangs: &[u32]) -> bool {
        chain(&program_of(64, 1, gangs)).is_some()
    }

    #[test]
    fn capacity_alone_is_not_enough() {
        let program = program_of(8, 2, &[8, 1]);
        let schedule = pack_level(&program, &[1, 2]);
        assert_eq!(lost(&program, &[1, 2], &schedule), 1);
    }
}
