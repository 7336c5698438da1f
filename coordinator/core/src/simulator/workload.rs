//! A workload: a trace joined with what is measured about its models.
//!
//! A [`WorkloadJob`] has two sides. Its [`JobSpec`] is what a user would declare; policies and
//! predictors see nothing else of it. The rest (`speeds`, `adapts`, `schedule`, `exclusive_s`) is
//! how the job will really behave, for the simulator and the metrics alone.

use std::collections::BTreeMap;

use super::profiles::{AccordionRule, Dataset, Profiles, Throughputs};
use super::table::InputError;
use super::trace::{Mode, TraceJob, parse_trace};
use crate::types::{Adaptation, JobId, JobSpec};

/// When a job changes its batch size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adapts {
    /// Never.
    Never,
    /// Small batch in critical epochs, large batch in all others.
    Accordion {
        /// Which epochs are critical.
        rule: AccordionRule,
        /// The large batch size, samples.
        large: u32,
    },
    /// Doubles when the table says so: `(first epoch, batch size)`.
    Gns {
        /// The table, epochs ascending from 0.
        table: Vec<(u32, u32)>,
        /// The batch size from which it never grows, samples.
        max: u32,
    },
}

/// One job: declared and real.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadJob {
    /// What is declared.
    pub spec: JobSpec,
    /// Model, as in the tables.
    pub model: String,
    /// Optimiser steps if the first batch size stayed.
    pub steps_total: u64,
    /// Steps per second by batch size, on this job's gang.
    pub speeds: BTreeMap<u32, f64>,
    /// When the batch size changes.
    pub adapts: Adapts,
    /// The profiled batch sizes, run-length coded: `(first epoch, batch size)`.
    pub schedule: Vec<(u32, u32)>,
    /// Run time alone on its gang by the profiled schedule, seconds.
    pub exclusive_s: f64,
    /// Deadline after arrival, seconds, where the trace has one.
    pub slo_s: Option<f64>,
}

impl WorkloadJob {
    /// Whole optimiser steps in an epoch at a batch size.
    #[must_use]
    pub fn steps_per_epoch(&self, batch: u32) -> u64 {
        self.spec.samples_per_epoch.div_ceil(u64::from(batch))
    }

    /// Steps per second at a batch size; `None` when the model does not run with it.
    #[must_use]
    pub fn speed(&self, batch: u32) -> Option<f64> {
        self.speeds.get(&batch).copied()
    }

    /// The profiled batch size of an epoch.
    #[must_use]
    pub fn profiled_batch(&self, epoch: u32) -> u32 {
        in_segments(&self.schedule, epoch).unwrap_or(self.spec.initial_batch)
    }
}

/// The batch size that a table of `(first epoch, batch size)` holds for an epoch.
pub(crate) fn in_segments(segments: &[(u32, u32)], epoch: u32) -> Option<u32> {
    segments.iter().take_while(|segment| segment.0 <= epoch).last().map(|segment| segment.1)
}

/// All jobs of a simulation, in order of arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The jobs.
    pub jobs: Vec<WorkloadJob>,
}

impl Workload {
    /// Reads a trace and joins it with the tables.
    ///
    /// # Errors
    /// [`InputError`] names the line and column of the first value that cannot be.
    pub fn parse(
        trace: &str,
        profiles: &Profiles,
        throughputs: &Throughputs,
    ) -> Result<Self, InputError> {
        Self::join(&parse_trace(trace)?, profiles, throughputs)
    }

    /// Joins trace lines with the tables.
    ///
    /// # Errors
    /// [`InputError`] names the line and column of the first value that does not fit the tables.
    pub fn join(
        trace: &[TraceJob],
        profiles: &Profiles,
        throughputs: &Throughputs,
    ) -> Result<Self, InputError> {
        let jobs = trace
            .iter()
            .map(|line| join_job(line, profiles, throughputs))
            .collect::<Result<_, _>>()?;
        Ok(Self { jobs })
    }

    /// The first job that no cluster of `gpus` GPUs can run.
    #[must_use]
    pub fn too_large_for(&self, gpus: u32) -> Option<&WorkloadJob> {
        self.jobs.iter().find(|job| job.spec.gpus > gpus)
    }
}

fn error(
    line: &TraceJob,
    column: &str,
    got: impl ToString,
    expected: impl Into<String>,
) -> InputError {
    InputError {
        table: "trace",
        line: line.line,
        column: column.to_owned(),
        got: got.to_string(),
        expected: expected.into(),
    }
}

