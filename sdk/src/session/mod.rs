//! The session: what wraps a plain tch training loop.
//!
//! ```no_run
//! # use tch::{nn, nn::Module, Device};
//! # use shockwave_sdk::{Batch, Dataset, Error, Session, optim::Sgd, policy::Static};
//! # fn run(train: impl Dataset + 'static, test: impl Dataset) -> Result<(), Error> {
//! let vs = nn::VarStore::new(Device::Cpu);
//! let net = nn::linear(vs.root(), 784, 10, Default::default());
//! let mut session = Session::builder(&vs, Sgd::new(0.1).momentum(0.9), Static::new(64))
//!     .epochs(10)
//!     .seed(7)
//!     .build(train)?;
//! while let Some(_epoch) = session.next_epoch()? {
//!     while let Some(batch) = session.next_batch()? {
//!         session.step(&batch, |b| net.forward(&b.x).cross_entropy_for_logits(&b.y))?;
//!     }
//!     let (mut correct, mut seen) = (0.0, 0.0);
//!     for batch in session.evaluation(&test, 256) {
//!         let batch = batch?;
//!         correct += net.forward(&batch.x).accuracy_for_logits(&batch.y).double_value(&[]) * batch.len() as f64;
//!         seen += batch.len() as f64;
//!     }
//!     session.end_epoch([("test_accuracy", correct / seen)])?;
//! }
//! std::process::exit(session.finish()?.exit_code());
//! # }
//! ```

mod build;
mod builder;
mod coordinator;
mod decide;
mod epoch;
mod evaluation;
mod memory;
mod outcome;
mod parallel;
mod recording;
mod resume;
mod save;
mod state;
mod step;
mod stop;

pub use builder::Builder;
pub use epoch::Epoch;
pub use evaluation::Evaluation;
pub use outcome::Outcome;
pub use save::{Best, Every};
pub use step::{IntoLoss, Step};

use std::cell::Cell;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tch::nn::VarStore;
use tch::{Device, Tensor};

use crate::arena::Arena;
use crate::checkpoint::{Name, Saved};
use crate::data::{Loader, Sampler};
use crate::distributed::Group;
use crate::gradient::Control;
use crate::lr::Rate;
use crate::metrics::Recorder;
use crate::monitor::{Monitor, NoiseEstimate};
use crate::optim::Optimizer;
use crate::policy::{BatchPolicy, Decision};
use crate::precision::Precision;
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;

/// Where the training stands; all of it is in every checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// The current epoch, from 0.
    pub epoch: u64,
    /// Steps taken in all.
    pub step: u64,
    /// Samples seen in all.
    pub sample: u64,
    /// The batch size, in samples.
    pub batch: u64,
}

/// What the session is doing; it decides which calls make sense.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Phase {
    /// Between two epochs.
    Between,
    /// Inside an epoch.
    Inside,
    /// All epochs are done, or training was told to stop: the loops end.
    Ended(Outcome),
}

/// A training run: owns the flat buffers, the optimiser, the policy and the position in the data.
pub struct Session {
    arena: Arena,
    optimizer: Box<dyn Optimizer>,
    policy: Box<dyn BatchPolicy>,
    loader: Loader,
    sampler: Sampler,
    seed: u64,
    shuffle: bool,
    epochs: u64,
    position: Position,
    phase: Phase,
    /// What `next_batch` has handed out and no step has used yet.
    handed: parallel::Handed,
    /// The other workers of a data parallel run.
    group: Option<Group>,
    /// Whether a stop was seen during the evaluation that is going on.
    evaluation_cut: Cell<bool>,
    monitor: Monitor,
    rate: Rate,
    bounds: (u64, u64),
    initial_batch: u64,
    /// Most samples in one forward pass.
    ceiling: memory::Ceiling,
    precision: Precision,
    control: Control,
    decisions: Vec<Decision>,
    metrics: BTreeMap<String, f64>,
    /// Writes the metrics' files.
    recorder: Recorder,
    saving: Option<save::Saving>,
    stop: stop::StopSources,
    coordinator: coordinator::Coordinator,
    /// The best value of the metric whose best checkpoint is kept.
    best: Option<f64>,
    /// Time of training in the current epoch.
    stopwatch: Stopwatch,
    /// Whether this run will end with the same bytes as an uninterrupted one.
    exact: bool,
    /// The checkpoint that this process resumed from, and its model file's sum.
    resumed: Option<(Name, String)>,
    progress: Progress,
}

