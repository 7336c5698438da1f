//! The core does no I/O, reads no clock and no environment, starts no thread, prints nothing.

use super::Finding;
use super::source::{Source, paths};

const CORE: &str = "coordinator/core/src/";

/// What a path in the core may not start with.
const FORBIDDEN: [&str; 12] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::io",
    "std::os",
    "std::process",
    "std::thread",
    "std::time",
    "tokio",
    "tch",
    "torch_sys",
    "rand::rng",
];
/// What it may all the same.
const ALLOWED: [&str; 1] = ["std::time::Duration"];
/// Macros that print.
const PRINTING: [&str; 4] = ["println", "eprintln", "print", "eprint"];

/// Finds forbidden paths in the files of the core.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(CORE) {
        return Vec::new();
    }
    let Some(tokens) = source.tokens() else { return Vec::new() };
    let mut findings = Vec::new();
    for used in paths(tokens) {
        let under = |start: &str| {
            used.path
                .strip_prefix(start)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        let forbidden =
            FORBIDDEN.iter().any(|start| under(start)) || PRINTING.contains(&&*used.path);
        if forbidden && !ALLOWED.iter().any(|start| under(start)) {
            let message = format!("{} in the core, which must stay pure", used.path);
            findings.push(source.finding(used.line, "purity", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let source = Source { path: path.into(), text: text.into() };
        check(&source).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn impure_paths_are_found_in_the_core_only() {
        let text = "use std::time::{Duration, Instant};\nuse std::fmt;\nfn f() {\n\
                    println!(\"{}\", std::env::args());\n}\n// std::fs in a comment\n";
        assert_eq!(found("coordinator/core/src/x.rs", text), [1, 4, 4]);
        assert_eq!(found("coordinator/src/x.rs", text), [0; 0]);
    }
}