fn join_job(
    line: &TraceJob,
    profiles: &Profiles,
    throughputs: &Throughputs,
) -> Result<WorkloadJob, InputError> {
    let dataset =
        profiles.datasets.get(&line.model).filter(|_| throughputs.knows(&line.model)).ok_or_else(
            || error(line, "model", &line.model, "a model of the data set and throughput tables"),
        )?;
    if !line.dataset.is_empty() && line.dataset != dataset.name {
        return Err(error(line, "dataset", &line.dataset, dataset.name.clone()));
    }
    let speeds = throughputs.by_batch(&line.model, line.gpus);
    if speeds.is_empty() {
        let expected = "a gang size with which the model's throughput is measured";
        return Err(error(line, "scale_factor", line.gpus, expected));
    }
    if !speeds.contains_key(&line.batch) {
        let known = speeds.keys().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let expected = format!("a batch size with a measured throughput: {known}");
        return Err(error(line, "batch_size", line.batch, expected));
    }
    let spec = declare(line, dataset)?;
    let mut job = WorkloadJob {
        adapts: adapts(line, dataset, profiles),
        model: line.model.clone(),
        steps_total: line.total_steps,
        speeds,
        schedule: Vec::new(),
        exclusive_s: 0.0,
        slo_s: line.slo_s,
        spec,
    };
    job.schedule = profiled_schedule(&job);
    job.exclusive_s = line.exclusive_s.unwrap_or_else(|| profiled_run_time_s(&job));
    Ok(job)
}

fn declare(line: &TraceJob, dataset: &Dataset) -> Result<JobSpec, InputError> {
    let steps_per_epoch = dataset.samples_per_epoch.div_ceil(u64::from(line.batch));
    let epochs = u32::try_from(line.total_steps.div_ceil(steps_per_epoch)).map_err(|_| {
        let expected = format!("at most {} epochs of {steps_per_epoch} steps", u32::MAX);
        error(line, "total_steps", line.total_steps, expected)
    })?;
    if let Some(noted) = line.num_epochs.filter(|noted| *noted != epochs) {
        let expected =
            format!("{epochs}: {} steps in epochs of {steps_per_epoch}", line.total_steps);
        return Err(error(line, "num_epochs", noted, expected));
    }
    let largest = dataset.max_batch.unwrap_or(line.batch).max(line.batch);
    let adaptation = match line.mode {
        Mode::Static => Adaptation::Static,
        Mode::Accordion => Adaptation::Accordion { small: line.batch, large: largest },
        Mode::Gns => Adaptation::Gns { initial: line.batch, max: largest },
    };
    Ok(JobSpec {
        id: JobId(line.id),
        gpus: line.gpus,
        weight: line.priority,
        arrival_s: line.arrival_s,
        epochs_total: epochs,
        samples_per_epoch: dataset.samples_per_epoch,
        initial_batch: line.batch,
        adaptation,
        family: format!("{}/{}", line.model, dataset.name),
    })
}

fn adapts(line: &TraceJob, dataset: &Dataset, profiles: &Profiles) -> Adapts {
    let largest = dataset.max_batch.unwrap_or(line.batch).max(line.batch);
    match line.mode {
        Mode::Static => Adapts::Never,
        Mode::Accordion => profiles
            .accordion
            .get(&(line.model.clone(), line.batch))
            .map_or(Adapts::Never, |rule| Adapts::Accordion { rule: rule.clone(), large: largest }),
        Mode::Gns => profiles
            .gns
            .get(&(line.model.clone(), line.batch, line.gpus))
            .map_or(Adapts::Never, |table| Adapts::Gns { table: table.clone(), max: largest }),
    }
}

/// The profile's batch sizes. Two facts of it are not in the tables: an Accordion job grows only
/// after 30 % of its epochs, and a GNS job that has grown more than once is back at its first batch
/// size in its very last epoch.
fn profiled_schedule(job: &WorkloadJob) -> Vec<(u32, u32)> {
    let (first, epochs) = (job.spec.initial_batch, job.spec.epochs_total);
    let batch_at = |epoch: u32| match &job.adapts {
        Adapts::Never => first,
        Adapts::Accordion { rule, large } => {
            let early = f64::from(epoch) <= 0.3 * f64::from(epochs);
            if early || rule.profiled.contains(epoch) { first } else { *large }
        }
        Adapts::Gns { table, .. } => {
            let grown_twice = table.get(2).is_some_and(|segment| segment.0 <= epoch);
            if grown_twice && epoch + 1 == epochs {
                first
            } else {
                in_segments(table, epoch).unwrap_or(first)
            }
        }
    };
    let mut schedule: Vec<(u32, u32)> = Vec::new();
    for epoch in 0..epochs {
        let wanted = batch_at(epoch);
        let batch = if job.speeds.contains_key(&wanted) { wanted } else { first };
        if schedule.last().is_none_or(|last| last.1 != batch) {
            schedule.push((epoch, batch));
        }
    }
    schedule
}

/// Run time alone on the gang; part batches count in proportion, as in the published profile.
fn profiled_run_time_s(job: &WorkloadJob) -> f64 {
    let ends = job.schedule.iter().skip(1).map(|segment| segment.0);
    let ends = ends.chain([job.spec.epochs_total]);
    job.schedule
        .iter()
        .zip(ends)
        .map(|((from, batch), to)| {
            let steps = job.spec.samples_per_epoch as f64 / f64::from(*batch);
            let speed = job.speed(*batch).unwrap_or(f64::INFINITY);
            f64::from(to - from) * steps / speed
        })
        .sum()
}
