//! Each situation of a lease's Slurm job, and what is done about it.

use super::*;
use crate::launcher::slurm::pilot::Sight;
use crate::launcher::slurm::queue::{Seen, phase_of};

fn carries() -> Carries {
    Carries { job: 7, lease_epoch: 2, place: "slurm-low-1".into(), devices: 2 }
}

fn part() -> Part {
    Part {
        carries: carries(),
        user: "ada".into(),
        is_stopped: false,
        is_killed: false,
        has_run: false,
        is_over: false,
        is_due: false,
    }
}

fn pilot(state: &str) -> Pilot {
    let seen = (!state.is_empty()).then(|| Seen {
        phase: phase_of(&[state], ""),
        state: state.into(),
        reason: String::new(),
        host: "n1".into(),
    });
    Pilot {
        name: "a".into(),
        pool: "low".into(),
        nonce: String::new(),
        has_joined: false,
        carries: Some(carries()),
        is_recalled: false,
        sight: Sight { seen, active_s: Some(0.0), ..Sight::default() },
    }
}

fn joined(state: &str) -> Pilot {
    Pilot { has_joined: true, ..pilot(state) }
}

const WELL: Option<Agent> = Some(Agent { is_heard: true, is_due: false });

fn about(pilot: &Pilot, part: Option<&Part>, agent: Option<Agent>, now_s: f64) -> Option<Task> {
    let pool = Pool { name: "low".into(), devices_per_node: 4, nodes_max: 2, ..Pool::default() };
    look_after(&pool, Carried { pilot, part, agent }, false, now_s)
}

fn cancel(why: Option<&str>) -> Option<Task> {
    Some(Task::Cancel("a".into(), why.map(str::to_owned)))
}

fn forget(why: Option<&str>) -> Option<Task> {
    Some(Task::Forget("a".into(), why.map(str::to_owned)))
}

#[test]
fn what_goes_well_is_left_alone() {
    for state in ["", "PENDING", "RUNNING"] {
        assert_eq!(about(&pilot(state), Some(&part()), None, 100.0), None, "{state}");
    }
    assert_eq!(about(&joined("RUNNING"), Some(&part()), WELL, 1e4), None);
}

#[test]
fn what_waits_keeps_its_lease_and_what_fell_silent_does_not() {
    let check = |pilot: &Pilot, agent, expected| {
        let it = Carried { pilot, part: Some(&part()), agent };
        assert_eq!((it.needs_time(), it.is_silent()), expected);
    };
    check(&pilot(""), None, (true, false));
    check(&pilot("PENDING"), None, (true, false));
    check(&pilot("RUNNING"), None, (true, false));
    check(&joined("RUNNING"), WELL, (false, false));
    check(&joined("RUNNING"), Some(Agent::default()), (false, true));
    check(&joined("NODE_FAIL"), None, (false, true));
    let recalled = |state| Pilot { is_recalled: true, ..pilot(state) };
    check(&recalled("RUNNING"), None, (false, true));
    check(&recalled("PENDING"), None, (true, false));
}

#[test]
fn what_never_ran_is_given_up_or_asked_for_again() {
    let stopped = Part { is_stopped: true, ..part() };
    assert_eq!(about(&pilot("PENDING"), Some(&stopped), None, 1.0), Some(Task::LetGo(carries())));
    let mut refused = pilot("");
    refused.sight.refused = Some("sbatch: invalid account".into());
    refused.sight.absent = 2;
    assert_eq!(about(&refused, Some(&part()), None, 9.0), forget(Some("sbatch: invalid account")));
    let failed = about(&pilot("FAILED"), Some(&part()), None, 9.0);
    assert_eq!(failed, forget(Some("it ended before its agent joined (FAILED)")));
    let held = about(&pilot("REQUEUE_HOLD"), Some(&part()), None, 9.0);
    assert_eq!(held, cancel(Some("Slurm keeps it back (REQUEUE_HOLD )")));
    let late = about(&pilot("RUNNING"), Some(&part()), None, 121.0);
    assert_eq!(late, cancel(Some("its agent on n1 has not joined within 120 s")));
    let mut ended = pilot("CANCELLED");
    ended.sight.cancelled_s = Some(1.0);
    assert_eq!(about(&ended, Some(&part()), None, 9.0), forget(None), "counted before");
}

