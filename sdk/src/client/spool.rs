//! Events on disk until the coordinator has acknowledged them.
//!
//! Numbers run over all processes of a job, without gaps. Each lease has a file of its own,
//! `events-<lease epoch>.jsonl`: a header line with the next number, then one event a line. A
//! process writes only its own lease's file, so one that outlives its lease cannot spoil its
//! successor's; what earlier leases left is handed over first and deleted when acknowledged.
//! Sending an event twice is harmless: the coordinator skips the numbers that it has.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use shockwave_proto::REPORT_EVENTS_MAX;

use super::event::{Event, Numbered};

/// Most events that a spool holds. A coordinator that is away longer than a lease ends the job, so
/// this is reached only by epochs of milliseconds.
pub const SPOOL_EVENTS_MAX: usize = 4096;

/// The unacknowledged events of a job.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    lease_epoch: u64,
    /// Number of the next event.
    next: u64,
    /// `next` when the spool was opened; none after the first contact.
    opened_at: Option<u64>,
    /// Highest number that the coordinator is known to hold.
    acknowledged: u64,
    own: File,
    waiting: VecDeque<Numbered>,
    dropped: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    next: u64,
}

impl Spool {
    /// Opens the spool in `folder` for a process under lease `lease_epoch`, with what earlier
    /// processes left unacknowledged.
    ///
    /// # Errors
    /// The folder cannot be made, read or written.
    pub fn open(folder: &Path, lease_epoch: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut waiting = Vec::new();
        let mut next = 1;
        for path in spool_files(folder)? {
            let (first_free, events) = read(&path)?;
            next = next.max(first_free);
            waiting.extend(events);
        }
        // Of two events with one number, the older lease's is a zombie's.
        waiting.sort_by_key(|event| (event.number, std::cmp::Reverse(event.lease_epoch)));
        waiting.dedup_by_key(|event| event.number);
        let waiting = VecDeque::from(waiting);
        let own = write_own(folder, lease_epoch, next, &waiting)?;
        Ok(Self {
            folder: folder.to_owned(),
            lease_epoch,
            next,
            opened_at: Some(next),
            acknowledged: 0,
            own,
            waiting,
            dropped: 0,
        })
    }

    /// Appends an event durably; returns when it is on disk.
    ///
    /// When the spool is full, the oldest event that only informs the forecast makes room.
    ///
    /// # Errors
    /// The disk refuses. The event is then still sent if the process lives.
    pub fn append(&mut self, event: Event) -> io::Result<()> {
        let at_unix_s =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let event = event.sanitised();
        let numbered =
            Numbered { number: self.next, lease_epoch: self.lease_epoch, at_unix_s, event };
        self.next += 1;
        let mut line = serde_json::to_vec(&numbered)?;
        line.push(b'\n');
        self.waiting.push_back(numbered);
        if self.waiting.len() > SPOOL_EVENTS_MAX {
            return self.make_room();
        }
        self.own.write_all(&line)?;
        self.own.sync_data()
    }

    /// The oldest unacknowledged events, at most `most` and at most as many as a call takes.
    #[must_use]
    pub fn batch(&self, most: usize) -> Vec<Numbered> {
        self.waiting.iter().take(most.min(REPORT_EVENTS_MAX)).cloned().collect()
    }

    /// Deletes the events up to and with `number`, the highest that the coordinator holds durably.
    /// Repeating it, or an older one, changes nothing.
    ///
    /// # Errors
    /// The disk refuses; the events are then sent once more after a restart, which is harmless.
    pub fn acknowledge(&mut self, number: u64) -> io::Result<()> {
        if number < self.acknowledged {
            return Ok(());
        }
        self.acknowledged = number;
        let before = self.waiting.len();
        self.waiting.retain(|event| event.number > number);
        if self.waiting.front().is_some_and(|event| event.number > number + 1) {
            // A gap, left by a damaged file: the coordinator takes nothing behind it.
            return self.renumber(number + 1);
        }
        if self.waiting.len() == before { Ok(()) } else { self.compact() }
    }

