//! `shockwave trace`: generates and converts traces.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use shockwave_core::simulator::generate::{Recipe, Shape, generate};
use shockwave_core::simulator::sample::sample;
use shockwave_core::simulator::trace::{TraceJob, parse_trace, to_csv};
use shockwave_core::simulator::{Workload, published_trace};

use crate::simulation::{SimulationError, load_profiles, load_throughputs, read, write};

/// Generates and converts traces.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Draws a trace from a seed.
    Generate(GenerateArgs),
    /// Writes invented tables and a trace drawn from them, to try the simulator with.
    Sample(SampleArgs),
    /// Converts between the CSV format and the published tab-separated one.
    Convert(ConvertArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Gavel's generator, as the paper uses it.
    Gavel,
    /// The statistics of Pollux's trace.
    Pollux,
}

#[derive(Debug, Args)]
struct GenerateArgs {
    /// Which generator.
    #[arg(long, value_enum, default_value_t = Kind::Gavel)]
    kind: Kind,
    /// Number of jobs.
    #[arg(long, value_name = "N", required_unless_present = "contention")]
    jobs: Option<u32>,
    /// Jobs per GPU of a cluster of --gpus, in place of --jobs.
    #[arg(long, value_name = "X", requires = "gpus", conflicts_with = "jobs")]
    contention: Option<f64>,
    /// GPUs of the cluster that --contention refers to.
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Mean time between arrivals, seconds; 5000 s over the number of jobs when not given.
    #[arg(long, value_name = "SECONDS")]
    gap: Option<f64>,
    /// Shortest and longest duration, hours.
    #[arg(long, value_names = ["MIN", "MAX"], num_args = 2, default_values_t = [0.2, 5.0])]
    hours: Vec<f64>,
    /// Weights of gangs of 1, 2, 4 and 8 GPUs.
    #[arg(long, value_name = "W", value_delimiter = ',', default_values_t = [0.6, 0.3, 0.09, 0.01])]
    gangs: Vec<f64>,
    /// Weights of static, Accordion and GNS jobs.
    #[arg(long, value_name = "W", value_delimiter = ',', default_values_t = [1.0, 1.0, 1.0])]
    modes: Vec<f64>,
    /// Seed; equal seeds give equal traces.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Folder with datasets.csv, gns_rules.csv and accordion_rules.csv.
    #[arg(long, value_name = "DIR")]
    profiles: PathBuf,
    /// Steps per second by model, batch size and gang size: a CSV file.
    #[arg(long, value_name = "FILE")]
    throughputs: PathBuf,
    /// The trace to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Reports as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SampleArgs {
    /// The folder to write: datasets.csv, gns_rules.csv, accordion_rules.csv, throughputs.csv and
    /// trace.csv.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Number of jobs.
    #[arg(long, value_name = "N", default_value_t = 60)]
    jobs: u32,
    /// Seed; equal seeds give equal traces.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Reports as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A CSV file with a header.
    Csv,
    /// The published format: twelve columns, separated by tabs, no header.
    Published,
}

