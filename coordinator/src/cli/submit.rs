//! `shockwave submit`: hands a job in.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use shockwave_proto::v1;
use shockwave_proto::v1::declaration::Policy;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::{json, table};

/// Hands a job in: a program that trains with the SDK, or any command
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Name for people [default: the program and its first argument]
    #[arg(long)]
    pub name: Option<String>,
    /// Devices that it needs together
    #[arg(long, default_value_t = 1)]
    pub gpus: u32,
    /// Processes to start; each gets its share of the devices and torchrun's variables
    #[arg(long, default_value_t = 1)]
    pub workers: u32,
    /// Market budget relative to other jobs
    #[arg(long, default_value_t = 1.0)]
    pub weight: f64,
    /// Time between a request to yield and the kill, seconds [default: the coordinator's]
    #[arg(long, value_name = "SECONDS")]
    pub grace_s: Option<f64>,
    /// How often it is started again after a failure
    #[arg(long, default_value_t = 0)]
    pub retries: u32,
    /// Folder to start in [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<std::path::PathBuf>,
    /// Folder for its checkpoints [default: one in the coordinator's state folder]
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<std::path::PathBuf>,
    /// Variable for its environment: NAME=VALUE, or NAME to hand on this shell's (repeatable)
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Key that makes a repeated submission the same job
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// What is declared beforehand; the SDK declares the rest when the job starts.
    #[command(flatten)]
    pub declaration: DeclarationArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
    /// Program and arguments, passed as they are: no shell
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Batch size policies that can be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyKind {
    /// The batch size never changes.
    Static,
    /// Between --batch and --batch-max, either way.
    Accordion,
    /// From --batch up to --batch-max.
    Gns,
}

/// What a user may declare beforehand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Declared beforehand (the SDK declares it by itself)")]
pub struct DeclarationArgs {
    /// How the batch size may change
    #[arg(long, value_enum, requires = "epochs")]
    pub policy: Option<PolicyKind>,
    /// Epochs that it will train
    #[arg(long)]
    pub epochs: Option<u32>,
    /// Samples in an epoch
    #[arg(long, requires = "epochs")]
    pub samples_per_epoch: Option<u64>,
    /// Batch size of the first epoch, samples
    #[arg(long, requires = "epochs")]
    pub batch: Option<u32>,
    /// Largest batch size, samples
    #[arg(long, requires = "policy")]
    pub batch_max: Option<u32>,
    /// Model and data set: jobs of one family share what was learnt
    #[arg(long, requires = "epochs")]
    pub family: Option<String>,
}

impl DeclarationArgs {
    fn declaration(&self) -> Result<Option<v1::Declaration>, CliError> {
        let Some(epochs_total) = self.epochs else { return Ok(None) };
        let need = |what: &str| CliError::Usage(format!("--epochs also needs {what}"));
        let samples_per_epoch =
            self.samples_per_epoch.ok_or_else(|| need("--samples-per-epoch"))?;
        let batch = self.batch.ok_or_else(|| need("--batch"))?;
        let max = self.batch_max.unwrap_or(batch);
        if max < batch {
            let sentence = format!("--batch-max {max} is below --batch {batch}");
            return Err(CliError::Usage(sentence));
        }
        let policy = match self.policy.unwrap_or(PolicyKind::Static) {
            PolicyKind::Static => Policy::Static(v1::Static {}),
            PolicyKind::Accordion => Policy::Accordion(v1::Accordion { small: batch, large: max }),
            PolicyKind::Gns => Policy::Gns(v1::Gns { initial: batch, max }),
        };
        Ok(Some(v1::Declaration {
            epochs_total,
            samples_per_epoch,
            initial_batch: batch,
            family: self.family.clone().unwrap_or_default(),
            policy: Some(policy),
        }))
    }
}

/// Variables that programs cannot do without; everything else is asked for with --env.
const HANDED_ON: [&str; 7] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LIBTORCH",
    "OMP_NUM_THREADS",
];

fn environment(asked: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let of_shell = |name: &str| std::env::var(name).ok();
    let mut variables: BTreeMap<String, String> =
        HANDED_ON.iter().filter_map(|name| Some(((*name).to_owned(), of_shell(name)?))).collect();
    for entry in asked {
        let (name, value) = match entry.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = of_shell(entry);
                let error = || CliError::Usage(format!("--env {entry}: this shell has no {entry}"));
                (entry.as_str(), value.ok_or_else(error)?)
            }
        };
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

impl SubmitArgs {
    fn request(&self) -> Result<v1::JobRequest, CliError> {
        let absolute = |path: &std::path::Path| {
            let path = std::path::absolute(path);
            let path = path.map_err(|error| CliError::Usage(format!("the folder: {error}")))?;
            Ok::<_, CliError>(path.display().to_string())
        };
        let working_dir = absolute(self.workdir.as_deref().unwrap_or(std::path::Path::new(".")))?;
        if !std::path::Path::new(&working_dir).is_dir() {
            return Err(CliError::Usage(format!("--workdir: there is no folder {working_dir}")));
        }
        let checkpoint_dir = self.checkpoint_dir.as_deref().map(absolute).transpose()?;
        for (name, value) in [("--gpus", self.gpus), ("--workers", self.workers)] {
            if value == 0 {
                return Err(CliError::Usage(format!("{name} is 0, expected at least 1")));
            }
        }
        if self.weight <= 0.0 {
            let sentence = format!("--weight is {}, expected a number above 0", self.weight);
            return Err(CliError::Usage(sentence));
        }
        Ok(v1::JobRequest {
            name: self.name.clone().unwrap_or_default(),
            command: self.command.clone(),
            env: environment(&self.env)?,
            working_dir,
            gpus: self.gpus,
            workers: self.workers,
            weight: self.weight,
            declaration: self.declaration.declaration()?,
            grace_s: self.grace_s.unwrap_or(0.0),
            checkpoint_dir: checkpoint_dir.unwrap_or_default(),
            retries: self.retries,
        })
    }
}

/// Runs the command.
pub(super) fn run(args: &SubmitArgs) -> ExitCode {
    run_async(submit(args))
}

async fn submit(args: &SubmitArgs) -> Result<ExitCode, CliError> {
    let request = v1::SubmitRequest {
        job: Some(args.request()?),
        // A lost answer and a repeat by the transport must not make two jobs.
        idempotency_key: args.key.clone().unwrap_or_else(|| crate::secrets::random_hex(16)),
    };
    let mut client = args.coordinator.connect().await?;
    let reply = client.submit(request).await?.into_inner();
    let job = json::Job::from(reply.job.unwrap_or_default());
    if args.coordinator.json {
        json::print("job", &job)?;
    } else if reply.created {
        table::print(&format!("job {} ({}) is {}", job.id, job.name, job.state))?;
    } else {
        table::print(&format!("job {} ({}) was handed in before", job.id, job.name))?;
    }
    Ok(ExitCode::SUCCESS)
}
