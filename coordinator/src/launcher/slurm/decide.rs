//! What is to be done about a pool's pilots: a function of what is wanted and what was seen.

use super::pilot::Pilot;
use super::queue::Phase;
use super::settings::Pool;

/// Times in a row that Slurm must not list a job before it counts as gone.
pub(super) const ABSENT_MAX: u32 = 2;
/// How long an order to a pilot may take before a stronger one follows, seconds.
pub(super) const OBEY_S: f64 = 60.0;
/// How long an agent may be silent after Slurm has called its job over, seconds.
const SILENT_S: f64 = 5.0;

/// The machine that a pilot's agent has entered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Its name in the cluster.
    pub node: String,
    /// Whether its agent counts as lost.
    pub is_lost: bool,
    /// Why nothing new starts on it, where that is so and it is not being taken away.
    pub drained: Option<String>,
    /// Whether it says that it is being taken away.
    pub is_leaving: bool,
    /// Leases on it whose time is not over.
    pub leases: u32,
    /// How long its agent was not heard, seconds.
    pub silent_s: f64,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Ask Slurm for one more node.
    Submit,
    /// Ask a pilot's agent to give its machine back.
    Dismiss(String),
    /// Have Slurm end a pilot; why that is a failure, if it is one.
    Cancel(String, Option<String>),
    /// The agent will not be heard again: its leases' time runs.
    Lose(String),
    /// Nothing of a pilot is left: forget it, and its machine; why that is a failure, if it is one.
    Forget(String, Option<String>),
}

/// Where a pilot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Slurm has no machine for it yet.
    Asked,
    /// It has one; its agent has not joined.
    Starting,
    /// Its agent works.
    Serving,
    /// It will not serve any more (or, when its agent is lost, perhaps not).
    Leaving,
    /// Slurm has nothing of it any more.
    Gone,
}

/// A pilot with its machine, if its agent has entered one.
pub type Carried<'a> = (&'a Pilot, Option<&'a Machine>);

fn stage((pilot, machine): Carried<'_>) -> Stage {
    let sight = &pilot.sight;
    let phase = match &sight.seen {
        Some(_) | None if sight.absent >= ABSENT_MAX => return Stage::Gone,
        None => return Stage::Asked,
        Some(seen) => seen.phase,
    };
    let ordered = sight.dismissed_s.is_some() || sight.cancelled_s.is_some();
    match (phase, machine) {
        (Phase::Over, _) => Stage::Gone,
        (Phase::Ending, _) => Stage::Leaving,
        _ if ordered => Stage::Leaving,
        (Phase::Waiting | Phase::Held, _) => Stage::Asked,
        (Phase::Active, Some(it)) if it.is_lost || it.is_leaving || it.drained.is_some() => {
            Stage::Leaving
        }
        (Phase::Active, Some(_)) => Stage::Serving,
        (Phase::Active, None) if pilot.has_joined => Stage::Leaving,
        (Phase::Active, None) => Stage::Starting,
    }
}

/// How a pool stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Devices that jobs want of it.
    pub wanted: u64,
    /// When it may ask Slurm again, seconds.
    pub not_before_s: f64,
    /// Since when it has more nodes than it needs, seconds.
    pub surplus_s: Option<f64>,
}

/// Nodes that a pool is to have.
#[must_use]
pub fn nodes_wanted(pool: &Pool, wanted: u64) -> u32 {
    let nodes = wanted.div_ceil(u64::from(pool.devices_per_node.max(1)));
    u32::try_from(nodes).unwrap_or(u32::MAX).clamp(pool.nodes_min, pool.nodes_max)
}