    /// Brings the numbers in line with the coordinator's at the first contact.
    ///
    /// Every number that it knows was in the spool once, so a spool that knows fewer has been lost
    /// or replaced by an old copy: what happened since is then numbered after what it has.
    ///
    /// # Errors
    /// As [`Self::acknowledge`].
    pub fn synchronise(&mut self, acknowledged: u64) -> io::Result<()> {
        let opened_at = match self.opened_at.take() {
            Some(opened_at) if acknowledged >= opened_at => opened_at,
            _ => return self.acknowledge(acknowledged),
        };
        self.waiting.retain(|event| event.number >= opened_at);
        self.acknowledged = acknowledged;
        self.renumber(acknowledged + 1)
    }

    /// Gives up the oldest event: the coordinator will never take it.
    ///
    /// # Errors
    /// As [`Self::acknowledge`].
    pub fn discard_oldest(&mut self) -> io::Result<()> {
        let Some(oldest) = self.waiting.pop_front() else { return Ok(()) };
        self.dropped += 1;
        self.renumber(oldest.number)
    }

    /// Number of unacknowledged events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether everything is acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Events that were given up since the spool was opened.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Drops one event that no call can have sent yet: the numbers of sent ones are taken.
    fn make_room(&mut self) -> io::Result<()> {
        let unsent = self.waiting.iter().enumerate().skip(REPORT_EVENTS_MAX);
        let mut expendable = unsent.filter(|(_, old)| old.event.is_expendable());
        let index = expendable.next().map_or(REPORT_EVENTS_MAX, |(index, _)| index);
        self.waiting.remove(index);
        self.dropped += 1;
        let first = self.waiting.front().map_or(self.next, |event| event.number);
        self.renumber(first)
    }

    fn renumber(&mut self, first: u64) -> io::Result<()> {
        self.next = first;
        for event in &mut self.waiting {
            event.number = self.next;
            self.next += 1;
        }
        // Events of earlier leases move into the own file, for theirs hold the old numbers.
        self.compact()
    }

    /// Writes what is left into the own file, then deletes what earlier leases left.
    fn compact(&mut self) -> io::Result<()> {
        self.own = write_own(&self.folder, self.lease_epoch, self.next, &self.waiting)?;
        let own = file_path(&self.folder, self.lease_epoch);
        for path in spool_files(&self.folder)? {
            // A later lease's file is its holder's alone.
            if path < own {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

fn file_path(folder: &Path, lease_epoch: u64) -> PathBuf {
    folder.join(format!("events-{lease_epoch:020}.jsonl"))
}

/// The spool files of a folder, by ascending lease epoch.
fn spool_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("events-") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A number that events can have: no job has as many, and what is added to it does not overflow.
fn is_plausible(number: u64) -> bool {
    (1..1 << 53).contains(&number)
}

/// The next free number and the events of a file. A line cut short by a crash is left out: its
/// `append` had not returned.
fn read(path: &Path) -> io::Result<(u64, Vec<Numbered>)> {
    let mut next = 1;
    let mut events = Vec::new();
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        let line = line?;
        let event = serde_json::from_slice::<Numbered>(&line).ok();
        let header = serde_json::from_slice::<Header>(&line).ok();
        if let Some(event) = event.filter(|it| is_plausible(it.number)) {
            next = next.max(event.number + 1);
            events.push(event);
        } else if let Some(header) = header.filter(|it| is_plausible(it.next)) {
            next = next.max(header.next);
        } else if !line.is_empty() {
            tracing::warn!(file = %path.display(), "a line of the event spool is not readable");
        }
    }
    Ok((next, events))
}

/// Writes the own file anew, atomically, and opens it for appending.
fn write_own(
    folder: &Path,
    lease_epoch: u64,
    next: u64,
    waiting: &VecDeque<Numbered>,
) -> io::Result<File> {
    let path = file_path(folder, lease_epoch);
    let temporary = path.with_extension("tmp");
    let mut bytes = serde_json::to_vec(&Header { next })?;
    bytes.push(b'\n');
    for event in waiting {
        serde_json::to_writer(&mut bytes, event)?;
        bytes.push(b'\n');
    }
    let mut file = File::create(&temporary)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, &path)?;
    File::open(folder)?.sync_all()?;
    OpenOptions::new().append(true).open(&path)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
