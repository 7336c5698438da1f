//! Policies that know all batch sizes beforehand: one for the whole run, or a table of epochs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{BatchPolicy, Choice, Observation, PolicyDeclaration, check_batch};
use crate::Error;

/// One batch size for the whole run.
#[derive(Debug, Clone)]
pub struct Static {
    batch: u64,
}

impl Static {
    /// Always `batch` samples.
    pub fn new(batch: u64) -> Self {
        Self { batch }
    }
}

impl BatchPolicy for Static {
    fn kind(&self) -> &str {
        "static"
    }

    fn initial(&self) -> u64 {
        self.batch
    }

    fn declare(&self) -> PolicyDeclaration {
        PolicyDeclaration {
            kind: self.kind().to_owned(),
            initial: self.batch,
            configurations: vec![self.batch],
            min: self.batch,
            max: self.batch,
            can_shrink: false,
            schedule: Vec::new(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        check_batch("the batch size", self.batch)
    }

    fn decide(&mut self, _now: &Observation<'_>) -> Result<Choice, Error> {
        Ok(Choice::new(self.batch, "static: one batch size for the whole run"))
    }

    fn state(&self) -> Value {
        Value::Null
    }

    fn restore(&mut self, _state: &Value) -> Result<(), Error> {
        Ok(())
    }
}

/// An expert's schedule: a table of epochs and the batch size from that epoch on (for example ResNet-50 on ImageNet:
/// ten times the batch at epochs 30, 60 and 80).
#[derive(Debug, Clone)]
pub struct Expert {
    table: BTreeMap<u64, u64>,
}

impl Expert {
    /// The batch size `table[e].1` from epoch `table[e].0` on (from 0). One entry must be for epoch 0.
    pub fn new(table: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self { table: table.into_iter().collect() }
    }

    /// The batch size in `epoch`.
    fn at(&self, epoch: u64) -> u64 {
        self.table.range(..=epoch).next_back().map_or(0, |(_, &batch)| batch)
    }
}

impl BatchPolicy for Expert {
    fn kind(&self) -> &str {
        "expert"
    }

    fn initial(&self) -> u64 {
        self.at(0)
    }

    fn declare(&self) -> PolicyDeclaration {
        let mut configurations: Vec<u64> = self.table.values().copied().collect();
        let can_shrink = configurations.windows(2).any(|w| w[1] < w[0]);
        configurations.sort_unstable();
        configurations.dedup();
        PolicyDeclaration {
            kind: self.kind().to_owned(),
            initial: self.at(0),
            min: configurations.first().copied().unwrap_or(0),
            max: configurations.last().copied().unwrap_or(0),
            configurations,
            can_shrink,
            schedule: self.table.iter().map(|(&e, &b)| (e, b)).collect(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        if !self.table.contains_key(&0) {
            return Err(Error::invalid(
                "the expert schedule's first epoch",
                self.table.keys().next().map_or("missing".to_owned(), u64::to_string),
                "0: the batch size that the run starts with",
            ));
        }
        self.table.values().try_for_each(|&b| check_batch("a batch size of the expert schedule", b))
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        let next = if now.epoch_ended { now.epoch + 1 } else { now.epoch };
        Ok(Choice::new(self.at(next), format!("expert schedule for epoch {next}")))
    }

    fn state(&self) -> Value {
        Value::Null
    }

    fn restore(&mut self, _state: &Value) -> Result<(), Error> {
        Ok(())
    }
}
