//! The store against kills, power loss, damage and rivals.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;

fn record(number: u64) -> NewRecord {
    NewRecord {
        number,
        now_s: number as f64,
        unix_s: 1e9 + number as f64,
        job_id: number % 3,
        body: format!("{{\"fact\":{number},\"text\":\"{}\"}}", "x".repeat(number as usize % 50)),
    }
}

/// Waits until a record is durable.
fn wait_for(writer: &Writer, number: u64) {
    let state = writer.state();
    while state.borrow().durable < number {
        assert!(state.borrow().ended.is_none(), "{:?}", state.borrow());
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn all(folder: &Path) -> Vec<StoredRecord> {
    LogReader::open(&folder.join("shockwave.db")).unwrap().read(1, 0, 1 << 20).unwrap()
}

/// Checks that the log is exactly the records 1..=n for some n of at least `acknowledged`.
fn check_prefix(records: &[StoredRecord], acknowledged: u64) {
    for (index, stored) in records.iter().enumerate() {
        let expected = record(index as u64 + 1);
        assert_eq!((stored.number, &stored.body), (expected.number, &expected.body));
    }
    assert!(records.len() as u64 >= acknowledged, "{} of {acknowledged}", records.len());
}

#[test]
fn gives_back_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    for start in [1, 101, 201] {
        let (store, writer) = Store::open(folder.path()).unwrap();
        assert_eq!(store.info.last_number, start - 1);
        assert_eq!(store.info.epoch, start / 100 + 1);
        (start..start + 100).for_each(|number| writer.append(record(number)).unwrap());
        drop(writer);
    }
    check_prefix(&all(folder.path()), 300);
    let reader = LogReader::open(&folder.path().join("shockwave.db")).unwrap();
    let of_job = reader.read(10, 2, 5).unwrap();
    let numbers: Vec<_> = of_job.iter().map(|record| record.number).collect();
    assert_eq!(numbers, [11, 14, 17, 20, 23]);
}

#[test]
fn is_private_and_belongs_to_one() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let (_store, writer) = Store::open(&state).unwrap();
    writer.append(record(1)).unwrap();
    wait_for(&writer, 1);
    for entry in fs::read_dir(&state).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
    let error = Store::open(&state).err().unwrap().to_string();
    assert!(error.contains("in use by another coordinator"), "{error}");
}

#[test]
fn a_coordinator_that_was_replaced_writes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, writer) = Store::open(folder.path()).unwrap();
    writer.append(record(1)).unwrap();
    wait_for(&writer, 1);
    // As by a file system that does not keep locks: the row is what fences.
    let rival = rusqlite::Connection::open(folder.path().join("shockwave.db")).unwrap();
    rival.execute("UPDATE incarnation SET epoch = epoch + 1", []).unwrap();
    writer.append(record(2)).unwrap();
    let state = writer.state();
    while state.borrow().ended.is_none() {
        std::thread::sleep(Duration::from_micros(50));
    }
    let ended = state.borrow().ended.clone().unwrap();
    assert!(matches!(*ended, StoreError::Fenced { own: 1, current: 2 }), "{ended}");
    assert_eq!(all(folder.path()).len(), 1);
}

#[test]
fn a_store_of_a_later_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).unwrap());
    let path = folder.path().join("shockwave.db");
    let later = rusqlite::Connection::open(&path).unwrap();
    later.pragma_update(None, "user_version", 99).unwrap();
    later.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(later);
    let before = fs::read(&path).unwrap();
    let error = Store::open(folder.path()).err().unwrap();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Every length of the write-ahead log that a power loss could leave.
#[test]
fn every_prefix_of_the_writes_holds_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, writer) = Store::open(folder.path()).unwrap();
    let wal = folder.path().join("shockwave.db-wal");
    let mut acknowledged = vec![(fs::metadata(&wal).unwrap().len(), 0)];
    for number in 1..=60 {
        writer.append(record(number)).unwrap();
        wait_for(&writer, number);
        acknowledged.push((fs::metadata(&wal).unwrap().len(), number));
    }
    let (database, log) =
        (fs::read(folder.path().join("shockwave.db")).unwrap(), fs::read(&wal).unwrap());
    let images = 300;
    for image in 0..=images {
        let length = log.len() * image / images;
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join("shockwave.db"), &database).unwrap();
        fs::write(copy.path().join("shockwave.db-wal"), &log[..length]).unwrap();
        let promised = acknowledged.iter().filter(|(size, _)| *size <= length as u64);
        let promised = promised.map(|(_, number)| *number).max();
        // Before the first acknowledgement the tables themselves may be missing.
        let Some(promised) = promised else { continue };
        let (store, _writer) = Store::open(copy.path()).unwrap();
        let records = store.reader().unwrap().read(1, 0, 1 << 20).unwrap();
        check_prefix(&records, promised);
        assert_eq!(store.info.last_number, records.len() as u64);
    }
}

