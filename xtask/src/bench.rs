//! `cargo xtask bench NAME`: runs a benchmark program, shows its rows beside their goals and
//! writes `target/bench/NAME.json`. A missed goal is reported, not an error.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{process, setup};

/// Options of bench.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The benchmark; without one, all are listed
    name: Option<String>,
    /// Prints the JSON instead of the table
    #[arg(long)]
    json: bool,
    /// A folder with data, for the benchmarks that read some
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Passed on to the benchmark program
    #[arg(last = true)]
    program: Vec<String>,
}

/// A result, as the benchmark programs print them, one JSON object a line.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    value: serde_json::Value,
    unit: String,
    /// What was to be reached, in words.
    #[serde(default)]
    goal: serde_json::Value,
    /// Whether it was; null where the row has no goal.
    #[serde(default)]
    holds: Option<bool>,
    /// What the value was compared with.
    #[serde(default)]
    against: serde_json::Value,
}

/// Runs one benchmark; whether the program itself succeeded.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let targets = targets()?;
    let Some(name) = &args.name else {
        for (package, target) in &targets {
            println!("{target:16} ({package})");
        }
        return Ok(true);
    };
    if !targets.iter().any(|(_, target)| target == name) {
        let known: Vec<&str> = targets.iter().map(|(_, target)| target.as_str()).collect();
        bail!("there is no benchmark '{name}'; there are: {}", known.join(", "));
    }
    setup::ensure()?;
    let mut program = args.program.clone();
    if let Some(folder) = &args.data {
        // Cargo starts the program in the folder of its package.
        let whole =
            fs::canonicalize(folder).with_context(|| format!("--data {}", folder.display()))?;
        program.extend(["--data".into(), whole.display().to_string()]);
    }
    let (rows, succeeded) = measure(name, &program)?;
    let folder = process::root().join("target/bench");
    let file = folder.join(format!("{name}.json"));
    let json = serde_json::to_string_pretty(&serde_json::json!({ "rows": rows }))?;
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&file, format!("{json}\n")))
        .with_context(|| format!("{} cannot be written", file.display()))?;
    if args.json {
        println!("{json}");
        return Ok(succeeded);
    }
    print!("{}", table(&rows));
    println!("{}", verdict(&rows));
    println!("written to target/bench/{name}.json");
    Ok(succeeded)
}

/// Every benchmark of the workspace: package and target.
fn targets() -> Result<Vec<(String, String)>> {
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--format-version=1", "--no-deps"]);
    let metadata: serde_json::Value = serde_json::from_str(&process::stdout_of(&mut cargo)?)?;
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let kinds = target["kind"].as_array();
            if kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "bench"))
                && let (Some(package), Some(target)) =
                    (package["name"].as_str(), target["name"].as_str())
            {
                found.push((package.to_owned(), target.to_owned()));
            }
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found)
}

/// Runs the program and reads its rows; whether it succeeded.
fn measure(name: &str, more: &[String]) -> Result<(Vec<Row>, bool)> {
    // Those that it starts lie beside the coordinator's own.
    let mut programs = process::cargo();
    programs.args(["build", "--quiet", "--locked", "--workspace", "--bins"]);
    if name == "coordinator" && !process::succeeds(&mut programs)? {
        bail!("the programs that the benchmark starts cannot be built");
    }
    let mut cargo = process::cargo();
    // The dev profile optimises what is measured (core, solver, libtorch) as the release profile
    // does, and builds HiGHS and libtorch's bindings no second time.
    cargo.args(["bench", "--locked", "--profile", "dev", "--workspace", "--bench", name]);
    if !more.is_empty() {
        cargo.arg("--").args(more);
    }
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo cannot be started")?;
    let stdout = child.stdout.take().context("the benchmark's output is not connected")?;
    let mut rows = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("the benchmark's output cannot be read")?;
        match serde_json::from_str::<Row>(&line) {
            Ok(row) => rows.push(row),
            Err(_) if line.trim().is_empty() => {}
            Err(error) => eprintln!("not a row ({error}): {line}"),
        }
    }
    let succeeded = child.wait().context("cargo was lost")?.success();
    if succeeded && rows.is_empty() {
        bail!("the benchmark '{name}' printed no row");
    }
    Ok((rows, succeeded))
}

fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; 5]> = rows.iter().map(cells_of).collect();
    let head = ["", "value", "goal", "holds", "against"].map(str::to_owned);
    let mut widths = [0; 5];
    for line in cells.iter().chain([&head]) {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in [&head].into_iter().chain(&cells) {
        let padded = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn cells_of(row: &Row) -> [String; 5] {
    let plain = |value: &serde_json::Value| match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let value = match row.value.as_f64() {
        Some(number) if row.value.is_f64() => significant(number),
        _ => plain(&row.value),
    };
    let holds = match row.holds {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
    };
    let value = format!("{value} {}", row.unit).trim_end().to_owned();
    [row.name.clone(), value, plain(&row.goal), holds.into(), plain(&row.against)]
}

/// A number to four significant digits.
fn significant(number: f64) -> String {
    let magnitude = number.abs();
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    if !(1e-4..1e7).contains(&magnitude) {
        return format!("{number:.3e}");
    }
    let decimals = (3.0 - magnitude.log10().floor()).max(0.0) as usize;
    format!("{number:.decimals$}")
}

fn verdict(rows: &[Row]) -> String {
    let goals = rows.iter().filter(|row| row.holds.is_some()).count();
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.holds == Some(false)).map(|row| row.name.as_str()).collect();
    if missed.is_empty() {
        return format!("all {goals} goals hold");
    }
    format!("{} of {goals} goals MISSED: {}", missed.len(), missed.join("; "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_table_and_a_verdict() {
        let lines = [
            r#"{"name":"plan","value":0.123456,"unit":"s","goal":"<= 1","holds":true,"against":null}"#,
            r#"{"name":"gap","value":12,"unit":"%","goal":10,"holds":false,"against":"bound"}"#,
            r#"{"name":"size","value":"big","unit":""}"#,
        ];
        let rows: Vec<Row> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected = "      value     goal  holds  against\n\
                        plan  0.1235 s  <= 1  yes\n\
                        gap   12 %      10    NO     bound\n\
                        size  big\n";
        assert_eq!(table(&rows), expected);
        assert_eq!(verdict(&rows), "1 of 2 goals MISSED: gap");
        assert_eq!(verdict(&rows[..1]), "all 1 goals hold");
    }

    #[test]
    fn numbers_keep_four_digits() {
        let shown = [0.000012, 0.00123456, 1234.5678, 123456.7, 2e9].map(significant);
        assert_eq!(shown, ["1.200e-5", "0.001235", "1235", "123457", "2.000e9"]);
    }
}
