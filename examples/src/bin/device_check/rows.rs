//! The results: rows of JSON, printed as they come and kept in a file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::Machine;

/// A result, as the benchmark programs print them.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub name: String,
    /// Nothing where the check failed.
    pub value: Option<f64>,
    pub unit: &'static str,
    /// What was to be reached, in words.
    pub goal: String,
    /// Whether it was; nothing where the row has no goal, or none for this device.
    pub holds: Option<bool>,
    /// What the value was compared with.
    pub against: String,
}

impl Row {
    /// A figure without a goal.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let goal = "none set".to_owned();
        Self {
            name: name.into(),
            value: Some(value),
            unit,
            goal,
            holds: None,
            against: String::new(),
        }
    }

    /// The goal, and whether it holds.
    pub fn goal(mut self, goal: impl Into<String>, holds: bool) -> Self {
        self.goal = goal.into();
        self.holds = Some(holds);
        self
    }

    /// Leaves the goal unjudged unless `judged`.
    pub fn only_if(mut self, judged: bool) -> Self {
        self.holds = self.holds.filter(|_| judged);
        self
    }

    /// What the value was compared with.
    pub fn against(mut self, against: impl Into<String>) -> Self {
        self.against = against.into();
        self
    }
}

/// The row of a check that did not come to its end.
pub fn failed(name: &str, error: &anyhow::Error) -> Row {
    Row {
        name: name.to_owned(),
        value: None,
        unit: "",
        goal: "the check ends".into(),
        holds: Some(false),
        against: format!("{error:#}"),
    }
}

/// All results so far, and the file that holds them.
#[derive(Debug, Serialize)]
pub struct Rows {
    device: String,
    driver: String,
    libtorch: String,
    rows: Vec<Row>,
    #[serde(skip)]
    file: PathBuf,
}

impl Rows {
    /// Starts a file in `folder`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(folder: &Path, machine: &Machine) -> Result<Self> {
        let rows = Self {
            device: machine.name.clone(),
            driver: machine.driver.clone(),
            libtorch: machine.libtorch.clone(),
            rows: Vec::new(),
            file: folder.join("device_check.json"),
        };
        rows.write()?;
        Ok(rows)
    }

    /// Prints a result and writes all anew: what is there stays when a later check takes the program down.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, row: Row) -> Result<()> {
        println!("{}", serde_json::to_string(&row)?);
        self.rows.push(row);
        self.write()
    }

    fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(&self.file, format!("{text}\n"))
            .with_context(|| format!("{} cannot be written", self.file.display()))
    }

    /// The names of the rows whose goal does not hold.
    pub fn missed(&self) -> Vec<&str> {
        let missed = self.rows.iter().filter(|row| row.holds == Some(false));
        missed.map(|row| row.name.as_str()).collect()
    }

    /// Where they are kept.
    pub fn file(&self) -> &Path {
        &self.file
    }
}
