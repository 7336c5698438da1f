//! Tests of the event spool.
#![allow(clippy::unwrap_used)]

use super::*;

fn started(step: u64) -> Event {
    let device = "cpu".to_owned();
    Event::Started { epoch: 0, step, sample: 0, batch: 32, device, checkpoint_sha256: None }
}

fn finished(step: u64) -> Event {
    Event::Finished { step, metrics: Default::default(), checkpoint_sha256: None }
}

/// (number, lease epoch) of each unacknowledged event.
fn keys(spool: &Spool) -> Vec<(u64, u64)> {
    spool.waiting.iter().map(|event| (event.number, event.lease_epoch)).collect()
}

#[test]
fn events_survive_the_process_until_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(folder.path(), 4).unwrap();
    for step in 0..3 {
        spool.append(started(step)).unwrap();
    }
    spool.acknowledge(1).unwrap();
    spool.acknowledge(1).unwrap();
    drop(spool);

    let mut spool = Spool::open(folder.path(), 5).unwrap();
    spool.append(finished(9)).unwrap();
    assert_eq!(keys(&spool), [(2, 4), (3, 4), (4, 5)]);
    spool.acknowledge(3).unwrap();
    assert!(!file_path(folder.path(), 4).exists());
    assert_eq!(spool.batch(10)[0].event, finished(9));
    spool.acknowledge(4).unwrap();
    assert!(spool.is_empty());

    // Numbers are never used twice, in whatever lease.
    drop(spool);
    let mut spool = Spool::open(folder.path(), 6).unwrap();
    spool.append(started(10)).unwrap();
    assert_eq!(keys(&spool), [(5, 6)]);
}

#[test]
fn a_process_that_outlives_its_lease_spoils_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut zombie = Spool::open(folder.path(), 1).unwrap();
    zombie.append(started(1)).unwrap();
    let mut successor = Spool::open(folder.path(), 2).unwrap();
    successor.append(started(2)).unwrap();
    zombie.append(started(3)).unwrap();
    zombie.acknowledge(1).unwrap();
    assert_eq!(keys(&successor), [(1, 1), (2, 2)]);
    successor.acknowledge(2).unwrap();
    successor.append(finished(4)).unwrap();
    assert_eq!(keys(&Spool::open(folder.path(), 3).unwrap()), [(3, 2)]);
}

#[test]
fn a_lost_spool_does_not_make_new_events_look_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(folder.path(), 7).unwrap();
    spool.append(started(1)).unwrap();
    spool.append(finished(2)).unwrap();
    spool.synchronise(40).unwrap();
    assert_eq!(keys(&spool), [(41, 7), (42, 7)]);
    // A later contact finds the numbers in line.
    spool.synchronise(41).unwrap();
    assert_eq!(keys(&spool), [(42, 7)]);
    spool.append(finished(2)).unwrap();
    assert_eq!(keys(&spool), [(42, 7), (43, 7)]);
}

#[test]
fn a_gap_is_closed_and_an_older_acknowledgement_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(folder.path(), 1).unwrap();
    for step in 0..4 {
        spool.append(started(step)).unwrap();
    }
    spool.waiting.remove(1);
    spool.acknowledge(1).unwrap();
    assert_eq!(keys(&spool), [(2, 1), (3, 1)]);
    spool.acknowledge(2).unwrap();
    spool.acknowledge(1).unwrap();
    assert_eq!(keys(&spool), [(3, 1)]);
}

#[test]
fn a_line_cut_short_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(folder.path(), 1).unwrap();
    spool.append(started(1)).unwrap();
    spool.append(started(2)).unwrap();
    drop(spool);
    let path = file_path(folder.path(), 1);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    assert_eq!(keys(&Spool::open(folder.path(), 2).unwrap()), [(1, 1)]);
}

#[test]
fn numbers_that_are_not_finite_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(folder.path(), 1).unwrap();
    let metrics = [("good".to_owned(), 0.5), ("bad".to_owned(), f64::NAN)].into();
    let event = Event::EpochDone {
        epoch: 0,
        step: 1,
        batch: 8,
        samples: 8,
        duration_s: f64::INFINITY,
        loss: Some(f64::NAN),
        metrics,
        grad_norm: Some(1.0),
        noise_scale: None,
    };
    spool.append(event).unwrap();
    drop(spool);
    let spool = Spool::open(folder.path(), 2).unwrap();
    let Event::EpochDone { loss, metrics, grad_norm, duration_s, .. } = &spool.waiting[0].event
    else {
        panic!("another event than was written")
    };
    assert_eq!((*loss, *grad_norm, *duration_s), (None, Some(1.0), 0.0));
    assert_eq!(metrics.keys().collect::<Vec<_>>(), ["good"]);
}

#[test]
fn a_full_spool_drops_what_only_informs_and_was_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(folder.path(), 1).unwrap();
    for number in 1..=SPOOL_EVENTS_MAX as u64 {
        let event = if number == 257 { finished(0) } else { started(number) };
        spool.waiting.push_back(Numbered { number, lease_epoch: 1, at_unix_s: 0.0, event });
    }
    spool.next = SPOOL_EVENTS_MAX as u64 + 1;
    spool.append(finished(1)).unwrap();
    assert_eq!(spool.len(), SPOOL_EVENTS_MAX);
    assert_eq!(spool.dropped(), 1);
    assert_eq!(spool.waiting[256].event, finished(0));
    assert_eq!(spool.waiting[257].event, started(259));
    let numbers: Vec<u64> = spool.waiting.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=SPOOL_EVENTS_MAX as u64).collect::<Vec<_>>());
}
