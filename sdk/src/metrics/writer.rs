//! The thread that writes a run's metrics.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::jsonl::{Lines, history};
use super::prometheus::Exposition;
use super::record::{Place, Record, Stamped};
use super::tensorboard::Events;
use super::{MetricsFiles, curve};
use crate::Error;
use crate::progress::warn;

/// Time between two records of progress.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Records that may wait for the disk: more than a run notes in an hour. What comes on top is lost,
/// since training does not wait for its metrics.
const WAITING_MAX: usize = 4096;

/// A session's end of the channel; without files it does nothing.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    thread: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// `None` once the thread was told to end.
    records: Option<SyncSender<Stamped>>,
    thread: Option<JoinHandle<()>>,
    last: Instant,
}

/// Seconds since 1970.
fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Recorder {
    /// Opens the files and starts the thread.
    ///
    /// # Errors
    /// [`Error::Io`] when folder or files cannot be made: said before training begins.
    pub(crate) fn start(files: MetricsFiles) -> Result<Self, Error> {
        let writers = Writers::open(files)?;
        let (records, incoming) = sync_channel(WAITING_MAX);
        let folder = writers.folder.clone();
        let thread = std::thread::Builder::new()
            .name("shockwave-metrics".to_owned())
            .spawn(move || writers.run(&incoming))
            .map_err(Error::io("start a thread to write to", &folder))?;
        let running =
            Running { records: Some(records), thread: Some(thread), last: Instant::now() };
        Ok(Self { thread: Some(running) })
    }

    /// Hands a record to the thread; never waits.
    pub(crate) fn note(&mut self, record: impl FnOnce() -> Record) {
        let Some(Running { records: Some(records), last, .. }) = &mut self.thread else { return };
        *last = Instant::now();
        // The thread lives as long as this does.
        let stamped = Stamped { at_unix_s: now_unix_s(), record: record() };
        if let Err(TrySendError::Full(_)) = records.try_send(stamped) {
            warn(format_args!("the disk does not keep up with the metrics: a record is lost"));
        }
    }

    /// Notes where training stands, if nothing was noted for a while.
    pub(crate) fn heartbeat(&mut self, place: Place) {
        if self.thread.as_ref().is_some_and(|running| running.last.elapsed() >= HEARTBEAT) {
            self.note(|| Record::Progress(place));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.records = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The open files.
struct Writers {
    folder: PathBuf,
    lines: Lines,
    events: Option<Events>,
    exposition: Option<Exposition>,
    curve: bool,
}

impl Writers {
    fn open(files: MetricsFiles) -> Result<Self, Error> {
        let folder = files.folder;
        std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        let events = files.tensorboard.then(|| Events::create(&folder, now_unix_s()));
        Ok(Self {
            lines: Lines::open(&folder)?,
            events: events.transpose()?,
            exposition: files.prometheus.then(|| Exposition::new(&folder)),
            curve: files.curve,
            folder,
        })
    }

    /// Writes all that comes, and the picture at the end. The first failure is said, later ones are not.
    fn run(mut self, records: &Receiver<Stamped>) {
        let mut failed = false;
        let mut said = |result: Result<(), Error>| {
            if let (Err(error), false) = (result, failed) {
                failed = true;
                warn(format_args!("metrics are not written, training goes on: {error}"));
            }
        };
        for record in records {
            said(self.lines.write(&record));
            if let Some(events) = &mut self.events {
                said(events.write(&record));
            }
            if let Some(exposition) = &mut self.exposition {
                said(exposition.write(&record));
            }
        }
        if self.curve {
            said(draw(&self.folder));
        }
    }
}

/// Draws the run's learning curve, of all its processes.
fn draw(folder: &Path) -> Result<(), Error> {
    let epochs = history(folder)?;
    if epochs.is_empty() {
        return Ok(());
    }
    let path = folder.join("curve.svg");
    let svg = curve::svg(&epochs)
        .map_err(|reason| Error::io("draw", &path)(std::io::Error::other(reason)))?;
    std::fs::write(&path, svg).map_err(Error::io("write", &path))
}
