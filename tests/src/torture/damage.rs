//! Damaged databases (P1): refused with a report, or everything that was written is there; never a
//! silently emptier state.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave::service::apply::{Stamp, State};
use shockwave::service::record::Record;
use shockwave::service::recover::{SNAPSHOT_VERSION, recover};
use shockwave::service::settings::Configuration;
use shockwave::store::{NewRecord, Store};
use shockwave_proto::v1;

use super::{Run, Scenario, log};

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "damage",
    what: "P1: a damaged database is refused with a report, or nothing of it is missing",
    counts: "databases opened",
    runs: 1000,
    ci_runs: 60,
    prepare,
};

/// Records of the log that is damaged.
const RECORDS: u64 = 400;
/// Up to here everything is in the database itself, and a snapshot of it.
const IN_DATABASE: u64 = 250;
/// The files that can be damaged.
const FILES: [&str; 3] = ["shockwave.db", "shockwave.db-wal", "high-water"];

/// A folder as kill -9 leaves it, and what it adds up to.
struct Whole {
    files: BTreeMap<&'static str, Vec<u8>>,
    state: Vec<u8>,
    secret: String,
}

fn prepare(_runs: u64) -> Result<Run> {
    let whole = whole()?;
    Ok(Box::new(move |seed, tally| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut files = whole.files.clone();
        let what = harm(&mut files, &mut random);
        tally.checked += 1;
        let folder = tempfile::tempdir()?;
        for (name, content) in &files {
            std::fs::write(folder.path().join(name), content)?;
        }
        match open(folder.path()) {
            Err(error) => {
                tally.note_sum("refused", 1.0);
                let said = format!("{error:#}");
                ensure!(said.len() > 20, "{what}: refused without a report: {said:?}");
                let after = std::fs::metadata(folder.path().join(FILES[0]));
                let before = files.get(FILES[0]).map_or(0, Vec::len) as u64;
                // What is left of the database is still there.
                ensure!(after.map_or(0, |it| it.len()) >= before, "{what}: it was cut");
                Ok(())
            }
            Ok(found) if found == (whole.state.clone(), whole.secret.clone()) => {
                tally.note_sum("whole all the same", 1.0);
                Ok(())
            }
            Ok(_) => {
                tally.lost += 1;
                bail!("{what}: taken for another state without a word")
            }
        }
    }))
}

/// Opens as a coordinator does; the state and the secret.
fn open(folder: &Path) -> Result<(Vec<u8>, String)> {
    let (store, _writer) = Store::open(folder)?;
    let reader = store.reader()?;
    let state = recover(&store.info, &reader, &Configuration::default(), &store.info.secret)?;
    ensure!(state.book.number == store.info.last_number, "the log has another end");
    // Every record has to be readable, also those that a snapshot spares the replay of.
    log::all(&reader)?;
    Ok((state.save().map_err(anyhow::Error::msg)?.body, store.info.secret.clone()))
}

fn whole() -> Result<Whole> {
    let folder = tempfile::tempdir()?;
    let (store, writer) = Store::open(folder.path())?;
    let configuration = Configuration::default();
    let mut state = State::empty(&configuration, &store.info.secret)?;
    for number in 1..=RECORDS {
        let record = fact(number, &configuration);
        let stamp = Stamp { number, now_s: number as f64 * 0.1, unix_s: 1e9 + number as f64 };
        let new = NewRecord {
            number,
            now_s: stamp.now_s,
            unix_s: stamp.unix_s,
            job_id: record.job_id(),
            body: record.encode()?,
        };
        log::append(&writer, &new)?;
        state.apply(stamp, &record);
        if number == IN_DATABASE {
            writer.snapshot(state.save().map_err(anyhow::Error::msg)?, SNAPSHOT_VERSION)?;
            log::wait_for(&writer, number)?;
            let other = rusqlite::Connection::open(&store.info.path)?;
            other.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(()))?;
            // Kept open, so that its end does not take the write-ahead log with it.
            std::mem::forget(other);
        }
    }
    log::wait_for(&writer, RECORDS)?;
    let read = |name: &'static str| -> Result<_> {
        Ok((name, std::fs::read(folder.path().join(name)).context(name)?))
    };
    let files = FILES.into_iter().map(read).collect::<Result<_>>()?;
    let secret = store.info.secret.clone();
    drop((store, writer));
    let state = open(folder.path())?.0;
    Ok(Whole { files, state, secret })
}

/// A log as a coordinator writes it.
fn fact(number: u64, configuration: &Configuration) -> Record {
    if number == 1 {
        let configuration = Box::new(configuration.clone());
        return Record::Started { configuration, program: "torture".into() };
    }
    if number.is_multiple_of(3) {
        let request = v1::JobRequest {
            name: format!("job {number}"),
            command: vec!["train".into(), "x".repeat(number as usize)],
            working_dir: "/".into(),
            ..v1::JobRequest::default()
        };
        return Record::Submitted {
            job: number / 3,
            user: "ada".into(),
            key: format!("key {number}"),
            request: Box::new(request),
        };
    }
    Record::Weighed { job: 1 + number % (number / 3).max(1), weight: 1.0 + number as f64 }
}

/// Damages one or two files; says how.
fn harm(files: &mut BTreeMap<&'static str, Vec<u8>>, random: &mut ChaCha8Rng) -> String {
    let name = FILES[[0, 0, 0, 0, 1, 1, 1, 2][random.random_range(0..8)]];
    let content = files.entry(name).or_default();
    let length = content.len().max(1);
    let at = random.random_range(0..length);
    let what = match random.random_range(0..7) {
        0 => {
            content.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            content[at] ^= 1 << random.random_range(0..8);
            format!("a bit of byte {at} flipped")
        }
        2 => {
            let end = (at + random.random_range(1..600)).min(length);
            random.fill(&mut content[at..end]);
            format!("bytes {at}..{end} random")
        }
        3 => {
            let page = at / 4096 * 4096;
            let end = (page + 4096).min(length);
            content[page..end].fill(0);
            format!("page at {page} zeroed")
        }
        4 => {
            let (from, to) = (at / 4096 * 4096, random.random_range(0..length) / 4096 * 4096);
            let count = 4096.min(length - from).min(length - to);
            content.copy_within(from..from + count, to);
            format!("page at {from} written over that at {to}")
        }
        5 => {
            files.remove(name);
            "removed".to_owned()
        }
        _ => {
            content.clear();
            "emptied".to_owned()
        }
    };
    format!("{name} {what}")
}

/// What is not damaged is not refused.
#[cfg(test)]
mod tests {
    #[test]
    #[allow(clippy::unwrap_used)]
    fn a_whole_folder_is_whole() {
        let whole = super::whole().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in &whole.files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        assert!(super::open(folder.path()).unwrap() == (whole.state, whole.secret));
    }
}
