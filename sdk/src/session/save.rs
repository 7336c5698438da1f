//! Saves a session.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tch::Tensor;

use super::Session;
use super::state::{SessionState, Settings, VERSION};
use crate::Error;
use crate::checkpoint::{Fingerprint, HostTensor, Name, Saved, Snapshot, Writer};
use crate::distributed::Group;

/// When checkpoints are written, besides at a stop and at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// After every this many epochs.
    Epochs(u64),
    /// After every this many steps.
    Steps(u64),
    /// After this much time, at the next step's end.
    Time(Duration),
}

impl Every {
    pub(super) fn check(self) -> Result<(), Error> {
        match self {
            Self::Epochs(0) | Self::Steps(0) => {
                Err(Error::invalid("the period of checkpoints", 0, "at least one"))
            }
            _ => Ok(()),
        }
    }
}

/// Which value of a metric is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    /// The highest (an accuracy).
    Highest,
    /// The lowest (a loss).
    Lowest,
}

impl Best {
    /// Whether `value` is better than the best one so far.
    pub(super) fn improves(self, value: f64, best: Option<f64>) -> bool {
        match (self, best) {
            (_, None) => value.is_finite(),
            (Self::Highest, Some(best)) => value > best,
            (Self::Lowest, Some(best)) => value < best,
        }
    }
}

/// The place of a checkpoint in the training, and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SavePoint {
    pub epoch: u64,
    pub step: u64,
    pub cursor: usize,
    /// How long training stood still for it.
    pub stood_still: Duration,
    /// The value of the metric by which it is the best so far.
    pub best: Option<f64>,
}

/// Where and when a session saves, and what it last saved.
#[derive(Debug)]
pub(super) struct Saving {
    pub writer: Writer,
    pub every: Every,
    /// The metric whose best checkpoint is kept.
    pub keep_best: Option<(String, Best)>,
    /// Whether periodic checkpoints are written on the writer's thread.
    pub background: bool,
    /// The epoch of the lease; 0 without a coordinator.
    pub generation: u64,
    /// Number of the last checkpoint.
    pub number: u64,
    pub last: Option<Saved>,
    /// The position (epoch, step, samples of the epoch) at the last checkpoint.
    pub saved_at: Option<(u64, u64, usize)>,
    /// The checkpoint that the writer's thread works on.
    pub in_flight: Option<SavePoint>,
    /// The snapshot before: its memory is used again.
    pub spare: Snapshot,
    pub saved_time: Instant,
}

/// Copies named tensors to host memory, into that of `spare` where it fits.
fn copies(
    tensors: &BTreeMap<String, Tensor>,
    mut spare: BTreeMap<String, HostTensor>,
) -> Result<BTreeMap<String, HostTensor>, Error> {
    let copy = |(name, tensor): (&String, &Tensor)| {
        let copy = HostTensor::copy_of(name, tensor, spare.remove(name))?;
        Ok((name.clone(), copy))
    };
    tensors.iter().map(copy).collect()
}