impl Session {
    /// Starts to describe a session over the trainable variables of `vs`. Build the whole model first.
    pub fn builder<'a>(
        vs: &'a VarStore,
        optimizer: impl Optimizer + 'static,
        policy: impl BatchPolicy + 'static,
    ) -> Builder<'a> {
        Builder::new(vs, Box::new(optimizer), Box::new(policy))
    }

    /// The flat buffers.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The device that the model lives on.
    pub fn device(&self) -> Device {
        self.arena.device()
    }

    /// The current batch size, in samples.
    pub fn batch_size(&self) -> u64 {
        self.position.batch
    }

    /// The flat buffers that a checkpoint holds besides the model, by name: optimiser moments, the monitor's sums.
    pub fn buffers(&self) -> BTreeMap<String, Tensor> {
        self.training_buffers()
    }

    /// Steps taken in all.
    pub fn steps(&self) -> u64 {
        self.position.step
    }

    /// How often numbers were read from the device.
    pub fn host_reads(&self) -> u64 {
        self.monitor.host_reads()
    }

    /// The noise scale as of the last epoch or decision, when the policy needs it.
    pub fn noise(&self) -> Option<NoiseEstimate> {
        self.monitor.noise()
    }

    /// Steps that were skipped because their gradient was not finite, as of the last epoch, decision or checkpoint.
    pub fn skipped_steps(&self) -> u64 {
        self.control.known().map_or(0, |known| known.skipped as u64)
    }

    /// The loss scale as of the last epoch, decision or checkpoint; `None` when steps are never skipped.
    pub fn loss_scale(&self) -> Option<f64> {
        self.control.known().map(|known| known.scale)
    }

    /// The learning rate of the next step.
    pub fn learning_rate(&self) -> f64 {
        self.optimizer.base_lr() * self.rate.at(self.position.sample)
    }

    /// All changes of the batch size so far.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The last ended epoch's metrics.
    pub fn metrics(&self) -> &BTreeMap<String, f64> {
        &self.metrics
    }

    /// The checkpoint that this process wrote last, if any.
    pub fn last_checkpoint(&self) -> Option<&Saved> {
        self.saving.as_ref()?.last.as_ref()
    }

    /// Whether this run, resumed or not, ends with the same bytes as one that was never interrupted.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Ends the session and says how it ended; exit with [`Outcome::exit_code`]. Under a coordinator, waits for a
    /// limited time until it has acknowledged everything. An [attached](mod@crate::attach) program that was asked for its
    /// devices executes itself again here, to wait for its next lease: this does not return then.
    ///
    /// # Errors
    /// [`crate::Error::OutOfOrder`] when epochs are left and nobody asked to stop.
    pub fn finish(mut self) -> Result<Outcome, crate::Error> {
        self.progress.finish();
        self.record_end();
        match self.phase {
            Phase::Ended(outcome) => {
                self.coordinator.close();
                let cause = self.coordinator.cause().filter(|_| outcome != Outcome::Finished);
                if let Some(cause) = cause {
                    self.saving = None;
                    crate::attach::wait_again(cause);
                }
                Ok(outcome)
            }
            _ => Err(crate::Error::OutOfOrder {
                call: "finish",
                when: format!("in epoch {} of {}", self.position.epoch, self.epochs),
                instead: "call it after next_epoch has returned None",
            }),
        }
    }
}
