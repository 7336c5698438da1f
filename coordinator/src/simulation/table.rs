//! Several runs on one trace, as a table.

use shockwave_core::simulator::report::Contention;

use super::Run;

const HEADER: [&str; 11] = [
    "policy",
    "makespan h",
    "mean JCT h",
    "p95 JCT h",
    "worst rho",
    "rho>1 %",
    "rho>1.05 %",
    "rho>1.1 %",
    "utilisation",
    "restarts",
    "plan ms",
];

/// A table of runs in Markdown, columns aligned. `plan ms` is the median time of a decision.
#[must_use]
pub fn comparison(runs: &[&Run]) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(runs.iter().map(|run| row(run)));
    let widths: Vec<usize> = (0..HEADER.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let line = |cells: &[String; 11]| {
        let padded: Vec<String> =
            cells
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                })
                .collect();
        format!("| {} |\n", padded.join(" | "))
    };
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| {
            let dashes = "-".repeat(width + 1);
            if column == 0 { format!("{dashes}-") } else { format!("{dashes}:") }
        })
        .collect();
    let mut text = line(&rows[0]);
    text.push_str(&format!("|{}|\n", rule.join("|")));
    rows[1..].iter().for_each(|row| text.push_str(&line(row)));
    text
}

fn row(run: &Run) -> [String; 11] {
    let metrics = run.outcome.metrics(Contention::Trace);
    let mut times: Vec<f64> = run.decisions.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let hours = |seconds: f64| format!("{:.2}", seconds / 3600.0);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    [
        run.label(),
        hours(metrics.makespan_s),
        hours(metrics.mean_jct_s),
        hours(metrics.p95_jct_s),
        format!("{:.2}", metrics.worst_rho),
        percent(metrics.unfair_1_0),
        percent(metrics.unfair_1_05),
        percent(metrics.unfair_1_1),
        format!("{:.3}", metrics.utilisation),
        metrics.restarts.to_string(),
        times.get(times.len() / 2).map_or_else(String::new, |median| format!("{median:.2}")),
    ]
}
