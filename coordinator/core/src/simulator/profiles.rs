//! What is measured about models: throughputs, data sets, and when they change their batch size.

use std::collections::BTreeMap;

use super::table::{InputError, Row, Table};

/// Steps per second of a whole job, by model, batch size and gang size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throughputs(BTreeMap<String, BTreeMap<(u32, u32), f64>>);

impl Throughputs {
    /// Reads the columns model, batch_size, scale_factor, steps_per_s. Lines without a batch size
    /// (models whose batch size is not known) are left out.
    ///
    /// # Errors
    /// [`InputError`] names line and column of the first value that cannot be.
    pub fn parse(text: &str) -> Result<Self, InputError> {
        let columns = ["model", "batch_size", "scale_factor", "steps_per_s"];
        let table = Table::parse("throughputs", text, &columns)?;
        let mut speeds: BTreeMap<String, BTreeMap<(u32, u32), f64>> = BTreeMap::new();
        for row in table.rows() {
            let above_zero = "a whole number above 0";
            let batch = row.optional("batch_size", above_zero, |value: &u32| *value > 0)?;
            let gpus = row.value("scale_factor", above_zero, |value: &u32| *value > 0)?;
            let speed =
                row.value("steps_per_s", "steps per second, 0 or more", |value: &f64| {
                    value.is_finite() && *value >= 0.0
                })?;
            if let Some(batch) = batch {
                speeds
                    .entry(row.text("model").to_owned())
                    .or_default()
                    .insert((batch, gpus), speed);
            }
        }
        Ok(Self(speeds))
    }

    /// Every batch size that a model can run with on `gpus` GPUs, with its steps per second.
    #[must_use]
    pub fn by_batch(&self, model: &str, gpus: u32) -> BTreeMap<u32, f64> {
        self.0
            .get(model)
            .into_iter()
            .flatten()
            .filter(|((_, gang), speed)| *gang == gpus && **speed > 0.0)
            .map(|((batch, _), speed)| (*batch, *speed))
            .collect()
    }

    /// Whether anything is known of a model.
    #[must_use]
    pub fn knows(&self, model: &str) -> bool {
        self.0.contains_key(model)
    }

    /// Models, each with the (batch size, gang size) pairs that run.
    pub fn models(&self) -> impl Iterator<Item = (&str, Vec<(u32, u32)>)> {
        self.0.iter().map(|(model, speeds)| {
            let runs = speeds.iter().filter(|(_, speed)| **speed > 0.0).map(|(key, _)| *key);
            (model.as_str(), runs.collect())
        })
    }
}

/// A model's data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its name.
    pub name: String,
    /// Samples in an epoch.
    pub samples_per_epoch: u64,
    /// The largest batch size that the model may grow to, when it may.
    pub max_batch: Option<u32>,
}

/// Epochs in which an Accordion job keeps its small batch size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Critical {
    /// Half-open ranges of epochs.
    Ranges(Vec<(u32, u32)>),
    /// The first `below` of every `period` epochs, before epoch `before`.
    Periodic {
        /// Length of the cycle, epochs.
        period: u32,
        /// Critical epochs at the start of each cycle.
        below: u32,
        /// First epoch that is never critical.
        before: u32,
    },
}

impl Critical {
    /// Whether epoch `epoch` (from 0) is critical.
    #[must_use]
    pub fn contains(&self, epoch: u32) -> bool {
        match self {
            Critical::Ranges(ranges) => {
                ranges.iter().any(|(from, to)| (*from..*to).contains(&epoch))
            }
            Critical::Periodic { period, below, before } => {
                epoch < *before && epoch % period < *below
            }
        }
    }

    fn parse(row: &Row<'_>, column: &str) -> Result<Self, InputError> {
        let text = row.text(column);
        let parsed = if text.starts_with('e') { periodic(text) } else { ranges(text) };
        parsed.ok_or_else(|| row.error(column, "`[0,10);[150,160)` or `e%30<10 for e<600`"))
    }
}

fn ranges(text: &str) -> Option<Critical> {
    text.split(';')
        .map(|range| {
            let (from, to) = range.trim().strip_prefix('[')?.strip_suffix(')')?.split_once(',')?;
            Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
        })
        .collect::<Option<Vec<_>>>()
        .map(Critical::Ranges)
}

