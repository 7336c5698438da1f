//! `cargo xtask test`: set-up, the programs that the tests start, all tests, and their totals.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{process, setup};

/// Options of test.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Prints one JSON object instead of the test programs' output
    #[arg(long)]
    json: bool,
    /// Passed on to `cargo test` (in place of `--workspace`, when a package is named)
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// Sums over all test programs.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Totals {
    programs: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Runs the tests; whether all passed and there were any.
pub(crate) fn run(args: &Args) -> Result<bool> {
    setup::ensure()?;
    setup::slurm::offer();
    let mut build = process::cargo();
    build.args(["build", "--quiet", "--locked", "--workspace", "--bins", "--examples"]);
    eprintln!("building the programs that the tests start");
    if !process::succeeds(&mut build)? {
        return Ok(false);
    }
    let mut test = process::cargo();
    test.args(["test", "--locked", "--no-fail-fast"]);
    let names = ["-p", "--package", "--workspace"];
    let named = args.cargo.iter().any(|arg| names.iter().any(|name| arg.starts_with(name)));
    if !named {
        test.arg("--workspace");
    }
    test.args(&args.cargo).stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(path) = setup::library_path() {
        test.env("LD_LIBRARY_PATH", path);
    }
    let mut child = test.spawn().context("cargo cannot be started")?;
    let stdout = child.stdout.take().context("the tests' output is not connected")?;
    let mut totals = Totals::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("the tests' output cannot be read")?;
        totals.add(&line);
        if !args.json {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}").and_then(|()| out.flush()).context("standard output")?;
        }
    }
    let succeeded = child.wait().context("cargo was lost")?.success();
    let passed = succeeded && totals.passed > 0 && totals.failed == 0;
    if args.json {
        println!("{}", serde_json::json!({ "succeeded": passed, "totals": totals }));
    } else {
        let Totals { programs, passed, failed, ignored } = totals;
        println!(
            "tests in {programs} programs: {passed} passed, {failed} failed, {ignored} ignored"
        );
    }
    Ok(passed)
}

impl Totals {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let count = |what: &str| {
            let before = result.split_once(what)?.0.trim_end();
            before.rsplit([' ', ';']).next()?.parse::<u64>().ok()
        };
        self.programs += 1;
        self.passed += count("passed").unwrap_or(0);
        self.failed += count("failed;").unwrap_or(0);
        self.ignored += count("ignored").unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Totals;

    #[test]
    fn totals_are_summed() {
        let mut totals = Totals::default();
        totals.add("running 3 tests");
        totals.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        totals.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured");
        assert_eq!(totals, Totals { programs: 2, passed: 15, failed: 2, ignored: 1 });
    }
}
