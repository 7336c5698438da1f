//! Options of a program whose loop the SDK wraps, and what it writes at its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde::Serialize;
use shockwave_sdk::checkpoint::Saved;
use shockwave_sdk::lr::{BatchRule, LearningRate};
use shockwave_sdk::optim::{AdamW, Optimizer, Sgd};
use shockwave_sdk::policy::{Accordion, BatchPolicy, Decision, Expert, Gns, GnsRule, Static};
use shockwave_sdk::session::{Builder, Every};
use shockwave_sdk::{Outcome, Session};

use crate::options::{OptimizerKind, TrainingOptions};
use crate::sample_log::SampleLog;

/// Who sets the batch size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyKind {
    /// Nobody: it stays at --batch.
    Static,
    /// Accordion: --batch while the gradient's norm changes fast, else --max-batch.
    Accordion,
    /// Gradient noise scale: doubles from --batch up to --max-batch as the noise grows.
    Gns,
    /// A table: --schedule.
    Expert,
}

/// What an adaptive run has beyond a plain one.
#[derive(Debug, Clone, Args)]
pub struct AdaptiveOptions {
    /// Who sets the batch size.
    #[arg(long, value_enum, default_value_t = PolicyKind::Static)]
    pub policy: PolicyKind,
    /// Largest batch size, in samples [default: 8 times --batch].
    #[arg(long)]
    pub max_batch: Option<u64>,
    /// Epochs between two decisions of a policy.
    #[arg(long, default_value_t = 10)]
    pub period: u64,
    /// Batch sizes by first epoch for --policy expert, such as 0:32,5:128.
    #[arg(long, value_delimiter = ',', value_parser = parse_entry, value_name = "EPOCH:BATCH")]
    pub schedule: Vec<(u64, u64)>,
    /// Epochs over which the learning rate follows a change of the batch size.
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    pub warmup_epochs: f64,
    /// Where checkpoints are kept; training goes on from the newest one. A coordinator sets it.
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Steps between two checkpoints [default: one each epoch].
    #[arg(long, value_name = "N")]
    pub checkpoint_every: Option<u64>,
    /// Where results are written as JSON once training is complete.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Where metrics are written: JSON lines, TensorBoard's event files, Prometheus's text, a learning curve.
    #[arg(long, value_name = "DIR")]
    pub metrics: Option<PathBuf>,
    /// Largest norm of the gradient; a longer one is shortened to it.
    #[arg(long, value_name = "NORM", allow_negative_numbers = true)]
    pub clip: Option<f64>,
    /// Where the index of each sample trained on is noted, for checking that none is lost.
    #[arg(long, value_name = "FILE")]
    pub sample_log: Option<PathBuf>,
}

/// A program's own options and those of an adaptive run.
#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Both<T: Args> {
    #[command(flatten)]
    own: T,
    #[command(flatten)]
    adaptive: AdaptiveOptions,
}

/// Waits for a lease where the environment asks for it, and reads the command line of a program whose loop the SDK wraps;
/// `T` are the options of its plain twin.
/// Settings that cannot be are refused here, before any data is read or made.
#[must_use]
pub fn parse<T: Args + CommandFactory + AsRef<TrainingOptions>>() -> (T, AdaptiveOptions) {
    if let Err(error) = shockwave_sdk::attach() {
        eprintln!("Error: {error}");
        std::process::exit(1);
    }
    let about = T::command().get_about().cloned().unwrap_or_default();
    let command = Both::<T>::command().about(about);
    let both = Both::<T>::from_arg_matches(&command.get_matches());
    let Both { own, adaptive } = both.unwrap_or_else(|error| error.exit());
    if let Err(error) = adaptive.check(own.as_ref()) {
        eprintln!("Error: {error:#}");
        std::process::exit(1);
    }
    (own, adaptive)
}

fn parse_entry(text: &str) -> Result<(u64, u64), String> {
    let entry = text
        .split_once(':')
        .and_then(|(epoch, batch)| Some((epoch.trim().parse().ok()?, batch.trim().parse().ok()?)));
    entry.ok_or_else(|| format!("{text:?}: EPOCH:BATCH is wanted, such as 5:128"))
}

