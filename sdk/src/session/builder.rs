//! Builds a session: every setting has a default that works offline.

use std::path::PathBuf;

use tch::nn::VarStore;

use super::memory::Ceiling;
use super::save::{Best, Every};
use crate::distributed::Group;
use crate::gradient::{GradientSettings, LossScale};
use crate::lr::LearningRate;
use crate::metrics::MetricsFiles;
use crate::monitor::NoiseSettings;
use crate::optim::Optimizer;
use crate::policy::BatchPolicy;
use crate::precision::Precision;
use crate::progress::Output;

/// The settings of a session. See [`Session::builder`](crate::Session::builder).
pub struct Builder<'a> {
    pub(super) vs: &'a VarStore,
    pub(super) optimizer: Box<dyn Optimizer>,
    pub(super) policy: Box<dyn BatchPolicy>,
    pub(super) epochs: u64,
    pub(super) seed: u64,
    pub(super) shuffle: bool,
    pub(super) bounds: Option<(u64, u64)>,
    pub(super) lr: LearningRate,
    pub(super) noise: NoiseSettings,
    pub(super) ceiling: Ceiling,
    pub(super) precision: Precision,
    pub(super) gradient: GradientSettings,
    pub(super) checkpoints: Option<PathBuf>,
    pub(super) keep_last: usize,
    pub(super) every: Every,
    pub(super) keep_best: Option<(String, Best)>,
    pub(super) background: bool,
    pub(super) signals: bool,
    pub(super) output: Output,
    pub(super) prefetch: usize,
    pub(super) metrics: Option<MetricsFiles>,
    pub(super) family: Option<String>,
    pub(super) offline: bool,
    pub(super) group: Option<Group>,
    pub(super) alone: bool,
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
            ceiling: Ceiling::default(),
            precision: Precision::Full,
            gradient: GradientSettings::default(),
            checkpoints: None,
            keep_last: 3,
            every: Every::Epochs(1),
            keep_best: None,
            background: true,
            signals: true,
            output: Output::Auto,
            prefetch: 0,
            metrics: None,
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
        self.ceiling.samples = Some(samples);
        self
    }

    /// Finds by itself how many samples one forward pass can hold: when memory runs out, the step is repeated with half
    /// as many at a time, and so are all that follow. What is found goes into the checkpoints. BatchNorm's running
    /// statistics have then seen the start of the repeated step twice.
    pub fn find_micro_batch(mut self) -> Self {
        self.ceiling.find = true;
        self
    }

    /// The kind in which the forward pass computes (default: that of the variables). fp16 brings a dynamic loss scale.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Clips the gradient to this L2 norm, on the device: see [`GradientSettings::clip_norm`].
    pub fn clip_norm(mut self, norm: f64) -> Self {
        self.gradient.clip_norm = Some(norm);
        self
    }

    /// Leaves out steps whose gradient is not finite, and counts them: see [`GradientSettings::skip_non_finite`] and
    /// [`Session::skipped_steps`](crate::Session::skipped_steps).
    pub fn skip_non_finite(mut self, skip: bool) -> Self {
        self.gradient.skip_non_finite = skip;
        self
    }

    /// The factor on the loss (default: none, and a dynamic one in fp16).
    pub fn loss_scale(mut self, scale: LossScale) -> Self {
        self.gradient.loss_scale = scale;
        self
    }

    /// Fetches this many training batches ahead, on a thread of its own (default 0: none). It changes nothing but the
    /// time: batches, their order and a resume stay the same. The data set must not draw from libtorch's generators.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
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
    /// [`end_epoch`](crate::Session::end_epoch); the file `best.json` names it.
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

    /// Writes metrics into a folder (default: that which the environment names, see
    /// [`MetricsFiles::from_env`]; none without it). A path alone means all formats.
    pub fn metrics(mut self, files: impl Into<MetricsFiles>) -> Self {
        self.metrics = Some(files.into());
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
}
