//! Writes checkpoints on a thread of its own: training stands still only while the state is copied.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{Checkpoints, Name, Saved, Snapshot};
use crate::Error;

/// The result of a write, and the snapshot, whose memory the next one may use.
type Answer = (Snapshot, Result<Saved, Error>);

/// A thread that writes checkpoints, one at a time.
#[derive(Debug)]
pub(crate) struct Writer {
    checkpoints: Arc<Checkpoints>,
    /// `None` once the thread was told to end.
    jobs: Option<SyncSender<(Name, Snapshot)>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
    in_flight: bool,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(checkpoints: Arc<Checkpoints>) -> Result<Self, Error> {
        let (jobs, work) = sync_channel::<(Name, Snapshot)>(1);
        let (done, answers) = sync_channel(1);
        let theirs = checkpoints.clone();
        let thread = std::thread::Builder::new()
            .name("shockwave-checkpoint".to_owned())
            .spawn(move || {
                for (name, snapshot) in work {
                    let saved = theirs.save(name, &snapshot);
                    if done.send((snapshot, saved)).is_err() {
                        break;
                    }
                }
            })
            .map_err(Error::io("start a thread to write to", checkpoints.folder()))?;
        let (jobs, thread) = (Some(jobs), Some(thread));
        Ok(Self { checkpoints, jobs, answers, thread, in_flight: false })
    }

    /// Hands a snapshot to the thread. The one before must have been answered: see [`wait`](Self::wait).
    pub(crate) fn submit(&mut self, name: Name, snapshot: Snapshot) {
        debug_assert!(!self.in_flight, "one checkpoint at a time");
        // The channel takes one job without waiting, and the thread lives as long as this does.
        self.in_flight = self.jobs.as_ref().is_some_and(|jobs| jobs.send((name, snapshot)).is_ok());
    }

    /// The answer to the last submission, if it has come.
    pub(crate) fn poll(&mut self) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        self.in_flight = false;
        Some(answer)
    }

    /// Waits for the answer to the last submission, if one is outstanding.
    pub(crate) fn wait(&mut self) -> Option<Answer> {
        if !self.in_flight {
            return None;
        }
        self.in_flight = false;
        self.answers.recv().ok()
    }

    /// Writes on this thread. The one before must have been answered.
    pub(crate) fn write_now(&self, name: Name, snapshot: &Snapshot) -> Result<Saved, Error> {
        self.checkpoints.save(name, snapshot)
    }

    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        // An answer may still wait in the channel: the thread must not block on it.
        self.wait();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
