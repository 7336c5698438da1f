//! The promises of the coordinator against what is done to break them, a few runs of each; `cargo
//! xtask torture` plays the full numbers.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use shockwave_tests::torture::by_name;
use shockwave_tests::torture::network::KEPT;

/// Plays the runs that belong to every CI.
fn check(name: &str) {
    let scenario = by_name(name).unwrap();
    let tally = scenario.check(scenario.ci_runs, 1).unwrap();
    eprintln!("{name}: {tally:?}");
    assert!(tally.checked > 0, "{name}: nothing was checked");
}

/// Each of its own, so that they run beside each other and a failure names its promise.
macro_rules! scenarios {
    ($($function:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $function() {
                check($name);
            }
        )*
    };
}

#[test]
fn seeds_that_have_broken_the_network_hold() {
    let scenario = by_name("network").unwrap();
    for seed in KEPT {
        scenario.check(1, seed).unwrap();
    }
}

scenarios! {
    power_loss_keeps_what_was_acknowledged: "power-loss",
    damage_is_never_taken_for_an_emptier_state: "damage",
    of_two_coordinators_one_commits: "rivals",
    the_network_may_do_what_it_likes: "network",
    the_time_of_day_may_jump: "clock-jumps",
    whoever_may_not_is_refused: "tokens",
    floods_do_not_drown_the_good: "flood",
    an_ignored_yield_ends_at_its_deadline: "yield-ignored",
    training_outlives_an_absence_and_parks_after_it: "absence",
    a_zombie_commits_nothing: "zombie",
    kills_lose_nothing: "kill",
    a_team_has_its_day: "team-day",
}