/// Whether a pool has more nodes than it needs.
#[must_use]
pub fn has_surplus(pool: &Pool, standing: Standing, carried: &[Carried<'_>]) -> bool {
    live(carried) > nodes_wanted(pool, standing.wanted)
}

fn live(carried: &[Carried<'_>]) -> u32 {
    let serves =
        |it: &&Carried<'_>| matches!(stage(**it), Stage::Asked | Stage::Starting | Stage::Serving);
    carried.iter().filter(serves).count() as u32
}

/// What is to be done now.
#[must_use]
pub fn decide(pool: &Pool, standing: Standing, carried: &[Carried<'_>], now_s: f64) -> Vec<Act> {
    let mut acts: Vec<Act> = carried.iter().filter_map(|it| look_after(pool, *it, now_s)).collect();
    let stages: Vec<Stage> = carried.iter().map(|it| stage(*it)).collect();
    let count = |wanted: Stage| stages.iter().filter(|stage| **stage == wanted).count() as u32;
    let (live, wanted) = (live(carried), nodes_wanted(pool, standing.wanted));
    if live < wanted && now_s >= standing.not_before_s {
        let room = pool.nodes_max.saturating_sub(live + count(Stage::Leaving));
        let queue = pool.backlog.saturating_sub(count(Stage::Asked));
        acts.extend((0..(wanted - live).min(room).min(queue)).map(|_| Act::Submit));
    }
    if live > wanted && standing.surplus_s.is_some_and(|since| now_s - since >= pool.idle_s) {
        give_back(pool, carried, (live - wanted) as usize, now_s, &mut acts);
    }
    acts
}

/// Gives back what nobody needs: first what has no machine yet.
fn give_back(pool: &Pool, carried: &[Carried<'_>], count: usize, now_s: f64, acts: &mut Vec<Act>) {
    let asked = carried.iter().filter(|it| stage(**it) == Stage::Asked);
    let asked = asked.map(|(pilot, _)| Act::Cancel(pilot.name.clone(), None));
    let is_idle = |it: &&Carried<'_>| {
        let (pilot, machine) = it;
        let last_s = pilot.sight.busy_s.or(pilot.sight.active_s).unwrap_or(now_s);
        stage(**it) == Stage::Serving
            && machine.is_some_and(|machine| machine.leases == 0)
            && now_s - last_s >= pool.idle_s
    };
    let idle = carried.iter().filter(is_idle);
    let idle = idle.map(|(pilot, _)| Act::Dismiss(pilot.name.clone()));
    acts.extend(asked.chain(idle).take(count));
}

/// What one pilot needs.
fn look_after(pool: &Pool, it: Carried<'_>, now_s: f64) -> Option<Act> {
    let (pilot, machine) = it;
    let (sight, name) = (&pilot.sight, || pilot.name.clone());
    let since = |at_s: Option<f64>| at_s.map_or(0.0, |at_s| now_s - at_s);
    let stage = stage(it);
    if stage == Stage::Gone {
        return bury(it);
    }
    if since(sight.cancelled_s) > OBEY_S {
        return Some(Act::Cancel(name(), None));
    }
    if sight.cancelled_s.is_some() {
        return None;
    }
    if since(sight.dismissed_s) > OBEY_S + pool.warning_s {
        return Some(Act::Cancel(name(), None));
    }
    let seen = sight.seen.as_ref();
    if let Some(seen) = seen.filter(|seen| seen.phase == Phase::Held) {
        let why = format!("Slurm keeps it back ({} {})", seen.state, seen.reason);
        return Some(Act::Cancel(name(), Some(why)));
    }
    if stage == Stage::Starting && since(sight.active_s) > pool.join_s {
        let host = seen.map_or("", |seen| seen.host.as_str());
        let why = format!("its agent on {host} has not joined within {} s", pool.join_s);
        return Some(Act::Cancel(name(), Some(why)));
    }
    if since(sight.lost_s) > OBEY_S + pool.join_s {
        return Some(Act::Cancel(name(), None));
    }
    let machine = machine?;
    // A machine that was set aside is given back once it is empty; its host is not asked for again.
    if machine.drained.is_some() && machine.leases == 0 && sight.dismissed_s.is_none() {
        return Some(Act::Dismiss(name()));
    }
    None
}

/// A pilot of which Slurm has nothing any more.
fn bury((pilot, machine): Carried<'_>) -> Option<Act> {
    let (sight, name) = (&pilot.sight, pilot.name.clone());
    let Some(machine) = machine else {
        let ordered = sight.dismissed_s.is_some() || sight.cancelled_s.is_some();
        let failed = (!pilot.has_joined && !ordered).then(|| match (&sight.refused, &sight.seen) {
            (Some(refused), _) => refused.clone(),
            (None, Some(seen)) => format!("it ended before its agent joined ({})", seen.state),
            (None, None) => "Slurm knows nothing of it: it was lost".into(),
        });
        return Some(Act::Forget(name, failed));
    };
    if machine.is_lost {
        // Leases have their time: the machine may only be cut off, and Slurm not know better.
        return (machine.leases == 0).then_some(Act::Forget(name, None));
    }
    if machine.silent_s > SILENT_S {
        return Some(Act::Lose(name));
    }
    // Slurm has forgotten a job whose agent is well: others may get its devices.
    sight.dismissed_s.is_none().then_some(Act::Dismiss(name))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
