//! The evaluation's text and pictures.

use shockwave_core::simulator::report::{Contention, Metrics};

use crate::simulation::{Picture, Run};

const HEAD: &str = "# The paper's evaluation, reproduced

Written by `cargo xtask reproduce`: every number of ours below was computed by that command, in the published simulator's semantics unless a section says otherwise.
Times are simulated hours; rho is by the trace's contention. Published rows come from `reference_results.csv` of the reference folder; numbers quoted from the paper's text are marked as such.
Unless a section says otherwise: forecast `hierarchical` (the default), every policy with its defaults, seed 1 for what is drawn. Measured times depend on the machine; everything else is the same in every run.
";

/// Sections and pictures.
pub(super) struct Report {
    text: String,
    pictures: Vec<Picture>,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { text: HEAD.to_owned(), pictures: Vec::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_pictures(self) -> Vec<Picture> {
        self.pictures
    }

    /// Begins a section.
    pub(super) fn section(&mut self, title: &str, what: &str) {
        self.text.push_str(&format!("\n## {title}\n{what}\n"));
    }

    /// Adds a table.
    pub(super) fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        self.text.push_str(&format!("\n| {} |\n", header.join(" | ")));
        self.text.push_str(&format!("|{}\n", "---|".repeat(header.len())));
        for row in rows {
            self.text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    }

    /// Adds a picture under a name of its own.
    pub(super) fn picture(&mut self, prefix: &str, (name, picture): Picture) {
        let name = format!("{prefix}-{name}");
        self.text.push_str(&format!("\n![{name}](evaluation/{name})\n"));
        self.pictures.push((name, picture));
    }

    /// Adds a paragraph.
    pub(super) fn note(&mut self, text: &str) {
        self.text.push_str(&format!("\n{text}\n"));
    }
}

/// Columns of [`cells`].
pub(super) const METRICS: [&str; 6] =
    ["makespan h", "mean JCT h", "worst rho", "rho>1 %", "rho>1.1 %", "utilisation"];

/// The metrics as cells of a table.
pub(super) fn cells(metrics: &Metrics) -> Vec<String> {
    vec![
        format!("{:.2}", metrics.makespan_s / 3600.0),
        format!("{:.2}", metrics.mean_jct_s / 3600.0),
        format!("{:.2}", metrics.worst_rho),
        format!("{:.1}", metrics.unfair_1_0 * 100.0),
        format!("{:.1}", metrics.unfair_1_1 * 100.0),
        format!("{:.3}", metrics.utilisation),
    ]
}

/// A run's metrics with its name before them.
pub(super) fn named(name: &str, run: &Run) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend(cells(&run.outcome.metrics(Contention::Trace)));
    row
}
