//! `cargo xtask check`: all that CI runs besides the tests, every step even when one fails.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::{licences, process, setup, tidy};

/// Options of check.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Prints one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// A step: whether it passed.
type Run = fn() -> Result<bool>;

#[derive(Serialize)]
struct Step {
    name: &'static str,
    passed: bool,
    duration_s: f64,
}

/// Runs every step; whether all passed.
pub(crate) fn run(args: &Args) -> Result<bool> {
    setup::ensure()?;
    let steps: [(&'static str, Run); 5] = [
        ("format", format),
        ("tidy", || tidy::run(&tidy::Args::default())),
        ("licences", licences::check),
        ("lints", lints),
        ("documentation", documentation),
    ];
    let mut done = Vec::new();
    for (name, step) in steps {
        eprintln!("== {name}");
        let start = Instant::now();
        let passed = step()?;
        done.push(Step { name, passed, duration_s: start.elapsed().as_secs_f64() });
    }
    let passed = done.iter().all(|step| step.passed);
    if args.json {
        println!("{}", serde_json::json!({ "passed": passed, "steps": done }));
        return Ok(passed);
    }
    for step in &done {
        let state = if step.passed { "passed" } else { "FAILED" };
        println!("{:14} {state} {:6.1} s", step.name, step.duration_s);
    }
    Ok(passed)
}

fn format() -> Result<bool> {
    process::succeeds(process::cargo().args(["fmt", "--all", "--check"]))
}

fn lints() -> Result<bool> {
    let mut cargo = process::cargo();
    cargo.args(["clippy", "--quiet", "--locked", "--workspace", "--all-targets"]);
    // As an argument and not in RUSTFLAGS, which would rebuild every dependency.
    process::succeeds(cargo.args(["--", "--deny=warnings"]))
}

fn documentation() -> Result<bool> {
    let mut cargo = process::cargo();
    cargo.args(["doc", "--quiet", "--locked", "--workspace", "--no-deps"]);
    cargo.args(["--document-private-items"]);
    process::succeeds(cargo.env("RUSTDOCFLAGS", "--deny=warnings"))
}
