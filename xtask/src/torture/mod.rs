//! `cargo xtask torture [NAME]`: breaks the coordinator on purpose, as often as its promises are to
//! be held, and counts what was lost, invented or run twice.
//!
//! The scenarios are in the package `shockwave-tests`, which plays fewer runs of each on every CI.

mod report;
mod training;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;

use crate::{process, setup};
use report::{Result as Played, Tally};

/// Plays a scenario that is a test program of its own, so many times; whether all held.
type Apart = fn(Option<u64>) -> Result<bool>;

/// Scenarios that are played by name alone, since they take long: what they are, and how.
const APART: [(&str, &str, Apart); 1] = [(
    "training",
    "kill -9 of training processes: every run ends with the same bytes",
    training::run,
)];

/// Options of torture.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario; without one, all are played
    name: Option<String>,
    /// Runs of each [default: the full number]
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Seed of the first run; the next ones count on from it
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Lists the scenarios with their full numbers
    #[arg(long)]
    list: bool,
    /// Prints JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Takes the programs as they are built
    #[arg(long)]
    built: bool,
}

/// A scenario, as the program lists it.
#[derive(Clone, Debug, Deserialize)]
struct Scenario {
    name: String,
    what: String,
    counts: String,
    runs: u64,
}

/// A line of the program.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    done: Option<u64>,
    tally: Option<Tally>,
}

/// Plays; whether every promise was kept.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let apart = args.name.as_ref().and_then(|name| APART.iter().find(|it| it.0 == *name));
    if let Some((_, _, play)) = apart {
        return play(args.runs);
    }
    if !args.built && !build()? {
        return Ok(false);
    }
    let scenarios = scenarios()?;
    if args.list {
        scenarios.iter().for_each(|it| println!("{:14} {:>6} runs  {}", it.name, it.runs, it.what));
        APART.iter().for_each(|it| println!("{:14} by name alone {}", it.0, it.1));
        return Ok(true);
    }
    let chosen: Vec<&Scenario> = match &args.name {
        None => scenarios.iter().collect(),
        Some(name) => match scenarios.iter().find(|it| it.name == *name) {
            Some(scenario) => vec![scenario],
            None => {
                let known = scenarios.iter().map(|it| it.name.as_str());
                let known: Vec<&str> = known.chain(APART.iter().map(|it| it.0)).collect();
                bail!("there is no scenario '{name}'; there are: {}", known.join(", "));
            }
        },
    };
    let mut played = Vec::new();
    for scenario in chosen {
        played.push(play(scenario, args)?);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "scenarios": played }))?);
    } else {
        print!("{}", report::table(&played));
    }
    eprint!("{}", report::failures(&played));
    Ok(played.iter().all(Played::is_clean))
}

/// Builds the programs, after the set-up; whether that succeeded.
fn build() -> Result<bool> {
    setup::ensure()?;
    let mut build = process::cargo();
    build.args(["build", "--quiet", "--locked", "--workspace", "--bins"]);
    eprintln!("building the programs");
    process::succeeds(&mut build)
}

fn program() -> Command {
    let mut command = Command::new(process::root().join("target/debug/torture"));
    command.stdin(Stdio::null());
    command
}

fn scenarios() -> Result<Vec<Scenario>> {
    let text = process::stdout_of(program().arg("--list"))?;
    let read = |line| serde_json::from_str(line).with_context(|| format!("no scenario: {line}"));
    text.lines().map(read).collect()
}

/// Plays one scenario, with a bar that says how far it is.
fn play(scenario: &Scenario, args: &Args) -> Result<Played> {
    let runs = args.runs.unwrap_or(scenario.runs);
    let style = ProgressStyle::with_template("{prefix:14} {bar:30} {pos}/{len} {eta} left")?;
    let bar = ProgressBar::new(runs).with_style(style).with_prefix(scenario.name.clone());
    let began = Instant::now();
    let mut command = program();
    command.arg(&scenario.name).args(["--runs", &runs.to_string()]);
    command.args(["--seed", &args.seed.to_string()]).stdout(Stdio::piped());
    let mut child = command.spawn().context("the scenario cannot be started")?;
    let stdout = child.stdout.take().context("the scenario's output is not connected")?;
    let mut tally = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("the scenario's output cannot be read")?;
        let Ok(line) = serde_json::from_str::<Line>(&line) else { continue };
        line.done.into_iter().for_each(|done| bar.set_position(done));
        tally = line.tally.or(tally);
    }
    let status = child.wait().context("the scenario was lost")?;
    bar.finish_and_clear();
    let tally = tally.with_context(|| format!("{} ended by {status}", scenario.name))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Played { name: scenario.name.clone(), counts: scenario.counts.clone(), seconds, tally })
}
