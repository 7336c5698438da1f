//! What Slurm says of its jobs, in either of the forms that its versions know.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a state of Slurm's means for whoever waits for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing of it runs any more, and it does not come again.
    Over,
    /// It is ending, or was interrupted: what comes next is seen later.
    Ending,
    /// It waits to be started.
    Waiting,
    /// It waits for a person: it would never start by itself.
    Held,
    /// It has its machine.
    Active,
}

/// A job of Slurm's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What its state means.
    pub phase: Phase,
    /// The state in Slurm's words.
    pub state: String,
    /// Why it waits or how it ended, in Slurm's words.
    pub reason: String,
    /// Its machine; empty: none yet.
    pub host: String,
}

/// Slurm's words for what keeps a job back until a person acts.
const HELD: [&str; 5] = [
    "JobHeldUser",
    "JobHeldAdmin",
    "JobHoldMaxRequeue",
    "launch_failed_requeued_held",
    "BadConstraints",
];

/// The meaning of a state's base and flags, all of Slurm's names of 17.11 to 24.11.
#[must_use]
pub fn phase_of(words: &[&str], reason: &str) -> Phase {
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    if has(&["REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"]) {
        return Phase::Held;
    }
    // PREEMPTED, REQUEUED and COMPLETING are no ends: processes may still run, or run again.
    if has(&[
        "COMPLETING",
        "PREEMPTED",
        "REQUEUED",
        "REQUEUE_FED",
        "REVOKED",
        "STAGE_OUT",
        "EXPEDITING",
    ]) {
        return Phase::Ending;
    }
    if has(&[
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
    ]) {
        return Phase::Over;
    }
    if has(&["PENDING", "RESIZING_PENDING"]) {
        return if HELD.contains(&reason) { Phase::Held } else { Phase::Waiting };
    }
    // RUNNING, CONFIGURING, RESIZING, SIGNALING, SUSPENDED, STOPPED, POWER_UP_NODE, and what later
    // versions invent: it may have a machine, so nobody else is asked for in its place.
    Phase::Active
}

/// Slurm's jobs by name; of two with one name, the one that is furthest from its end.
pub type Queue = BTreeMap<String, Seen>;

fn add(queue: &mut Queue, name: String, seen: Seen) {
    match queue.get(&name) {
        Some(known) if known.phase >= seen.phase => {}
        _ => drop(queue.insert(name, seen)),
    }
}

#[derive(Deserialize)]
struct Json {
    jobs: Vec<JsonJob>,
}

/// One word, or several: versions differ.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct JsonJob {
    name: String,
    job_state: Words,
    #[serde(default)]
    state_reason: String,
    #[serde(default)]
    nodes: String,
}

/// Reads `squeue --json`.
///
/// # Errors
/// It is not what Slurm's versions write.
pub fn parse_json(text: &str) -> Result<Queue, serde_json::Error> {
    let parsed: Json = serde_json::from_str(text)?;
    let mut queue = Queue::new();
    for job in parsed.jobs {
        let words = match job.job_state {
            Words::One(word) => vec![word],
            Words::Many(words) => words,
        };
        add(&mut queue, job.name, seen(&words.join("+"), &job.state_reason, &job.nodes));
    }
    Ok(queue)
}

/// The format for [`parse_table`].
pub const FORMAT: &str = "%T|%r|%N|%j";

/// Reads `squeue --noheader -o` [`FORMAT`]. Lines that are not of this form are left out.
#[must_use]
pub fn parse_table(text: &str) -> Queue {
    let mut queue = Queue::new();
    for line in text.lines() {
        let mut fields = line.splitn(4, '|').map(str::trim);
        if let (Some(state), Some(reason), Some(host), Some(name)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        {
            add(&mut queue, name.to_owned(), seen(state, reason, host));
        }
    }
    queue
}

fn seen(state: &str, reason: &str, host: &str) -> Seen {
    let words: Vec<&str> = state.split(['+', ',']).map(str::trim).collect();
    let plain = |text: &str| if text == "None" { String::new() } else { text.to_owned() };
    Seen {
        phase: phase_of(&words, reason),
        state: state.to_owned(),
        reason: plain(reason),
        host: plain(host),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// As Slurm 22.05 writes it (cut to some of its fields), and with the lists of 23.11.
    const JSON: &str = r#"{"meta": {"Slurm": {"release": "22.05.8"}}, "errors": [], "jobs": [
        {"job_id": 1, "name": "a", "job_state": "RUNNING", "state_reason": "None", "nodes": "n1"},
        {"job_id": 2, "name": "b", "job_state": "PENDING", "state_reason": "JobHeldUser", "nodes": ""},
        {"job_id": 3, "name": "c", "job_state": ["RUNNING", "COMPLETING"], "nodes": "n2"},
        {"job_id": 4, "name": "d", "job_state": ["PENDING"], "state_reason": "Resources"}]}"#;

    #[test]
    fn both_forms_say_the_same() {
        let table = "RUNNING|None|n1|a\nPENDING|JobHeldUser||b\nRUNNING+COMPLETING|None|n2|c\n\
                     PENDING|Resources||d\n\nslurm_load_jobs error\n";
        let queue = parse_json(JSON).unwrap();
        assert_eq!(parse_table(table), queue);
        let phases: Vec<Phase> = queue.values().map(|seen| seen.phase).collect();
        assert_eq!(phases, [Phase::Active, Phase::Held, Phase::Ending, Phase::Waiting]);
        assert_eq!(queue["a"].host, "n1");
    }

    #[test]
    fn every_state_has_its_meaning() {
        let check = |states: &str, phase: Phase| {
            for state in states.split_whitespace() {
                assert_eq!(phase_of(&[state], ""), phase, "{state}");
            }
        };
        check("PENDING", Phase::Waiting);
        check(
            "RUNNING CONFIGURING RESIZING SIGNALING SUSPENDED STOPPED POWER_UP_NODE",
            Phase::Active,
        );
        check("COMPLETING PREEMPTED REQUEUED REQUEUE_FED REVOKED STAGE_OUT", Phase::Ending);
        check("REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD", Phase::Held);
        check("COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL BOOT_FAIL DEADLINE", Phase::Over);
        check("OUT_OF_MEMORY LAUNCH_FAILED RECONFIG_FAIL", Phase::Over);
        check("A_STATE_OF_THE_FUTURE", Phase::Active);
        assert_eq!(phase_of(&["FAILED", "COMPLETING"], ""), Phase::Ending);
    }

    #[test]
    fn of_two_with_one_name_the_livelier_counts() {
        let table = "RUNNING|None|n1|a\nCANCELLED|None|n2|a\nPENDING|None||b\nRUNNING|None|n3|b\n";
        let queue = parse_table(table);
        assert_eq!((queue["a"].host.as_str(), queue["b"].host.as_str()), ("n1", "n3"));
    }
}
