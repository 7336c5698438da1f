//! The paper's evaluation, from runs made now: tables and pictures with our value beside the
//! published one. Nothing is quoted that was not run.

mod generated;
mod published;
mod report;
mod service;
mod toy;

use std::path::{Path, PathBuf};

use shockwave_core::simulator::profiles::{Profiles, Throughputs};
use shockwave_core::simulator::{Workload, trace};
use shockwave_core::{policies, predictor};

use crate::simulation::{
    self, Run, Setup, SimulationError, load_profiles, load_throughputs, read, write,
};
use report::Report;

/// The default forecast.
pub const PREDICTOR: &str = predictor::DEFAULT;
/// Seed of everything that is drawn.
pub const SEED: u64 = 1;

/// The traces, profiles and published results that the evaluation is compared with.
pub struct Reference {
    folder: PathBuf,
    profiles: Profiles,
    /// Throughputs of the large traces; generated workloads use them too.
    throughputs: Throughputs,
}

/// A published trace: name, GPUs, throughput table.
pub const TRACES: [(&str, u32, &str); 3] =
    [("120_32", 32, "tacc"), ("220_64", 64, "wisr"), ("900_256", 256, "wisr")];

impl Reference {
    fn load(folder: &Path) -> Result<Self, SimulationError> {
        if !folder.is_dir() {
            return Err(SimulationError::Option {
                option: "--reference",
                got: format!("{}, which is no folder", folder.display()),
                expected: "the folder with the public traces (trace_120_32gpu.csv and others), profiles, throughputs and reference_results.csv",
            });
        }
        Ok(Self {
            folder: folder.to_owned(),
            profiles: load_profiles(folder)?,
            throughputs: load_throughputs(&folder.join("throughput_v100_wisr.csv"))?,
        })
    }

    fn workload(&self, name: &str, table: &str) -> Result<Workload, SimulationError> {
        let path = self.folder.join(format!("trace_{name}gpu.csv"));
        let speeds = load_throughputs(&self.folder.join(format!("throughput_v100_{table}.csv")))?;
        Workload::parse(&read(&path)?, &self.profiles, &speeds)
            .map_err(|source| SimulationError::Content { path, source })
    }

    fn join(&self, jobs: &[trace::TraceJob]) -> Result<Workload, SimulationError> {
        Workload::join(jobs, &self.profiles, &self.throughputs)
            .map_err(|source| SimulationError::Content { path: self.folder.clone(), source })
    }

    fn published_results(&self) -> Result<String, SimulationError> {
        read(&self.folder.join("reference_results.csv"))
    }
}

/// Runs everything and writes `evaluation.md` and its pictures into `output`.
///
/// # Errors
/// [`SimulationError`] when the reference is incomplete or a file cannot be written.
pub fn run(reference: &Path, output: &Path) -> Result<(), SimulationError> {
    let reference = Reference::load(reference)?;
    let mut report = Report::new();
    toy::filters(&mut report);
    published::comparison(&reference, &mut report)?;
    published::prediction(&reference, &mut report)?;
    published::information(&reference, &mut report)?;
    published::size_classes(&reference, &mut report)?;
    service::semantics(&reference, &mut report)?;
    service::forecasts(&reference, &mut report)?;
    service::faults(&reference, &mut report)?;
    generated::mixes(&reference, &mut report)?;
    generated::noise(&reference, &mut report)?;
    generated::contention(&reference, &mut report)?;
    generated::pollux(&reference, &mut report)?;
    generated::scale(&reference, &mut report)?;
    write(&output.join("evaluation.md"), report.text())?;
    simulation::save(&output.join("evaluation"), report.into_pictures())
}

/// The policies that are compared everywhere: ours first.
fn compared() -> Vec<&'static str> {
    ["shockwave", "shockwave-paper", "gavel", "themis", "allox", "ossp", "mst", "gandiva-fair"]
        .into_iter()
        .chain(["list-rule"])
        .filter(|name| policies::by_name(name).is_some())
        .collect()
}

fn setup(gpus: u32, policy: &str, predictor: &str) -> Setup {
    Setup { predictor: predictor.to_owned(), seed: SEED, ..Setup::published(gpus, policy) }
}

fn play(workload: &Workload, gpus: u32, policy: &str) -> Result<Run, SimulationError> {
    simulation::run(workload, &setup(gpus, policy, PREDICTOR))
}

fn play_all(workload: &Workload, gpus: u32) -> Result<Vec<Run>, SimulationError> {
    compared().into_iter().map(|policy| play(workload, gpus, policy)).collect()
}