#[test]
fn slurms_word_does_not_end_a_lease() {
    for state in ["NODE_FAIL", "COMPLETED", "PREEMPTED"] {
        assert_eq!(about(&joined(state), Some(&part()), None, 500.0), None, "{state}");
    }
    let ran = Part { has_run: true, ..part() };
    assert_eq!(about(&pilot("NODE_FAIL"), Some(&ran), None, 500.0), None);
    let over = Part { is_over: true, ..ran };
    assert_eq!(about(&pilot("NODE_FAIL"), Some(&over), None, 500.0), Some(Task::LetGo(carries())));
}

#[test]
fn slurm_kills_what_nobody_else_can() {
    let killed = Part { is_killed: true, ..part() };
    assert_eq!(about(&joined("RUNNING"), Some(&killed), None, 5.0), cancel(None));
    assert_eq!(about(&joined("RUNNING"), Some(&killed), WELL, 5.0), None, "its agent does it");
    assert_eq!(
        about(&joined("NODE_FAIL"), Some(&killed), None, 5.0),
        None,
        "nothing is left to end"
    );
    let recalled = Pilot { is_recalled: true, ..pilot("PENDING") };
    let stopped = Part { is_stopped: true, ..part() };
    assert_eq!(about(&recalled, Some(&stopped), None, 5.0), cancel(None));
}

#[test]
fn an_agent_that_slurm_does_not_know_or_that_is_taken_away_gives_its_machine_back() {
    let mut orphan = joined("RUNNING");
    let due = Some(Agent { is_heard: true, is_due: true });
    assert_eq!(about(&orphan, Some(&part()), due, 5.0), Some(Task::Dismiss("a".into())));
    orphan.sight.absent = 2;
    assert_eq!(about(&orphan, Some(&part()), WELL, 5.0), Some(Task::Dismiss("a".into())));
    orphan.sight.dismissed_s = Some(5.0);
    assert_eq!(about(&orphan, Some(&part()), due, 6.0), None, "it was told");
}

#[test]
fn after_its_lease_a_slurm_job_ends() {
    let mut goes = joined("RUNNING");
    goes.sight.dismissed_s = Some(0.0);
    assert_eq!(about(&goes, None, WELL, 100.0), None);
    assert_eq!(about(&goes, None, WELL, 121.0), cancel(None));
    assert_eq!(about(&goes, None, None, 5.0), None, "it is ending");
    assert_eq!(about(&goes, None, None, 11.0), cancel(None));
    assert_eq!(about(&pilot("PENDING"), None, None, 0.0), cancel(None), "nobody could end it");
    assert_eq!(about(&joined("COMPLETED"), None, None, 0.0), forget(None));
}

#[test]
fn while_slurm_is_away_only_time_and_agents_count() {
    let pool = Pool::default();
    let blind = |pilot: &Pilot, part: &Part, agent| {
        look_after(&pool, Carried { pilot, part: Some(part), agent }, true, 999.0)
    };
    let over = Part { is_over: true, ..part() };
    assert_eq!(blind(&joined("RUNNING"), &over, None), Some(Task::LetGo(carries())));
    let stopped = Part { is_stopped: true, ..part() };
    assert_eq!(blind(&pilot("PENDING"), &stopped, None), Some(Task::LetGo(carries())));
    assert_eq!(blind(&joined("PENDING"), &stopped, None), None);
    let mut forgotten = joined("RUNNING");
    forgotten.sight.absent = 5;
    assert_eq!(blind(&forgotten, &part(), WELL), None);
}