/// A damaged file is refused, or everything that was written is read; never less.
#[test]
fn damage_is_never_taken_for_an_emptier_log() {
    let folder = tempfile::tempdir().unwrap();
    let (store, writer) = Store::open(folder.path()).unwrap();
    (1..=200).for_each(|number| writer.append(record(number)).unwrap());
    drop((store, writer));
    let path = folder.path().join("shockwave.db");
    let whole = rusqlite::Connection::open(&path).unwrap();
    whole.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(whole);
    let content = fs::read(&path).unwrap();
    let mut random = 12345_u64;
    let mut refused = 0;
    for _ in 0..200 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut damaged = content.clone();
        let at = (random >> 16) as usize % damaged.len();
        let length = 1 + (random >> 50) as usize % 64;
        for byte in damaged.iter_mut().skip(at).take(length) {
            *byte ^= 0xa5;
        }
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join("shockwave.db"), &damaged).unwrap();
        let records = Store::open(copy.path())
            .and_then(|(store, _writer)| store.reader()?.read(1, 0, 1 << 20));
        match records {
            Ok(records) => assert_eq!(records, all(folder.path()), "damage at {at}"),
            Err(_) => refused += 1,
        }
    }
    // The rest fell on space that holds nothing.
    assert!(refused > 50, "{refused}");
}

/// An empty database, a foreign one, a log without its end: none is taken for a new beginning.
#[test]
fn a_used_folder_without_its_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, writer) = Store::open(folder.path()).unwrap();
    (1..=50).for_each(|number| writer.append(record(number)).unwrap());
    wait_for(&writer, 50);
    // As kill -9 leaves it: everything is in the write-ahead log.
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let (database, wal) = (read("shockwave.db"), read("shockwave.db-wal"));
    let mark = read("high-water");
    drop((store, writer));
    let check = |database: Option<&[u8]>, wal: &[u8], expected: &str| {
        let copy = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| fs::write(copy.path().join(name), content);
        write("high-water", &mark).unwrap();
        if let Some(database) = database {
            write("shockwave.db", database).unwrap();
        }
        if !wal.is_empty() {
            write("shockwave.db-wal", wal).unwrap();
        }
        let opened = Store::open(copy.path());
        let said = opened.err().map_or_else(String::new, |error| error.to_string());
        assert!(said.contains(expected), "{said:?} lacks {expected:?}");
        if expected.contains("50 were durable") && !wal.is_empty() {
            assert_eq!(fs::read(copy.path().join("shockwave.db-wal")).unwrap(), wal, "evidence");
        }
    };
    check(Some(&database), &wal, "");
    check(None, &[], "empty or missing");
    check(Some(&[]), &[], "empty or missing");
    check(Some(&database), &wal[..wal.len() * 2 / 3], "50 were durable");
    let mut flipped = wal.clone();
    flipped[wal.len() / 2] ^= 1;
    check(Some(&database), &flipped, "50 were durable");
    let foreign = tempfile::tempdir().unwrap();
    let other = rusqlite::Connection::open(foreign.path().join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE other (x)").unwrap();
    drop(other);
    let other = fs::read(foreign.path().join("other.db")).unwrap();
    check(Some(&other), &[], "50 were durable");
}

/// Runs in a process of its own, which a fail point kills.
#[test]
fn child_that_is_killed() {
    let Ok(folder) = std::env::var("SHOCKWAVE_TEST_STORE") else { return };
    let (store, writer) = Store::open(Path::new(&folder)).unwrap();
    let state = writer.state();
    let first = store.info.last_number + 1;
    for number in first..first + 400 {
        writer.append(record(number)).unwrap();
        let durable = state.borrow().durable;
        println!("acknowledged {durable}");
        if number % 7 == 0 {
            wait_for(&writer, number);
        }
    }
}

#[test]
fn killed_at_named_moments_it_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    for (run, point) in ["store.commit", "store.committed"].into_iter().cycle().take(16).enumerate()
    {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::child_that_is_killed", "--nocapture"])
            .env("SHOCKWAVE_TEST_STORE", folder.path())
            .env("SHOCKWAVE_FAIL_POINT", format!("{point}:{}", run * 3 + 1))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().filter_map(|line| line.strip_prefix("acknowledged ")).next_back();
        let acknowledged = last.map_or(0, |number| number.parse().unwrap());
        check_prefix(&all(folder.path()), acknowledged);
    }
    assert!(!all(folder.path()).is_empty());
}
