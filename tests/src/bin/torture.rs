//! Plays scenarios for `cargo xtask torture`: one JSON object a line on standard output.
//!
//! `torture --list`, or `torture NAME [--runs N] [--seed S]`. Exit code 1 when a promise was broken.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use shockwave_tests::torture::{SCENARIOS, Scenario, by_name};

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torture: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Vec<String>) -> Result<bool> {
    let mut words = arguments.iter();
    let Some(name) = words.next() else { bail!("no name is given; --list shows them") };
    if name == "--list" {
        SCENARIOS.iter().for_each(list);
        return Ok(true);
    }
    let scenario = by_name(name).with_context(|| format!("there is no scenario {name:?}"))?;
    let (mut runs, mut seed) = (scenario.runs, 1);
    while let Some(option) = words.next() {
        let number = words.next().and_then(|word| word.parse::<u64>().ok());
        let number = number.with_context(|| format!("{option} takes a whole number"))?;
        match option.as_str() {
            "--runs" => runs = number,
            "--seed" => seed = number,
            _ => bail!("{option:?} is no option; there are --runs and --seed"),
        }
    }
    let tally = scenario.play(runs, seed, |done| println!("{}", json!({ "done": done })))?;
    println!("{}", json!({ "tally": tally }));
    Ok(tally.is_clean())
}

fn list(scenario: &Scenario) {
    let Scenario { name, what, counts, runs, .. } = scenario;
    println!("{}", json!({ "name": name, "what": what, "counts": counts, "runs": runs }));
}
