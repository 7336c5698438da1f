//! `cargo xtask demo`: one coordinator, one device slot, three jobs that overfill it.
//!
//! Three ResNets are trained on CIFAR-10, or on generated pictures, in rounds of three seconds: one
//! under Accordion, one under the gradient noise scale, one with a constant batch size. Every job is
//! preempted and resumed; what the jobs and the coordinator say is shown as a table and a picture.

mod coordinator;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::{process, setup};
use coordinator::{Coordinator, Job};

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with CIFAR-10's binary version, of any length; without it pictures are generated
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Devices to share: cpu:COUNT, gpu:INDEX,.. or auto
    #[arg(long, default_value = "cpu:1", value_name = "LIST")]
    devices: String,
    /// Length of a round, seconds
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    round_s: f64,
    /// Scheduling policy; the default, eq. 2 of the paper as printed, lets every job progress in each
    /// window, so that there is something to see: the coordinator's own default would run jobs of
    /// this size through, one after the other
    #[arg(long, default_value = "shockwave-paper", value_name = "NAME")]
    policy: String,
    /// Rounds that are planned at once, T
    #[arg(long, default_value_t = 6, value_name = "ROUNDS")]
    window_t: usize,
    /// Training pictures of each job
    #[arg(long, default_value_t = 2000, value_name = "N")]
    train_samples: u64,
    /// Epochs of each job
    #[arg(long, default_value_t = 20, value_name = "N")]
    epochs: u64,
    /// Where its state, logs and picture are kept: a new or empty folder [default: target/demo,
    /// emptied first]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Takes the programs as they are built
    #[arg(long)]
    built: bool,
    /// Gives up after this long, seconds
    #[arg(long, default_value_t = 900, value_name = "S")]
    patience_s: u64,
}

/// The jobs: name, and what distinguishes its training.
const JOBS: [(&str, &str); 3] = [
    ("accordion", "--policy accordion --period 2 --seed 1"),
    ("gns", "--policy gns --period 2 --seed 2"),
    ("static", "--policy static --seed 3"),
];

/// What all jobs have in common: small enough for one core, large enough to learn.
const TRAINING: &str =
    "--depth 8 --width 8 --batch 32 --max-batch 256 --test-samples 500 --checkpoint-every 100";

/// Runs the demo; whether all went as it should.
pub(crate) fn run(args: &Args) -> Result<bool> {
    if !args.built && !build()? {
        return Ok(false);
    }
    let began = Instant::now();
    let folder = fresh_folder(args)?;
    let coordinator = Coordinator::start(&folder, args)?;
    eprintln!(
        "a coordinator runs at {}: policy {}, rounds of {} s",
        coordinator.url(),
        args.policy,
        args.round_s
    );
    for (name, training) in JOBS {
        let id = coordinator.submit(name, &command(args, training)?)?;
        eprintln!("submitted job {id}: {name}");
    }
    let jobs = watch(&coordinator, Duration::from_secs(args.patience_s))?;
    let svg = folder.join("timeline.svg");
    coordinator.draw(&svg)?;
    let report = report::Report::new(&jobs, &svg)?;
    println!("{}", report.table());
    println!("timeline: {}", svg.display());
    eprintln!("the demo ran for {:.0} s", began.elapsed().as_secs_f64());
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(file, text).with_context(|| format!("--json {}", file.display()))?;
    }
    let flaws = report.flaws();
    for flaw in &flaws {
        eprintln!("not as it should be: {flaw}");
    }
    Ok(flaws.is_empty())
}

/// An empty folder. Only the demo's own is ever emptied: what the last one left stays until then, to
/// be looked at.
fn fresh_folder(args: &Args) -> Result<PathBuf> {
    let folder = args.folder.clone().unwrap_or_else(|| target().join("demo"));
    let failed = || format!("{} cannot be used", folder.display());
    if args.folder.is_none() && folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(failed)?;
    }
    std::fs::create_dir_all(&folder).with_context(failed)?;
    if std::fs::read_dir(&folder).with_context(failed)?.next().is_some() {
        bail!("--folder {} is not empty", folder.display());
    }
    folder.canonicalize().with_context(failed)
}

/// Builds the programs, after the set-up; whether that succeeded.
fn build() -> Result<bool> {
    setup::ensure()?;
    let mut build = process::cargo();
    // The whole workspace, as the tests do: with a part of it dependencies get other features, and
    // are built again.
    build.args(["build", "--quiet", "--locked", "--workspace", "--bins"]);
    eprintln!("building the programs of the demo");
    process::succeeds(&mut build)
}

/// A job's command line.
fn command(args: &Args, training: &str) -> Result<Vec<String>> {
    let program = target().join("debug/resnet_cifar");
    let mut command = vec![program.display().to_string()];
    command.extend(TRAINING.split(' ').chain(training.split(' ')).map(str::to_owned));
    command.extend(["--epochs".to_owned(), args.epochs.to_string()]);
    command.extend(["--train-samples".to_owned(), args.train_samples.to_string()]);
    if let Some(data) = &args.data {
        let data = data.canonicalize().with_context(|| format!("--data {}", data.display()))?;
        command.extend(["--data".to_owned(), data.display().to_string()]);
    }
    Ok(command)
}

/// Shows the jobs' progress until all have ended.
fn watch(coordinator: &Coordinator, patience: Duration) -> Result<Vec<Job>> {
    let style = ProgressStyle::with_template("{prefix:10} {bar:30} {msg}")?;
    let bars = MultiProgress::new();
    let mut rows: Vec<ProgressBar> = Vec::new();
    let give_up_at = Instant::now() + patience;
    loop {
        let jobs = coordinator.jobs()?;
        rows.resize_with(jobs.len(), || bars.add(ProgressBar::new(1000).with_style(style.clone())));
        for (row, job) in rows.iter().zip(&jobs) {
            row.set_prefix(job.name.clone());
            row.set_position((1000.0 * job.share_done()) as u64);
            row.set_message(job.summary());
        }
        if jobs.iter().all(Job::has_ended) {
            rows.iter().for_each(ProgressBar::abandon);
            return Ok(jobs);
        }
        if Instant::now() > give_up_at {
            bail!(
                "the jobs have not ended after {} s; see {}",
                patience.as_secs(),
                coordinator.log().display()
            );
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The folder of built programs, and of the demo's own.
fn target() -> PathBuf {
    process::root().join("target")
}