impl AdaptiveOptions {
    /// The SDK's optimiser and the policy.
    ///
    /// # Errors
    /// `--policy expert` without `--schedule`, or the other way round; `--json` where no file can be written.
    pub fn choose(
        &self,
        training: &TrainingOptions,
    ) -> Result<(Box<dyn Optimizer>, Box<dyn BatchPolicy>)> {
        self.check_json()?;
        let (small, period) = (training.batch, self.period);
        let large = self.max_batch.unwrap_or(8 * small);
        if self.schedule.is_empty() == (self.policy == PolicyKind::Expert) {
            bail!("--policy expert and --schedule EPOCH:BATCH,.. are given together or not at all");
        }
        let policy: Box<dyn BatchPolicy> = match self.policy {
            PolicyKind::Static => Box::new(Static::new(small)),
            PolicyKind::Accordion => Box::new(Accordion::new(small, large).window(period)),
            PolicyKind::Gns => Box::new(Gns::new(small, large).rule(GnsRule::Doubling { period })),
            PolicyKind::Expert => Box::new(Expert::new(self.schedule.iter().copied())),
        };
        let lr = training.lr();
        let optimizer: Box<dyn Optimizer> = match training.optimizer {
            OptimizerKind::Sgd => Box::new(Sgd::new(lr).momentum(0.9).weight_decay(5e-4)),
            OptimizerKind::Adamw => Box::new(AdamW::new(lr).weight_decay(0.01)),
        };
        Ok((optimizer, policy))
    }

    fn check(&self, training: &TrainingOptions) -> Result<()> {
        for (option, value) in [("--batch", training.batch), ("--epochs", training.epochs)] {
            ensure!(value > 0, "{option} 0: at least 1");
        }
        let lr = training.lr();
        ensure!(lr > 0.0 && lr.is_finite(), "--lr {lr}: a number above 0");
        let (_, policy) = self.choose(training)?;
        policy.check().context("--policy, --batch and --max-batch")
    }

    /// Whether the results can be written, now and not after the training.
    fn check_json(&self) -> Result<()> {
        let Some(file) = &self.json else { return Ok(()) };
        let probe = beside(file);
        ensure!(!file.is_dir(), "--json {}: a folder; a file is wanted", file.display());
        let written = std::fs::write(&probe, "").and_then(|()| std::fs::remove_file(&probe));
        written.with_context(|| format!("--json {}: cannot be written", file.display()))
    }

    /// The learning rate's rule, and where and when checkpoints are written.
    #[must_use]
    pub fn configure<'a>(&self, builder: Builder<'a>, training: &TrainingOptions) -> Builder<'a> {
        let rule = match training.optimizer {
            OptimizerKind::Sgd => BatchRule::Linear,
            OptimizerKind::Adamw => BatchRule::Sqrt,
        };
        let rate = LearningRate::new().rule(rule).warmup_epochs(self.warmup_epochs);
        let mut builder = builder.epochs(training.epochs).seed(training.seed).learning_rate(rate);
        if let Some(folder) = &self.metrics {
            builder = builder.metrics(folder);
        }
        if let Some(norm) = self.clip {
            builder = builder.clip_norm(norm);
        }
        if let Some(folder) = &self.checkpoint_dir {
            builder = builder.checkpoints(folder);
        }
        if let Some(steps) = self.checkpoint_every {
            builder = builder.checkpoint_every(Every::Steps(steps));
        }
        builder
    }

    /// The sample log, if one is wanted.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn sample_log(&self) -> Result<SampleLog> {
        SampleLog::open(self.sample_log.as_deref())
    }

    /// Ends the session: writes the results if training is complete and they are wanted, prints the
    /// outcome and gives the exit code.
    ///
    /// # Errors
    /// The results cannot be written, or the session was ended too early.
    pub fn finish(&self, session: Session) -> Result<i32> {
        let mut results = Results {
            metrics: session.metrics().clone(),
            steps: session.steps(),
            batch: session.batch_size(),
            exact: session.is_exact(),
            decisions: session.decisions().to_vec(),
            checkpoint: None,
            checkpoint_sha256: None,
        };
        if let Some(Saved { path, sha256, .. }) = session.last_checkpoint() {
            results.checkpoint = Some(path.clone());
            results.checkpoint_sha256 = Some(sha256.clone());
        }
        let outcome = session.finish()?;
        if let (Outcome::Finished, Some(file)) = (&outcome, &self.json) {
            let (json, whole) = (serde_json::to_vec_pretty(&results)?, beside(file));
            // Whoever waits for the file never sees a half of it.
            let written = std::fs::write(&whole, json).and_then(|()| std::fs::rename(&whole, file));
            written.with_context(|| format!("--json {}", file.display()))?;
        }
        match &outcome {
            Outcome::Finished => println!("{}", serde_json::to_string(&results)?),
            Outcome::Yielded { reason } => eprintln!("yielded, resumable: {reason}"),
            Outcome::Revoked { reason } => eprintln!("stopped, the lease is gone: {reason}"),
        }
        Ok(outcome.exit_code())
    }
}

/// A name in the same folder that is this process's own.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

/// Results of a complete run.
#[derive(Debug, Serialize)]
struct Results {
    /// The last epoch's, by name.
    #[serde(flatten)]
    metrics: BTreeMap<String, f64>,
    steps: u64,
    /// The last batch size.
    batch: u64,
    /// Whether the weights are those of a run without interruption, bit for bit.
    exact: bool,
    decisions: Vec<Decision>,
    checkpoint: Option<PathBuf>,
    checkpoint_sha256: Option<String>,
}
