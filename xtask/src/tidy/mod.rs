//! `cargo xtask tidy`: the rules of the workspace that no lint checks.
//!
//! Sizes ([`sizes`]), module docs, words and macros that mean unfinished work ([`words`]), the
//! purity of the core ([`purity`]), which crate may see which ([`walls`]), links of the documents
//! ([`links`]). What was too long when a rule came in is listed in `.config/tidy.ratchet`, and may
//! only shrink.

mod links;
mod purity;
mod ratchet;
mod sizes;
mod source;
mod walls;
mod words;

use anyhow::Result;
use serde::Serialize;

use source::Source;

/// Options of tidy.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// Lowers the ratchet to what is, where something has shrunk
    #[arg(long)]
    tighten: bool,
}

/// A rule that is broken somewhere.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
}

/// Runs tidy and says what it found; whether it found nothing.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let (files, findings) = find(args.tighten)?;
    if args.json {
        println!("{}", serde_json::json!({ "files": files, "findings": findings }));
    } else {
        for finding in &findings {
            let Finding { path, line, rule, message } = finding;
            println!("{path}:{line}: {message} [{rule}]");
        }
        println!("tidy: {files} files, {} findings", findings.len());
    }
    Ok(findings.is_empty())
}

fn find(tighten: bool) -> Result<(usize, Vec<Finding>)> {
    let sources = source::all()?;
    let mut findings = Vec::new();
    let mut sizes = Vec::new();
    for source in &sources {
        findings.extend(words::check(source));
        findings.extend(purity::check(source));
        findings.extend(links::check(source));
        sizes.extend(sizes::too_long(source));
        findings.extend(without_module_docs(source));
    }
    findings.extend(ratchet::check(sizes, tighten)?);
    findings.extend(walls::check()?);
    findings.sort();
    Ok((sources.len(), findings))
}

/// Every Rust file starts with what it is for.
fn without_module_docs(source: &Source) -> Option<Finding> {
    let rust = source.path.ends_with(".rs");
    let documented = source.text.lines().any(|line| line.starts_with("//!"));
    let message = "starts without module docs (`//!`): say what it is for".to_owned();
    (rust && !documented).then(|| source.finding(1, "module-docs", message))
}
