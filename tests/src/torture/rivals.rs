//! Two coordinators on one store (P1, P2): the lock lets one in; where the lock fails (a shared
//! folder whose locks do nothing), the incarnation lets one commit.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave::store::{Store, Writer};

use super::{Run, Scenario, Tally, log};
use crate::programs::program;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "rivals",
    what: "P1, P2: two coordinators on one store, one epoch commits",
    counts: "acknowledged records looked for",
    runs: 100,
    ci_runs: 4,
    prepare,
};

fn prepare(_runs: u64) -> Result<Run> {
    Ok(Box::new(|seed, tally| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        without_locks(&mut random, tally).context("on a folder whose locks do nothing")?;
        two_programs(tally).context("two programs at once")
    }))
}

/// Appends until the writer ends or so many records are there; the last acknowledged number.
fn write_on(writer: &Writer, from: u64, count: u64, pause: Duration) -> (u64, Option<String>) {
    let state = writer.state();
    for number in from..from + count {
        if let Err(error) = log::append(writer, &log::record(number, "one")) {
            let ended = state.borrow().ended.as_ref().map(ToString::to_string);
            return (state.borrow().durable, Some(ended.unwrap_or_else(|| error.to_string())));
        }
        std::thread::sleep(pause);
    }
    let last = from + count - 1;
    let ended = log::wait_for(writer, last).err().map(|error| error.to_string());
    (state.borrow().durable, ended)
}

/// The second coordinator comes while the first one writes.
fn without_locks(random: &mut ChaCha8Rng, tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (first_store, first) = Store::open(folder.path())?;
    let pause = Duration::from_micros(random.random_range(0..300));
    let before = Duration::from_micros(random.random_range(0..20_000));
    let old = std::thread::spawn(move || {
        let result = write_on(&first, 1, 2000, pause);
        drop(first);
        result
    });
    std::thread::sleep(before);
    std::fs::remove_file(folder.path().join("lock"))?;
    let (second_store, second) = Store::open(folder.path())?;
    let from = second_store.info.last_number + 1;
    let (acknowledged, ended) = write_on(&second, from, 50, Duration::ZERO);
    ensure!(ended.is_none(), "the one that took over was ended: {ended:?}");
    let (old_acknowledged, why) = old.join().ok().context("the first one's thread broke")?;
    let found = log::all(&second_store.reader()?)?;
    let (one, two) = (first_store.info.epoch, second_store.info.epoch);
    ensure!(two == one + 1, "epochs {one} and {two}");
    if old_acknowledged >= from {
        tally.double += old_acknowledged - from + 1;
        bail!("the old one had {old_acknowledged} acknowledged, the new one began with {from}");
    }
    let late = found.iter().filter(|it| it.epoch == one && it.number >= from).count();
    tally.double += late as u64;
    ensure!(late == 0, "{late} records of the old epoch behind the first of the new one");
    // It had written all before it was replaced, or was told that it was.
    let replaced = why.as_deref().is_some_and(|why| why.contains("was replaced"));
    ensure!(old_acknowledged == 2000 || replaced, "the old one ended by {why:?}");
    log::check_prefix(&found, acknowledged.max(old_acknowledged), acknowledged, tally)
}

/// Two programs are started on one folder in the same moment.
fn two_programs(tally: &mut Tally) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let start = || {
        Command::new(program("shockwave"))
            .args(["serve", "--json", "--devices", "none", "--listen", "127.0.0.1:0", "--state"])
            .arg(folder.path())
            .env("XDG_STATE_HOME", folder.path().join("user"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let mut rivals = [start()?, start()?];
    let mut refused = None;
    for _ in 0..1200 {
        for (index, rival) in rivals.iter_mut().enumerate() {
            if refused.is_none() && rival.try_wait()?.is_some() {
                refused = Some(index);
            }
        }
        if refused.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    let Some(refused) = refused else {
        rivals.iter_mut().for_each(|it| drop((it.kill(), it.wait())));
        tally.double += 1;
        bail!("both coordinators run");
    };
    // Listening and taking the store are one: the other answers, or is about to.
    std::thread::sleep(Duration::from_millis(200));
    let lives = rivals[1 - refused].try_wait()?.is_none();
    let [first, second] = rivals;
    let (mut winner, loser) = if refused == 0 { (second, first) } else { (first, second) };
    let output = loser.wait_with_output()?;
    let _ = winner.kill();
    winner.wait()?;
    ensure!(lives, "neither of the two runs");
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.contains("in use by another coordinator"), "the refused one said: {said}");
    ensure!(output.status.code() == Some(1), "exit code {:?}", output.status.code());
    tally.note_sum("refused with one sentence", 1.0);
    Ok(())
}
