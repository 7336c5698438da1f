//! What was counted, as a table, and the seeds that failed.

use serde::{Deserialize, Serialize};

/// Counts of a scenario, as its program prints them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) checked: u64,
    pub(super) lost: u64,
    pub(super) phantom: u64,
    pub(super) double: u64,
    pub(super) failed: Vec<Failure>,
    pub(super) figures: Vec<(String, f64)>,
}

/// A run that broke a promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) seed: u64,
    pub(super) why: String,
}

/// A scenario that was played.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Result {
    pub(super) name: String,
    /// What was checked.
    pub(super) counts: String,
    /// Time that it took.
    pub(super) seconds: f64,
    pub(super) tally: Tally,
}

impl Result {
    /// Whether every promise was kept.
    pub(super) fn is_clean(&self) -> bool {
        let Tally { runs, lost, phantom, double, failed, .. } = &self.tally;
        *runs > 0 && lost + phantom + double == 0 && failed.is_empty()
    }
}

/// One line a scenario.
pub(super) fn table(played: &[Result]) -> String {
    let head = ["", "runs", "checked", "lost", "phantom", "double", "failed", "s"];
    let mut lines = vec![head.map(str::to_owned)];
    for Result { name, seconds, tally, .. } in played {
        let count = |number: u64| number.to_string();
        lines.push([
            name.clone(),
            count(tally.runs),
            count(tally.checked),
            count(tally.lost),
            count(tally.phantom),
            count(tally.double),
            count(tally.failed.len() as u64),
            format!("{seconds:.0}"),
        ]);
    }
    let mut widths = [0; 8];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        if let Some(result) = index.checked_sub(1).and_then(|index| played.get(index)) {
            text.push_str("  ");
            text.push_str(&beside(result));
        }
        text.push('\n');
    }
    text
}

/// What was checked, and the figures beside the counts.
fn beside(result: &Result) -> String {
    let figures = result.tally.figures.iter();
    let figures = figures.map(|(name, value)| format!("{name}: {}", plain(*value)));
    let mut parts = vec![result.counts.clone()];
    parts.extend(figures);
    parts.join("; ")
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Every seed that failed, with how to play it again.
pub(super) fn failures(played: &[Result]) -> String {
    let mut text = String::new();
    for Result { name, tally, .. } in played {
        for Failure { seed, why } in &tally.failed {
            text.push_str(&format!(
                "{name}, seed {seed}: {why}\n  again: cargo xtask torture {name} --runs 1 --seed \
                 {seed}\n"
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_a_table_and_seeds_are_printed() {
        let failed = vec![Failure { seed: 17, why: "2 records lost".into() }];
        let figures = vec![("refused".to_owned(), 3.0)];
        let tally = Tally { runs: 20, checked: 400, lost: 2, failed, figures, ..Tally::default() };
        let good = Tally { runs: 5, checked: 9, ..Tally::default() };
        let played = [("damage", "databases", tally), ("kill", "events", good)].map(
            |(name, counts, tally)| Result {
                name: name.into(),
                counts: counts.into(),
                seconds: 1.4,
                tally,
            },
        );
        let expected = "        runs  checked  lost  phantom  double  failed  s\n\
                        damage    20      400     2        0       0       1  1  databases; refused: 3\n\
                        kill       5        9     0        0       0       0  1  events\n";
        assert_eq!(table(&played), expected);
        assert!(failures(&played).contains("--runs 1 --seed 17"));
        assert!(!played[0].is_clean() && played[1].is_clean());
    }
}