#[derive(Debug, Args)]
struct ConvertArgs {
    /// The trace to read, in either format.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// The trace to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// The format to write.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    to: Format,
    /// Folder with datasets.csv, gns_rules.csv and accordion_rules.csv. With it and --throughputs,
    /// data sets, epochs and exclusive run times are filled in and everything is checked.
    #[arg(long, value_name = "DIR", requires = "throughputs")]
    profiles: Option<PathBuf>,
    /// Steps per second by model, batch size and gang size: a CSV file.
    #[arg(long, value_name = "FILE", requires = "profiles")]
    throughputs: Option<PathBuf>,
    /// Reports as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
#[must_use]
pub fn run(args: &TraceArgs) -> ExitCode {
    let (result, json) = match &args.command {
        TraceCommand::Generate(args) => (generated(args), args.json),
        TraceCommand::Sample(args) => (sampled(args), args.json),
        TraceCommand::Convert(args) => (converted(args), args.json),
    };
    match result {
        Ok((jobs, output)) => {
            if json {
                println!("{}", json!({ "jobs": jobs, "output": output }));
            } else {
                println!("{jobs} jobs written to {}", output.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("shockwave trace: {error}");
            ExitCode::from(2)
        }
    }
}

fn generated(args: &GenerateArgs) -> Result<(usize, &Path), SimulationError> {
    let recipe = recipe(args)?;
    let profiles = load_profiles(&args.profiles)?;
    let throughputs = load_throughputs(&args.throughputs)?;
    let jobs = generate(&recipe, &profiles, &throughputs)
        .map_err(|source| SimulationError::Content { path: args.throughputs.clone(), source })?;
    write(&args.output, &to_csv(&jobs))?;
    Ok((jobs.len(), &args.output))
}

fn sampled(args: &SampleArgs) -> Result<(usize, &Path), SimulationError> {
    let folder = args.output.as_path();
    let tables = sample();
    for (name, text) in [
        ("datasets.csv", &tables.datasets),
        ("gns_rules.csv", &tables.gns_rules),
        ("accordion_rules.csv", &tables.accordion_rules),
        ("throughputs.csv", &tables.throughputs),
    ] {
        let path = folder.join(name);
        if path.exists() {
            // Tables that were there are somebody's measurements.
            let got = format!("{}, which has a {name} already", folder.display());
            let expected = "a folder without tables";
            return Err(SimulationError::Option { option: "--output", got, expected });
        }
        write(&path, text)?;
    }
    let profiles = load_profiles(folder)?;
    let throughputs = load_throughputs(&folder.join("throughputs.csv"))?;
    let jobs = generate(&Recipe::published(args.jobs, args.seed), &profiles, &throughputs)
        .map_err(|source| SimulationError::Content { path: folder.to_owned(), source })?;
    write(&folder.join("trace.csv"), &to_csv(&jobs))?;
    Ok((jobs.len(), folder))
}

fn recipe(args: &GenerateArgs) -> Result<Recipe, SimulationError> {
    let option = |option: &'static str, got: String, expected: &'static str| {
        SimulationError::Option { option, got, expected }
    };
    let base = match (args.jobs, args.contention, args.gpus) {
        (None, Some(contention), Some(gpus)) => Recipe::contended(gpus, contention, args.seed),
        (jobs, ..) => Recipe::published(jobs.unwrap_or(1), args.seed),
    };
    let weights = |weights: &[f64]| {
        weights.iter().all(|weight| *weight >= 0.0 && weight.is_finite())
            && weights.iter().sum::<f64>() > 0.0
    };
    let gangs = <[f64; 4]>::try_from(args.gangs.as_slice())
        .ok()
        .filter(|gangs| weights(gangs))
        .ok_or_else(|| option("--gangs", format!("{:?}", args.gangs), "four weights"))?;
    let modes = <[f64; 3]>::try_from(args.modes.as_slice())
        .ok()
        .filter(|modes| weights(modes))
        .ok_or_else(|| option("--modes", format!("{:?}", args.modes), "three weights"))?;
    let gap_s = args.gap.unwrap_or(base.gap_s);
    if !(gap_s.is_finite() && gap_s >= 0.0) {
        return Err(option("--gap", gap_s.to_string(), "seconds, 0 or more"));
    }
    let shape = match (args.kind, args.hours.as_slice()) {
        (Kind::Pollux, _) => Shape::Pollux,
        (Kind::Gavel, &[min_h, max_h]) if 0.0 < min_h && min_h <= max_h && max_h.is_finite() => {
            Shape::Gavel { min_h, max_h, choices: 100 }
        }
        (_, hours) => {
            let expected = "two ascending numbers above 0";
            return Err(option("--hours", format!("{hours:?}"), expected));
        }
    };
    Ok(Recipe { gap_s, shape, gangs, modes, ..base })
}

fn converted(args: &ConvertArgs) -> Result<(usize, &Path), SimulationError> {
    let content = |source| SimulationError::Content { path: args.input.clone(), source };
    let text = read(&args.input)?;
    let mut jobs = if published_trace::is_published(&text) {
        published_trace::parse(&text)
    } else {
        parse_trace(&text)
    }
    .map_err(content)?;
    if let (Some(profiles), Some(throughputs)) = (&args.profiles, &args.throughputs) {
        let (profiles, throughputs) = (load_profiles(profiles)?, load_throughputs(throughputs)?);
        published_trace::complete(&mut jobs, &profiles);
        let workload = Workload::join(&jobs, &profiles, &throughputs).map_err(content)?;
        fill_in(&mut jobs, &workload);
    }
    let text = match args.to {
        Format::Csv => to_csv(&jobs),
        Format::Published => published_trace::write(&jobs),
    };
    write(&args.output, &text)?;
    Ok((jobs.len(), &args.output))
}

fn fill_in(jobs: &mut [TraceJob], workload: &Workload) {
    for (job, real) in jobs.iter_mut().zip(&workload.jobs) {
        job.num_epochs = Some(real.spec.epochs_total);
        job.exclusive_s = Some(job.exclusive_s.unwrap_or((real.exclusive_s * 1e4).round() / 1e4));
    }
}
