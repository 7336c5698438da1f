//! `shockwave submit`: hands jobs in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use shockwave_proto::{env, v1};

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::job_file::JobTerms;
use super::{json, table};

/// Hands a job in: a program that trains with the SDK, or any command
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Job file (TOML, or JSON when it ends in .json): `command = ["program", ..]`, a table `env`,
    /// the long names of these options with `_` for `-`, and what is declared beforehand in a table
    /// `declaration`. Lists are lists: `after = [3]`. Options win over it.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub terms: JobTerms,
    /// Variable for its environment: NAME=VALUE, or NAME to hand on this shell's (repeatable)
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Key that makes a repeated submission the same job
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Do not look for the program and its folder here: only the machines that run it have them
    #[arg(long)]
    pub unchecked: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
    /// Program and arguments, passed as they are: no shell
    #[arg(required_unless_present = "file", last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
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

fn environment(
    file: BTreeMap<String, String>,
    asked: &[String],
) -> Result<BTreeMap<String, String>, CliError> {
    let of_shell = |name: &str| std::env::var(name).ok();
    let mut variables: BTreeMap<String, String> =
        HANDED_ON.iter().filter_map(|name| Some(((*name).to_owned(), of_shell(name)?))).collect();
    variables.extend(file);
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
    /// The job, and the terms that it was made from.
    fn request(&self) -> Result<(v1::JobRequest, JobTerms), CliError> {
        let mut terms = match &self.file {
            Some(path) => self.terms.clone().over(JobTerms::read(path)?),
            None => self.terms.clone(),
        };
        let (of_file, variables) =
            (std::mem::take(&mut terms.command), std::mem::take(&mut terms.env));
        let command = if self.command.is_empty() { of_file } else { self.command.clone() };
        if command.is_empty() {
            let sentence = "no command: give one after `--` or as `command` in the file";
            return Err(CliError::Usage(sentence.into()));
        }
        let request = terms.request(command, environment(variables, &self.env)?)?;
        if !self.unchecked {
            runnable(&request).map_err(CliError::Usage)?;
        }
        Ok((request, terms))
    }
}

/// Whether a job's folder and program are here: one that cannot start would take a round and other
/// jobs' devices to find that out.
fn runnable(request: &v1::JobRequest) -> Result<(), String> {
    let remedy = "give --unchecked if only the machines that run it have it";
    let folder = &request.working_dir;
    if !Path::new(folder).is_dir() {
        return Err(format!("--workdir: there is no folder {folder}; {remedy}"));
    }
    let Some(program) = request.command.first() else { return Ok(()) };
    let path = request.env.get("PATH").map_or("", String::as_str);
    match which::which_in(program, Some(path), folder) {
        Ok(_) => Ok(()),
        Err(_) if program.contains('/') => {
            let whole = Path::new(folder).join(program);
            let what =
                if whole.exists() { "is no program that can be run" } else { "is not there" };
            Err(format!("command: `{}` {what}; {remedy}", whole.display()))
        }
        Err(_) => Err(format!("command: there is no program `{program}` in PATH; {remedy}")),
    }
}

impl JobTerms {
    fn request(
        &self,
        command: Vec<String>,
        env: BTreeMap<String, String>,
    ) -> Result<v1::JobRequest, CliError> {
        let absolute = |path: &Path| {
            let path = std::path::absolute(path);
            let path = path.map_err(|error| CliError::Usage(format!("the folder: {error}")))?;
            Ok::<_, CliError>(path.display().to_string())
        };
        let working_dir = absolute(self.workdir.as_deref().unwrap_or(Path::new(".")))?;
        let checkpoint_dir = self.checkpoint_dir.as_deref().map(absolute).transpose()?;
        let (gpus, workers) = (self.gpus.unwrap_or(1), self.workers.unwrap_or(1));
        for (name, value) in [("--gpus", gpus), ("--workers", workers)] {
            if value == 0 {
                return Err(CliError::Usage(format!("{name} is 0, expected at least 1")));
            }
        }
        let weight = self.weight.unwrap_or(1.0);
        if weight <= 0.0 {
            let sentence = format!("--weight is {weight}, expected a number above 0");
            return Err(CliError::Usage(sentence));
        }
        Ok(v1::JobRequest {
            name: self.name.clone().unwrap_or_default(),
            command,
            env,
            working_dir,
            gpus,
            workers,
            weight,
            declaration: self.declaration.declaration()?,
            grace_s: self.grace_s.unwrap_or(0.0),
            checkpoint_dir: checkpoint_dir.unwrap_or_default(),
            retries: self.retries.unwrap_or(0),
            after: self.after.clone(),
            held: self.hold,
            time_limit_s: self.time_limit_s.unwrap_or(0.0),
            device_kind: self.device_kind.clone().unwrap_or_default(),
            device_memory_bytes: self.device_memory_bytes.unwrap_or(0),
            attached: None,
        })
    }
}

/// One member of an array: its index is in its name, its environment and its checkpoint folder.
fn member(request: &v1::JobRequest, index: u32) -> v1::JobRequest {
    let mut member = request.clone();
    if !member.name.is_empty() {
        member.name = format!("{}[{index}]", member.name);
    }
    member.env.insert(env::ARRAY_INDEX.to_owned(), index.to_string());
    if !member.checkpoint_dir.is_empty() {
        member.checkpoint_dir = format!("{}/{index}", member.checkpoint_dir);
    }
    member
}

/// Runs the command.
pub(super) fn run(args: &SubmitArgs) -> ExitCode {
    run_async(submit(args))
}

async fn submit(args: &SubmitArgs) -> Result<ExitCode, CliError> {
    let (request, terms) = args.request()?;
    // A lost answer and a repeat by the transport must not make two jobs.
    let key = args.key.clone().unwrap_or_else(|| crate::secrets::random_hex(16));
    let handed_in: Vec<(v1::JobRequest, String)> = match terms.indices()? {
        None => vec![(request, key)],
        Some(indices) => {
            indices.map(|index| (member(&request, index), format!("{key}/{index}"))).collect()
        }
    };
    let mut client = args.coordinator.connect().await?;
    let mut jobs = Vec::with_capacity(handed_in.len());
    for (job, idempotency_key) in handed_in {
        let request = v1::SubmitRequest { job: Some(job), idempotency_key };
        let reply = client.submit(request).await?.into_inner();
        let job = json::Job::from(reply.job.unwrap_or_default());
        if !args.coordinator.json {
            let what = match (reply.created, job.reason.as_str()) {
                (false, _) => "was handed in before".into(),
                (true, "") => format!("is {}", job.state),
                (true, reason) => format!("is {}: {reason}", job.state),
            };
            table::print(&format!("job {} ({}) {what}", job.id, job.name))?;
        }
        jobs.push(job);
    }
    if args.coordinator.json {
        match (terms.array, jobs.first()) {
            (None, Some(job)) => json::print("job", job)?,
            _ => json::print("jobs", &jobs)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
