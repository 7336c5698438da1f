//! Where Slurm is asked anew for every lease: what is to be done about one lease's part and its
//! Slurm job, a function of what was seen.
//!
//! A part whose agent was never there can be given up at any time, for nothing of it can run: its
//! pass ends with the Slurm job, and an agent that came all the same would be told to leave. Once an
//! agent may have been there, only its word or the lease's own time ends the part.

use super::decide::{ABSENT_MAX, OBEY_S};
use super::pilot::Pilot;
use super::queue::Phase;
use super::settings::Pool;
use crate::launcher::Carries;

/// How long an agent that has left may take to end its Slurm job, seconds.
const END_S: f64 = 10.0;

/// A lease's part on a place of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it is.
    pub carries: Carries,
    /// Who handed the job in.
    pub user: String,
    /// Whether it is to end, in one way or another.
    pub is_stopped: bool,
    /// Whether its processes are to be killed.
    pub is_killed: bool,
    /// Whether processes of it were seen.
    pub has_run: bool,
    /// Whether its time is over: nothing that keeps to the protocol runs.
    pub is_over: bool,
    /// Whether it is to be renewed soon.
    pub is_due: bool,
}

/// The agent of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agent {
    /// Whether it is heard.
    pub is_heard: bool,
    /// Whether its machine is taken away soon.
    pub is_due: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Ask Slurm for a job that carries the part.
    Ask(Part),
    /// Ask the agent to give its machine back.
    Dismiss(String),
    /// Have Slurm end a job; why that is a failure, if it is one.
    Cancel(String, Option<String>),
    /// The place lets go of the part.
    LetGo(Carries),
    /// Nothing of a Slurm job is left: forget it; why that is a failure, if it is one.
    Forget(String, Option<String>),
}

/// A Slurm job with its part and its agent, if there are any.
#[derive(Clone, Copy, Debug)]
pub struct Carried<'a> {
    /// The Slurm job.
    pub pilot: &'a Pilot,
    /// Its lease's part, while the place has it.
    pub part: Option<&'a Part>,
    /// Its agent, while it is there.
    pub agent: Option<Agent>,
}

impl Carried<'_> {
    /// Whether processes of the part may have been started.
    fn may_have_run(&self) -> bool {
        self.pilot.has_joined
            || self.pilot.is_recalled
            || self.part.is_some_and(|part| part.has_run)
    }

    fn is_gone(&self) -> bool {
        let sight = &self.pilot.sight;
        let is_over = sight.seen.as_ref().is_some_and(|seen| seen.phase == Phase::Over);
        is_over || sight.absent >= ABSENT_MAX
    }

    fn is_heard(&self) -> bool {
        self.agent.is_some_and(|agent| agent.is_heard)
    }

    /// Whether Slurm has no machine for it yet.
    fn waits(&self) -> bool {
        let seen = self.pilot.sight.seen.as_ref();
        seen.is_none_or(|seen| matches!(seen.phase, Phase::Waiting | Phase::Held))
    }

    /// Whether it waits for its machine or its agent, and the lease has to be kept meanwhile.
    #[must_use]
    pub fn needs_time(&self) -> bool {
        !self.is_heard() && (self.waits() || !self.may_have_run())
    }

    /// Whether processes may run that nobody speaks for.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        !self.is_heard() && !self.needs_time()
    }
}

/// What one Slurm job needs. With `is_blind`, Slurm does not answer: only what needs no look at it.
#[must_use]
pub fn look_after(pool: &Pool, it: Carried<'_>, is_blind: bool, now_s: f64) -> Option<Task> {
    let name = || it.pilot.name.clone();
    let Some(part) = it.part else {
        return if is_blind { None } else { see_off(pool, it, now_s) };
    };
    if part.is_over {
        return Some(Task::LetGo(part.carries.clone()));
    }
    if let Some(agent) = it.agent.filter(|agent| agent.is_heard) {
        // Slurm has forgotten a job whose agent is well: others may get its devices.
        let is_unknown = !is_blind && it.is_gone();
        let told = it.pilot.sight.dismissed_s.is_some();
        return ((agent.is_due || is_unknown) && !told).then(|| Task::Dismiss(name()));
    }
    if !it.may_have_run() && part.is_stopped {
        return Some(Task::LetGo(part.carries.clone()));
    }
    if is_blind {
        return None;
    }
    if it.may_have_run() { unheard(it, part, now_s) } else { unstarted(pool, it, now_s) }
}

fn since(at_s: Option<f64>, now_s: f64) -> f64 {
    at_s.map_or(0.0, |at_s| now_s - at_s)
}

/// The lease is over: so is its Slurm job, soon.
fn see_off(pool: &Pool, it: Carried<'_>, now_s: f64) -> Option<Task> {
    let (sight, name) = (&it.pilot.sight, it.pilot.name.clone());
    if it.is_gone() {
        return Some(Task::Forget(name, None));
    }
    if let Some(at_s) = sight.cancelled_s {
        return (now_s - at_s > OBEY_S).then_some(Task::Cancel(name, None));
    }
    let patience_s = match it.agent {
        Some(_) => OBEY_S + pool.warning_s,
        None if it.pilot.has_joined => END_S,
        // Nobody is there who could end it.
        None => return Some(Task::Cancel(name, None)),
    };
    (since(sight.dismissed_s, now_s) > patience_s).then_some(Task::Cancel(name, None))
}

/// No agent was ever there.
fn unstarted(pool: &Pool, it: Carried<'_>, now_s: f64) -> Option<Task> {
    let (sight, name) = (&it.pilot.sight, it.pilot.name.clone());
    if it.is_gone() {
        let why = match (&sight.refused, &sight.seen, sight.cancelled_s) {
            // Counted when it was ended.
            (_, _, Some(_)) => None,
            (Some(refused), ..) => Some(refused.clone()),
            (None, Some(seen), None) => {
                Some(format!("it ended before its agent joined ({})", seen.state))
            }
            (None, None, None) => Some("Slurm knows nothing of it: it was lost".into()),
        };
        return Some(Task::Forget(name, why));
    }
    if let Some(at_s) = sight.cancelled_s {
        return (now_s - at_s > OBEY_S).then_some(Task::Cancel(name, None));
    }
    let seen = sight.seen.as_ref()?;
    if seen.phase == Phase::Held {
        let why = format!("Slurm keeps it back ({} {})", seen.state, seen.reason);
        return Some(Task::Cancel(name, Some(why)));
    }
    let late = seen.phase == Phase::Active && since(sight.active_s, now_s) > pool.join_s;
    late.then(|| {
        let why = format!("its agent on {} has not joined within {} s", seen.host, pool.join_s);
        Task::Cancel(name, Some(why))
    })
}

/// Its agent was there and is not heard: its lease's time runs, and Slurm ends what is to be killed.
fn unheard(it: Carried<'_>, part: &Part, now_s: f64) -> Option<Task> {
    let sight = &it.pilot.sight;
    let again = sight.cancelled_s.is_none_or(|at_s| now_s - at_s > OBEY_S);
    // One that waits in Slurm's queue runs nothing.
    let is_to_end = part.is_killed || (part.is_stopped && it.waits());
    (is_to_end && again && !it.is_gone()).then(|| Task::Cancel(it.pilot.name.clone(), None))
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
