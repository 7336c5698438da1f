//! Each situation of a pilot, and what is done about it.

use super::*;
use crate::launcher::slurm::pilot::Sight;
use crate::launcher::slurm::queue::Seen;

fn pool() -> Pool {
    Pool {
        name: "low".into(),
        devices_per_node: 4,
        nodes_max: 3,
        backlog: 2,
        idle_s: 100.0,
        ..Pool::default()
    }
}

fn pilot(name: &str, state: &str) -> Pilot {
    let words: Vec<&str> = state.split('+').collect();
    let seen = (!state.is_empty()).then(|| Seen {
        phase: crate::launcher::slurm::queue::phase_of(&words, ""),
        state: state.into(),
        reason: String::new(),
        host: "n1".into(),
    });
    let sight = Sight { seen, active_s: Some(0.0), ..Sight::default() };
    Pilot {
        name: name.into(),
        pool: "low".into(),
        nonce: String::new(),
        has_joined: false,
        carries: None,
        is_recalled: false,
        sight,
    }
}

fn machine(leases: u32) -> Machine {
    Machine { node: "n1.a".into(), leases, ..Machine::default() }
}

fn standing(wanted: u64) -> Standing {
    Standing { wanted, ..Standing::default() }
}

/// What is done about one pilot on which work waits.
fn about(pilot: &Pilot, machine: Option<&Machine>, now_s: f64) -> Vec<Act> {
    let pool = Pool { nodes_max: 1, ..pool() };
    decide(&pool, standing(4), &[(pilot, machine)], now_s)
}

#[test]
fn as_many_nodes_as_work_wants_within_the_bounds() {
    let wants = |wanted| nodes_wanted(&pool(), wanted);
    assert_eq!([0, 1, 4, 5, 12, 99].map(wants), [0, 1, 1, 2, 3, 3]);
    assert_eq!(nodes_wanted(&Pool { nodes_min: 2, ..pool() }, 0), 2);
    assert_eq!(decide(&pool(), standing(5), &[], 0.0), [Act::Submit, Act::Submit]);
    let waits = pilot("a", "PENDING");
    let asked = decide(&pool(), standing(12), &[(&waits, None)], 0.0);
    assert_eq!(asked, [Act::Submit], "the backlog is two");
    let (a, b, c) = (pilot("a", "RUNNING"), pilot("b", "RUNNING"), pilot("c", "COMPLETING"));
    let held = [(&a, None), (&b, None), (&c, None)];
    assert_eq!(decide(&pool(), standing(12), &held, 0.0), [], "one is still being given back");
    let later = Standing { not_before_s: 10.0, ..standing(4) };
    assert_eq!(decide(&pool(), later, &[], 5.0), [], "after failures it waits");
}

#[test]
fn what_is_idle_is_given_back_after_a_while() {
    let (waits, idle) = (pilot("a", "PENDING"), pilot("b", "RUNNING"));
    let (empty, busy) = (machine(0), machine(1));
    let surplus = Standing { surplus_s: Some(100.0), ..standing(0) };
    let both = [(&waits, None), (&idle, Some(&empty))];
    assert_eq!(decide(&pool(), surplus, &both, 150.0), []);
    let given = decide(&pool(), surplus, &both, 200.0);
    assert_eq!(given, [Act::Cancel("a".into(), None), Act::Dismiss("b".into())]);
    let works = [(&idle, Some(&busy))];
    assert_eq!(decide(&pool(), surplus, &works, 200.0), []);
    let least = Pool { nodes_min: 1, ..pool() };
    assert_eq!(decide(&least, surplus, &[(&idle, Some(&empty))], 200.0), []);
}

#[test]
fn what_slurm_has_lost_is_forgotten_and_counts_as_a_failure() {
    let mut lost = pilot("a", "");
    lost.sight.absent = 1;
    assert_eq!(about(&lost, None, 20.0), [], "once is not enough");
    lost.sight.absent = 2;
    let why = "Slurm knows nothing of it: it was lost".to_owned();
    let acts = about(&lost, None, 20.0);
    assert_eq!(acts, [Act::Forget("a".into(), Some(why)), Act::Submit]);
    lost.sight.refused = Some("sbatch: invalid partition".into());
    let acts = about(&lost, None, 20.0);
    assert_eq!(acts[0], Act::Forget("a".into(), Some("sbatch: invalid partition".into())));
    let mut done = pilot("a", "COMPLETED");
    done.has_joined = true;
    assert_eq!(about(&done, None, 20.0), [Act::Forget("a".into(), None), Act::Submit]);
}

#[test]
fn what_never_joins_or_is_held_is_ended() {
    let starts = pilot("a", "RUNNING");
    assert_eq!(about(&starts, None, 120.0), []);
    let acts = about(&starts, None, 121.0);
    assert!(matches!(&acts[..], [Act::Cancel(_, Some(why))] if why.contains("on n1")), "{acts:?}");
    let held = pilot("a", "REQUEUE_HOLD");
    assert!(matches!(&about(&held, None, 1.0)[..], [Act::Cancel(_, Some(_))]));
    let mut ended = starts.clone();
    ended.sight.cancelled_s = Some(130.0);
    assert_eq!(about(&ended, None, 150.0), [], "it is being ended already");
    assert_eq!(about(&ended, None, 191.0), [Act::Cancel("a".into(), None)], "again");
}

#[test]
fn a_machine_whose_job_is_over_is_lost_at_once_but_its_leases_have_their_time() {
    let over = pilot("a", "NODE_FAIL");
    let silent = Machine { silent_s: 6.0, ..machine(1) };
    assert_eq!(about(&over, Some(&silent), 50.0)[0], Act::Lose("a".into()));
    let lost = Machine { is_lost: true, ..machine(1) };
    assert_eq!(about(&over, Some(&lost), 50.0), [Act::Submit]);
    let nothing_left = Machine { is_lost: true, ..machine(0) };
    assert_eq!(about(&over, Some(&nothing_left), 50.0)[0], Act::Forget("a".into(), None));
}

#[test]
fn an_agent_that_slurm_does_not_know_gives_its_machine_back() {
    let mut orphan = pilot("a", "RUNNING");
    orphan.sight.absent = 2;
    let heard = machine(1);
    assert_eq!(about(&orphan, Some(&heard), 50.0)[0], Act::Dismiss("a".into()));
    orphan.sight.dismissed_s = Some(50.0);
    assert_eq!(about(&orphan, Some(&heard), 51.0), [Act::Submit]);
}

#[test]
fn a_machine_that_was_set_aside_is_given_back_when_it_is_empty() {
    let serves = pilot("a", "RUNNING");
    let aside = |leases| Machine { drained: Some("3 jobs failed".into()), ..machine(leases) };
    assert_eq!(about(&serves, Some(&aside(1)), 50.0), []);
    assert_eq!(about(&serves, Some(&aside(0)), 50.0), [Act::Dismiss("a".into())]);
}

#[test]
fn one_that_does_not_go_is_ended() {
    let mut goes = pilot("a", "RUNNING");
    goes.sight.dismissed_s = Some(0.0);
    assert_eq!(about(&goes, Some(&machine(0)), 120.0), []);
    assert_eq!(about(&goes, Some(&machine(0)), 121.0), [Act::Cancel("a".into(), None)]);
    let mut hangs = pilot("a", "RUNNING");
    hangs.sight.lost_s = Some(0.0);
    let lost = Machine { is_lost: true, ..machine(0) };
    assert_eq!(about(&hangs, Some(&lost), 180.0), []);
    assert_eq!(about(&hangs, Some(&lost), 181.0), [Act::Cancel("a".into(), None)]);
}