impl Session {
    /// The flat buffers that a checkpoint holds besides the model.
    pub(super) fn training_buffers(&self) -> BTreeMap<String, Tensor> {
        let moments = self.optimizer.moments().into_iter();
        let moments = moments.map(|(n, t)| (format!("optimizer.{n}"), t));
        let monitor = self.monitor.buffers().into_iter().map(|(n, t)| (format!("monitor.{n}"), t));
        moments.chain(monitor).collect()
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            shuffle: self.shuffle,
            samples: self.sampler.len(),
            initial_batch: self.initial_batch,
            optimizer: self.optimizer.name().to_owned(),
            policy: self.policy.kind().to_owned(),
        }
    }

    /// Copies the whole state to host memory (one host read for the numbers, one copy per tensor).
    fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let spare = self.saving.as_mut().map(|s| std::mem::take(&mut s.spare)).unwrap_or_default();
        let model = copies(&self.arena.named_variables(), spare.model)?;
        let training = copies(&self.training_buffers(), spare.training)?;
        let state = serde_json::to_value(self.state()?)
            .map_err(|e| Error::invalid("the session's state", e, "a value that JSON can hold"))?;
        Ok(Snapshot { model, training, state })
    }

    /// The state besides the tensors (one host read).
    pub(super) fn state(&mut self) -> Result<SessionState, Error> {
        let reading = tch::no_grad(|| self.read(false))?;
        Ok(SessionState {
            version: VERSION,
            fingerprint: self.fingerprint(),
            settings: self.settings(),
            position: self.position.clone(),
            cursor: self.sampler.cursor(),
            optimizer_steps: self.optimizer.steps(),
            rate: self.rate.state(),
            monitor: self.monitor.state(&reading),
            control: self.control.known(),
            micro_batch: self.ceiling.samples.filter(|_| self.ceiling.find),
            policy: self.policy.state(),
            decisions: self.decisions.clone(),
            metrics: self.metrics.clone(),
            best: self.best,
            epoch_train_s: self.stopwatch.seconds(),
        })
    }

    /// What must be the same for a resume to be exact.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.arena, self.group.as_ref().map_or(1, Group::size))
    }

    pub(super) fn save_position(&self) -> (u64, u64, usize) {
        (self.position.epoch, self.position.step, self.sampler.cursor())
    }

    /// Saves a checkpoint now and waits until it is durable, unless this position is saved already or there is no
    /// folder for it.
    ///
    /// # Errors
    /// [`Error::Io`] when it could not be written in three attempts; older checkpoints are untouched.
    pub fn save(&mut self) -> Result<(), Error> {
        self.await_writer();
        self.save_as(false, None)
    }

    /// Copies the state and writes it, on the writer's thread if `background`; `best` is the value of the metric by
    /// which this is the best checkpoint so far.
    fn save_as(&mut self, background: bool, best: Option<f64>) -> Result<(), Error> {
        let position = self.save_position();
        let Some(saving) = &self.saving else { return Ok(()) };
        if saving.saved_at == Some(position) {
            return Ok(());
        }
        let started = Instant::now();
        let snapshot = self.snapshot()?;
        let (epoch, step, cursor) = position;
        let Some(saving) = &mut self.saving else { return Ok(()) };
        let name = Name { generation: saving.generation, number: saving.number + 1 };
        saving.number = name.number;
        saving.saved_at = Some(position);
        let point = |stood_still| SavePoint { epoch, step, cursor, stood_still, best };
        if background {
            saving.writer.submit(name, snapshot);
            saving.in_flight = Some(point(started.elapsed()));
            return Ok(());
        }
        let saved = saving.writer.write_now(name, &snapshot);
        saving.spare = snapshot;
        let saved = saved.inspect_err(|_| saving.saved_at = None)?;
        self.saved(saved, &point(started.elapsed()));
        Ok(())
    }

    /// Notes that a checkpoint is durable.
    fn saved(&mut self, saved: Saved, point: &SavePoint) {
        let Some(saving) = &mut self.saving else { return };
        if let (Some(value), Some((metric, _))) = (point.best, &saving.keep_best) {
            let marked = saving.writer.checkpoints().mark_best(saved.name, metric, value);
            if let Err(error) = marked {
                crate::progress::warn(format_args!("the best checkpoint is not marked: {error}"));
            }
        }
        saving.last = Some(saved.clone());
        self.report_saved(&saved, point);
        self.record_saved(&saved, point);
    }

    /// Takes the writer's answer. A write that failed is reported, and training goes on: the older checkpoints are
    /// there, and the next one is tried at its time.
    fn take_answer(&mut self, answer: Option<(Snapshot, Result<Saved, Error>)>) {
        let Some(saving) = &mut self.saving else { return };
        let (Some((spare, result)), Some(point)) = (answer, saving.in_flight.take()) else {
            return;
        };
        saving.spare = spare;
        match result {
            Ok(saved) => self.saved(saved, &point),
            Err(error) => {
                saving.saved_at = None;
                let message = format_args!("training goes on without a checkpoint: {error}");
                crate::progress::warn(message);
            }
        }
    }

    /// Takes the writer's answer, if there is one.
    pub(super) fn poll_writer(&mut self) {
        let Some(saving) = self.saving.as_mut().filter(|s| s.in_flight.is_some()) else { return };
        // Without an answer the checkpoint stays in flight.
        if let Some(answer) = saving.writer.poll() {
            self.take_answer(Some(answer));
        }
    }

    /// Waits until the writer has nothing to do.
    fn await_writer(&mut self) {
        let Some(saving) = &mut self.saving else { return };
        let answer = saving.writer.wait();
        self.take_answer(answer);
    }

    /// The value of the watched metric, if it is the best so far.
    fn new_best(&mut self) -> Option<f64> {
        let (metric, order) = self.saving.as_ref()?.keep_best.as_ref()?;
        let value = *self.metrics.get(metric)?;
        if !order.improves(value, self.best) {
            return None;
        }
        self.best = Some(value);
        Some(value)
    }

    /// Saves if it is time for it, or if the epoch that just ended is the best so far.
    pub(super) fn save_if_due(&mut self, epoch_ended: bool) -> Result<(), Error> {
        self.poll_writer();
        let best = if epoch_ended { self.new_best() } else { None };
        let Some(saving) = &mut self.saving else { return Ok(()) };
        let due = match saving.every {
            Every::Epochs(n) => epoch_ended && self.position.epoch.is_multiple_of(n),
            Every::Steps(n) => !epoch_ended && self.position.step.is_multiple_of(n),
            Every::Time(period) => saving.saved_time.elapsed() >= period,
        };
        if !due && best.is_none() {
            return Ok(());
        }
        saving.saved_time = Instant::now();
        let background = saving.background;
        self.await_writer();
        match self.save_as(background, best) {
            Err(error @ Error::Io { .. }) => {
                let message = format_args!("training goes on without a checkpoint: {error}");
                crate::progress::warn(message);
                Ok(())
            }
            other => other,
        }
    }
}