fn periodic(text: &str) -> Option<Critical> {
    let (cycle, limit) = match text.split_once(" for e<") {
        Some((cycle, limit)) => (cycle, limit.trim().parse().ok()?),
        None => (text, u32::MAX),
    };
    let (period, below) = cycle.trim().strip_prefix("e%")?.split_once('<')?;
    let period = period.parse().ok().filter(|period| *period > 0)?;
    Some(Critical::Periodic { period, below: below.parse().ok()?, before: limit })
}

/// When an Accordion job of one model and first batch size is in a critical regime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccordionRule {
    /// In the profile, from which exclusive run times come.
    pub profiled: Critical,
    /// In the published simulator, which plays other epochs than it profiles.
    pub simulated: Critical,
}

/// Everything that is known of how models adapt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles {
    /// Data sets by model.
    pub datasets: BTreeMap<String, Dataset>,
    /// GNS tables `(first epoch, batch size)` by model, first batch size and gang size.
    pub gns: BTreeMap<(String, u32, u32), Vec<(u32, u32)>>,
    /// Accordion rules by model and first batch size; a model that is absent never changes.
    pub accordion: BTreeMap<(String, u32), AccordionRule>,
}

impl Profiles {
    /// Reads the texts of `datasets.csv`, `gns_rules.csv` and `accordion_rules.csv`.
    ///
    /// # Errors
    /// [`InputError`] names table, line and column of the first value that cannot be.
    pub fn parse(datasets: &str, gns: &str, accordion: &str) -> Result<Self, InputError> {
        Ok(Self {
            datasets: parse_datasets(datasets)?,
            gns: parse_gns(gns)?,
            accordion: parse_accordion(accordion)?,
        })
    }
}

fn parse_datasets(text: &str) -> Result<BTreeMap<String, Dataset>, InputError> {
    let columns = ["model", "dataset", "samples_per_epoch", "max_batch_size_sim"];
    let table = Table::parse("datasets", text, &columns)?;
    let above_zero = "a whole number above 0";
    table
        .rows()
        .map(|row| {
            let dataset = Dataset {
                name: row.text("dataset").to_owned(),
                samples_per_epoch: row
                    .value("samples_per_epoch", above_zero, |value: &u64| *value > 0)?,
                max_batch: row
                    .optional("max_batch_size_sim", above_zero, |value: &u32| *value > 0)?,
            };
            Ok((row.text("model").to_owned(), dataset))
        })
        .collect()
}

/// Segments by model, initial batch size and gang size.
type GnsRules = BTreeMap<(String, u32, u32), Vec<(u32, u32)>>;

fn parse_gns(text: &str) -> Result<GnsRules, InputError> {
    let columns = ["model", "initial_batch_size", "scale_factor", "segments"];
    let table = Table::parse("gns_rules", text, &columns)?;
    let above_zero = "a whole number above 0";
    table
        .rows()
        .map(|row| {
            let batch = row.value("initial_batch_size", above_zero, |value: &u32| *value > 0)?;
            let gpus = row.value("scale_factor", above_zero, |value: &u32| *value > 0)?;
            let segments = row
                .text("segments")
                .split(';')
                .map(|segment| {
                    let (epoch, batch) = segment.split_once(':')?;
                    Some((epoch.trim().parse().ok()?, batch.trim().parse().ok()?))
                })
                .collect::<Option<Vec<(u32, u32)>>>()
                .filter(|segments| {
                    segments.first().is_some_and(|first| first.0 == 0)
                        && segments.windows(2).all(|pair| pair[0].0 < pair[1].0)
                        && segments.iter().all(|segment| segment.1 > 0)
                })
                .ok_or_else(|| row.error("segments", "`0:16;31:32`, epochs ascending from 0"))?;
            Ok(((row.text("model").to_owned(), batch, gpus), segments))
        })
        .collect()
}

fn parse_accordion(text: &str) -> Result<BTreeMap<(String, u32), AccordionRule>, InputError> {
    let columns =
        ["model", "initial_batch_size", "critical_epochs_profile", "critical_epochs_simulated"];
    let table = Table::parse("accordion_rules", text, &columns)?;
    table
        .rows()
        .map(|row| {
            let batch =
                row.value("initial_batch_size", "a whole number above 0", |v: &u32| *v > 0)?;
            let rule = AccordionRule {
                profiled: Critical::parse(&row, "critical_epochs_profile")?,
                simulated: Critical::parse(&row, "critical_epochs_simulated")?,
            };
            Ok(((row.text("model").to_owned(), batch), rule))
        })
        .collect()
}
