//! Builds a session: every setting has a default that works offline.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tch::nn::VarStore;

use super::coordinator::Coordinator;
use super::parallel::Handed;
use super::save::{Best, Every, Saving};
use super::stop::StopSources;
use super::{Phase, Position, Session};
use crate::Error;
use crate::arena::Arena;
use crate::checkpoint::{Checkpoints, Snapshot, Writer};
use crate::data::{Dataset, Sampler};
use crate::distributed::{Group, Rendezvous};
use crate::lr::LearningRate;
use crate::monitor::{Monitor, NoiseSettings};
use crate::optim::Optimizer;
use crate::policy::{BatchPolicy, check_batch};
use crate::progress::{Output, Progress};
use crate::signals::{self, StopHandle};
use crate::stopwatch::Stopwatch;

/// The settings of a session. See [`Session::builder`].
pub struct Builder<'a> {
    vs: &'a VarStore,
    optimizer: Box<dyn Optimizer>,
    policy: Box<dyn BatchPolicy>,
    epochs: u64,
    seed: u64,
    shuffle: bool,
    bounds: Option<(u64, u64)>,
    lr: LearningRate,
    noise: NoiseSettings,
    micro_batch: Option<usize>,
    checkpoints: Option<PathBuf>,
    keep_last: usize,
    every: Every,
    keep_best: Option<(String, Best)>,
    background: bool,
    signals: bool,
    output: Output,
    family: Option<String>,
    offline: bool,
    group: Option<Group>,
    alone: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        vs: &'a VarStore,
        optimizer: Box<dyn Optimizer>,
        policy: Box<dyn BatchPolicy>,
    ) -> Self {
        Self {
            vs,
            optimizer,
            policy,
            epochs: 1,
            seed: 0,
            shuffle: true,
            bounds: None,
            lr: LearningRate::new(),
            noise: NoiseSettings::default(),
            micro_batch: None,
            checkpoints: None,
            keep_last: 3,
            every: Every::Epochs(1),
            keep_best: None,
            background: true,
            signals: true,
            output: Output::Auto,
            family: None,
            offline: false,
            group: None,
            alone: false,
        }
    }

    /// How many epochs to train (default 1).
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = epochs;
        self
    }

    /// The seed of the sample order and of libtorch's generators in each step (default 0). The model's initial values
    /// come from `tch::manual_seed`, which you call before building the model.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether each epoch visits the samples in a new random order (default true).
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// The smallest and largest batch size that the policy may choose, in samples (default: the policy's own).
    pub fn batch_bounds(mut self, min: u64, max: u64) -> Self {
        self.bounds = Some((min, max));
        self
    }

    /// How the learning rate follows the position and the batch size (default: constant, linear in the batch size).
    pub fn learning_rate(mut self, lr: LearningRate) -> Self {
        self.lr = lr;
        self
    }

    /// How the noise scale is sampled and smoothed, when the policy needs it.
    pub fn noise(mut self, settings: NoiseSettings) -> Self {
        self.noise = settings;
        self
    }

    /// Works on at most this many samples in one forward pass and accumulates the gradients of larger batches: the way
    /// to a batch beyond the device's memory. The noise scale is then measured on every step at almost no cost.
    pub fn micro_batch(mut self, samples: usize) -> Self {
        self.micro_batch = Some(samples);
        self
    }

    /// Where checkpoints are kept. When there are some in `folder`, the session goes on from the newest one. Without a
    /// folder (the default) nothing is saved, not even at a stop.
    pub fn checkpoints(mut self, folder: impl Into<PathBuf>) -> Self {
        self.checkpoints = Some(folder.into());
        self
    }

    /// How many of the newest checkpoints are kept (default 3).
    pub fn keep_last(mut self, count: usize) -> Self {
        self.keep_last = count;
        self
    }

    /// When checkpoints are written, besides at a stop and at the end (default: after each epoch).
    pub fn checkpoint_every(mut self, every: Every) -> Self {
        self.every = every;
        self
    }

    /// Also keeps the checkpoint of the epoch with the best value of `metric`, one of those given to
    /// [`end_epoch`](Session::end_epoch); the file `best.json` names it.
    pub fn keep_best(mut self, metric: impl Into<String>, best: Best) -> Self {
        self.keep_best = Some((metric.into(), best));
        self
    }

    /// Whether periodic checkpoints are written on a thread of their own, so that training stands still only while the
    /// state is copied (default true). The copy takes as much memory as the checkpoint, and keeps it.
    pub fn background_checkpoints(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Whether SIGTERM and SIGINT stop the session after a checkpoint (default true; a second SIGINT ends the program
    /// at once). The handlers stay installed for the process.
    pub fn handle_signals(mut self, handle: bool) -> Self {
        self.signals = handle;
        self
    }

    /// What is shown on standard error (default: a bar on a terminal, plain lines elsewhere).
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// Names the kind of job (model and data set, say): the coordinator's forecasts learn across jobs of one family.
    /// Default: the program's name.
    pub fn family(mut self, family: impl Into<String>) -> Self {
        self.family = Some(family.into());
        self
    }

    /// Does not speak with a coordinator even if the environment names one.
    pub fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// The workers to train with (default: those that the environment names, see
    /// [`Rendezvous::from_env`](crate::distributed::Rendezvous::from_env); none without it). The batch size is then that
    /// of all together, and each works on its share; rank 0 alone writes checkpoints and shows progress.
    /// BatchNorm's statistics stay each worker's own; rank 0's are saved.
    pub fn workers(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }

    /// Trains alone, whatever the environment says of other workers.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Checks all settings, moves the model's variables into the flat buffers and, when there are checkpoints, resumes
    /// from the newest one.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range; [`Error::Unsupported`] the variable that cannot be
    /// trained; [`Error::Data`] when there are no samples.
    pub fn build(mut self, data: impl Dataset + 'static) -> Result<Session, Error> {
        let (min, max) = self.check()?;
        let group = self.join()?;
        let chief = group.as_ref().is_none_or(Group::is_chief);
        if !chief {
            self.output = Output::Quiet;
        }
        let arena = Arena::new(self.vs)?;
        self.optimizer.prepare(arena.params())?;
        let sampler = Sampler::new(data.len(), self.seed, self.shuffle)?;
        let batch = self.policy.initial().clamp(min, max);
        let signal = self.signals.then(signals::flag).transpose()?;
        // Rank 0 alone talks to the coordinator and writes.
        let talks = chief && !self.offline;
        let coordinator = if talks { Coordinator::from_env()? } else { Coordinator::default() };
        // Under a coordinator all processes of a job share the folder that it gives.
        let folder = coordinator.checkpoint_folder().or(self.checkpoints).filter(|_| chief);
        let mut session = Session {
            monitor: Monitor::new(self.policy.needs(), self.noise, &arena)?
                .with_workers(group.is_some()),
            rate: self.lr.resolve(data.len() as u64, batch)?,
            bounds: (min, max),
            initial_batch: batch,
            micro_batch: self.micro_batch,
            arena,
            optimizer: self.optimizer,
            policy: self.policy,
            progress: Progress::new(self.output, data.len() as u64),
            data: Box::new(data),
            sampler,
            seed: self.seed,
            shuffle: self.shuffle,
            epochs: self.epochs,
            position: Position { epoch: 0, step: 0, sample: 0, batch },
            phase: Phase::Between,
            handed: Handed::default(),
            group,
            evaluation_cut: Cell::new(false),
            decisions: Vec::new(),
            metrics: BTreeMap::new(),
            saving: None,
            best: None,
            stopwatch: Stopwatch::default(),
            stop: StopSources { signal, handle: StopHandle::default() },
            coordinator,
            exact: true,
            resumed: None,
        };
        if let Some(folder) = folder {
            let checkpoints = Checkpoints::new(folder, self.keep_last)?;
            session.open_checkpoints(&checkpoints)?;
            let writer = Writer::start(Arc::new(checkpoints))?;
            session.saving = Some(Saving {
                every: self.every,
                keep_best: self.keep_best,
                background: self.background,
                ..session.saving_at(writer)
            });
        }
        session.start_alike()?;
        session.report_start(self.family.unwrap_or_else(program_name));
        Ok(session)
    }

    /// Joins the other workers, if there are any.
    fn join(&mut self) -> Result<Option<Group>, Error> {
        match (self.group.take(), self.alone) {
            (Some(group), _) => Ok(Some(group)),
            (None, true) => Ok(None),
            (None, false) => {
                Rendezvous::from_env()?.map(|meeting| Group::join(&meeting)).transpose()
            }
        }
    }

    /// Checks the settings and returns the bounds of the batch size.
    fn check(&self) -> Result<(u64, u64), Error> {
        if self.epochs == 0 {
            return Err(Error::invalid("the number of epochs", 0, "at least one"));
        }
        if self.micro_batch == Some(0) {
            return Err(Error::invalid("the micro-batch", 0, "at least one sample"));
        }
        self.every.check()?;
        self.policy.check()?;
        let declared = self.policy.declare();
        let (min, max) = self.bounds.unwrap_or((declared.min, declared.max));
        check_batch("the smallest batch size", min)?;
        if min > max {
            let got = format!("{min}..={max}");
            return Err(Error::invalid("the batch-size bounds", got, "the smaller number first"));
        }
        Ok((min, max))
    }
}

/// The file name of the running program.
fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_stem().map_or_else(|| "training".to_owned(), |n| n.to_string_lossy().into_owned())
}

impl Session {
    /// Resumes from the newest checkpoint, if there is one.
    fn open_checkpoints(&mut self, checkpoints: &Checkpoints) -> Result<(), Error> {
        checkpoints.clean()?;
        let Some(loaded) = checkpoints.load_newest()? else { return Ok(()) };
        let (path, name) = (loaded.path.display().to_string(), loaded.name);
        self.resumed = Some((name, loaded.sha256.clone()));
        self.restore(loaded)?;
        let (epoch, step) = (self.position.epoch, self.position.step);
        self.progress.say(&format!("resumed at epoch {epoch}, step {step} from {path}"));
        Ok(())
    }

    /// What is saved so far: the checkpoint that the session resumed from.
    fn saving_at(&self, writer: Writer) -> Saving {
        let name = self.resumed.as_ref().map(|(name, _)| *name);
        Saving {
            writer,
            every: Every::Epochs(1),
            keep_best: None,
            background: true,
            generation: name.map_or(0, |n| n.generation).max(self.coordinator.generation()),
            number: name.map_or(0, |n| n.number),
            last: None,
            saved_at: name.map(|_| self.save_position()),
            in_flight: None,
            spare: Snapshot::default(),
            saved_time: Instant::now(),
        }
    }
}
