//! Checks a builder's settings and makes the session.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::builder::Builder;
use super::coordinator::Coordinator;
use super::parallel::Handed;
use super::save::{Every, Saving};
use super::stop::StopSources;
use super::{Phase, Position, Session};
use crate::Error;
use crate::arena::Arena;
use crate::checkpoint::{Checkpoints, Snapshot, Writer};
use crate::data::{Dataset, Loader, Sampler};
use crate::distributed::{Backend, Group, Rendezvous};
use crate::gradient::{Control, GradientSettings, LossScale};
use crate::metrics::{MetricsFiles, Recorder};
use crate::monitor::Monitor;
use crate::policy::check_batch;
use crate::progress::{Output, Progress};
use crate::signals::{self, StopHandle};
use crate::stopwatch::Stopwatch;

impl Builder<'_> {
    /// Checks all settings, moves the model's variables into the flat buffers and, when there are checkpoints, resumes
    /// from the newest one.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range; [`Error::Unsupported`] the variable that cannot be
    /// trained; [`Error::Data`] when there are no samples.
    pub fn build(mut self, data: impl Dataset + 'static) -> Result<Session, Error> {
        self.check()?;
        let group = self.join()?;
        let chief = group.as_ref().is_none_or(Group::is_chief);
        // Rank 0 alone talks to the coordinator, writes and shows.
        let talks = chief && !self.offline;
        let coordinator = if talks { Coordinator::from_env()? } else { Coordinator::default() };
        if !chief {
            self.output = Output::Quiet;
        }
        // Under a coordinator all processes of a job share the folder that it gives; a program that was started by hand
        // keeps its own.
        let given = coordinator.checkpoint_folder();
        let folder = match crate::attach::is_attached() {
            true => self.checkpoints.take().or(given),
            false => given.or(self.checkpoints.take()),
        };
        let files = match self.metrics.take() {
            Some(files) => Some(files),
            None => MetricsFiles::from_env()?,
        };
        let family = self.family.take().unwrap_or_else(program_name);
        let saves = (self.keep_last, self.every, self.keep_best.take(), self.background);
        let mut session = self.fresh(Box::new(data), group, coordinator)?;
        if let Some(folder) = folder.filter(|_| chief) {
            let (keep_last, every, keep_best, background) = saves;
            let checkpoints = Checkpoints::new(folder, keep_last)?;
            session.open_checkpoints(&checkpoints)?;
            let writer = Writer::start(Arc::new(checkpoints))?;
            session.saving =
                Some(Saving { every, keep_best, background, ..session.saving_at(writer) });
        }
        session.start_alike()?;
        session.tell_backend();
        if let Some(files) = files.filter(|_| chief) {
            session.recorder = Recorder::start(files)?;
            session.record_start();
        }
        session.report_start(family);
        Ok(session)
    }

    /// The session at the start of its first epoch.
    fn fresh(
        mut self,
        data: Box<dyn Dataset>,
        group: Option<Group>,
        coordinator: Coordinator,
    ) -> Result<Session, Error> {
        let (min, max) = self.bounds()?;
        let arena = Arena::new(self.vs)?;
        self.optimizer.prepare(arena.params())?;
        let samples = data.len();
        let sampler = Sampler::new(samples, self.seed, self.shuffle)?;
        let batch = self.policy.initial().clamp(min, max);
        let signal = self.signals.then(signals::flag).transpose()?;
        Ok(Session {
            monitor: Monitor::new(self.policy.needs(), self.noise, &arena)?
                .with_workers(group.is_some()),
            rate: self.lr.resolve(samples as u64, batch)?,
            bounds: (min, max),
            initial_batch: batch,
            ceiling: self.ceiling,
            precision: self.precision,
            control: Control::new(gradient(self.gradient, self.precision), arena.device())?,
            arena,
            optimizer: self.optimizer,
            policy: self.policy,
            progress: Progress::new(self.output, samples as u64),
            loader: Loader::new(data, self.prefetch)?,
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
            recorder: Recorder::default(),
            saving: None,
            best: None,
            stopwatch: Stopwatch::default(),
            stop: StopSources { signal, handle: StopHandle::default() },
            coordinator,
            exact: true,
            resumed: None,
        })
    }

    /// Joins the other workers, if there are any.
    fn join(&mut self) -> Result<Option<Group>, Error> {
        match (self.group.take(), self.alone) {
            (Some(group), _) => Ok(Some(group)),
            (None, true) => Ok(None),
            (None, false) => Rendezvous::from_env()?
                .map(|meeting| Group::join_on(&meeting, self.vs.device()))
                .transpose(),
        }
    }

    /// Checks the settings.
    fn check(&self) -> Result<(), Error> {
        if self.epochs == 0 {
            return Err(Error::invalid("the number of epochs", 0, "at least one"));
        }
        if self.ceiling.samples == Some(0) {
            return Err(Error::invalid("the micro-batch", 0, "at least one sample"));
        }
        self.every.check()?;
        self.policy.check()?;
        self.bounds().map(drop)
    }

    /// The bounds of the batch size.
    fn bounds(&self) -> Result<(u64, u64), Error> {
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

/// The settings with the loss scale that the precision needs.
fn gradient(settings: GradientSettings, precision: crate::Precision) -> GradientSettings {
    match settings.loss_scale {
        LossScale::None => GradientSettings { loss_scale: precision.loss_scale(), ..settings },
        _ => settings,
    }
}

/// The file name of the running program.
fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_stem().map_or_else(|| "training".to_owned(), |n| n.to_string_lossy().into_owned())
}

impl Session {
    /// Says when sums between GPUs go over the hosts because there is no NCCL: it costs time that nobody sees.
    fn tell_backend(&self) {
        let slow = self.group.as_ref().is_some_and(|group| group.backend() == Backend::Gloo);
        if let Some(reason) = Backend::nccl_missing().filter(|_| slow && self.device().is_cuda()) {
            self.progress.say(&format!("the workers' sums go over gloo: no NCCL, {reason}"));
        }
    }

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
