//! The ratchet: what was too long when the rule came in may only shrink.
//!
//! `.config/tidy.ratchet` has one line for each: `LINES PATH`, or `LINES PATH FUNCTION`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::Finding;
use super::sizes::{FILE_LINES, FUNCTION_LINES, Sized};
use crate::process;

const FILE: &str = ".config/tidy.ratchet";
type Key = (String, Option<String>);

/// Compares what is too long with the ratchet, which `tighten` lowers to what is.
pub(super) fn check(sizes: Vec<Sized>, tighten: bool) -> Result<Vec<Finding>> {
    let file = process::root().join(FILE);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut allowed = parse(&text)?;
    if tighten {
        allowed = lowered(&allowed, &sizes);
        fs::write(&file, render(&allowed)).with_context(|| format!("{FILE} cannot be written"))?;
    }
    Ok(judge(&allowed, sizes))
}

fn judge(allowed: &BTreeMap<Key, usize>, sizes: Vec<Sized>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unused: BTreeMap<&Key, usize> = allowed.iter().map(|(key, n)| (key, *n)).collect();
    for Sized { path, function, line, lines } in sizes {
        let key = (path.clone(), function.clone());
        unused.remove(&key);
        let limit = allowed.get(&key).copied();
        let (rule, usual) = match &function {
            Some(_) => ("function-size", FUNCTION_LINES),
            None => ("file-size", FILE_LINES),
        };
        let what = function.map_or("the file".to_owned(), |name| format!("fn {name}"));
        let message = match limit {
            Some(limit) if lines == limit => continue,
            Some(limit) if lines < limit => {
                format!("{what} has shrunk to {lines}: run 'cargo xtask tidy --tighten'")
            }
            limit => {
                let limit = limit.unwrap_or(usual);
                format!("{what} has {lines} lines, at most {limit}: cut it by what it does")
            }
        };
        findings.push(Finding { path, line, rule, message });
    }
    for ((path, function), _) in unused {
        let what = function.as_deref().unwrap_or("the file");
        let message = format!("{what} needs no ratchet any more: run 'cargo xtask tidy --tighten'");
        findings.push(Finding { path: path.clone(), line: 1, rule: "ratchet", message });
    }
    findings
}

fn lowered(allowed: &BTreeMap<Key, usize>, sizes: &[Sized]) -> BTreeMap<Key, usize> {
    let mut kept = BTreeMap::new();
    for size in sizes {
        let key = (size.path.clone(), size.function.clone());
        if let Some(limit) = allowed.get(&key) {
            kept.insert(key, size.lines.min(*limit));
        }
    }
    kept
}

fn parse(text: &str) -> Result<BTreeMap<Key, usize>> {
    let mut allowed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let parsed = words.next().and_then(|lines| lines.parse().ok()).zip(words.next());
        let (lines, path) = parsed
            .with_context(|| format!("{FILE}: '{line}', expected 'LINES PATH [FUNCTION]'"))?;
        allowed.insert((path.to_owned(), words.next().map(str::to_owned)), lines);
    }
    Ok(allowed)
}

fn render(allowed: &BTreeMap<Key, usize>) -> String {
    let mut text = String::from("# Longer than the rule allows, and may only shrink.\n");
    for ((path, function), lines) in allowed {
        let function = function.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        text.push_str(&format!("{lines} {path}{function}\n"));
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn size(lines: usize) -> Vec<Sized> {
        vec![Sized { path: "a.rs".into(), function: Some("f".into()), line: 3, lines }]
    }

    #[test]
    fn ratchet_only_lets_shrink() {
        let allowed = parse("# note\n90 a.rs f\n").unwrap();
        assert_eq!(judge(&allowed, size(90)), []);
        assert!(judge(&allowed, size(91))[0].message.contains("has 91 lines, at most 90"));
        assert!(judge(&allowed, size(80))[0].message.contains("has shrunk to 80"));
        assert!(judge(&allowed, vec![])[0].message.contains("needs no ratchet"));
        assert!(judge(&BTreeMap::new(), size(71))[0].message.contains("at most 70"));
        assert_eq!(render(&lowered(&allowed, &size(80))).lines().last(), Some("80 a.rs f"));
        assert_eq!(render(&lowered(&allowed, &size(99))).lines().last(), Some("90 a.rs f"));
        assert!(parse("many a.rs").is_err());
    }
}
