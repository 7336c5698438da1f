//! The files that tidy reads: what git tracks or would track.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};

use super::Finding;
use crate::process;

/// A text file of the workspace.
pub(super) struct Source {
    /// Path from the root folder, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn finding(&self, line: usize, rule: &'static str, message: String) -> Finding {
        Finding { path: self.path.clone(), line, rule, message }
    }

    /// The file's tokens, when it is Rust. What does not parse is the compiler's to report.
    pub(super) fn tokens(&self) -> Option<TokenStream> {
        self.path.ends_with(".rs").then(|| self.text.parse().ok()).flatten()
    }
}

/// All text files, sorted by path.
pub(super) fn all() -> Result<Vec<Source>> {
    let root = process::root();
    let mut git = Command::new("git");
    git.current_dir(&root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let listed = process::stdout_of(&mut git).context("tidy reads the list of files from git")?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut sources = Vec::new();
    for path in paths {
        // Listed but deleted, or not text: nothing to check.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            sources.push(Source { path: path.to_owned(), text });
        }
    }
    Ok(sources)
}

/// A path as written in the source (`std::fs::read`), with groups of `use` spread out.
pub(super) struct PathUse {
    pub(super) line: usize,
    pub(super) path: String,
}

/// Every path in the tokens, those inside macro calls too.
pub(super) fn paths(tokens: TokenStream) -> Vec<PathUse> {
    let mut found = Vec::new();
    collect(tokens, "", &mut found);
    found
}

fn collect(tokens: TokenStream, prefix: &str, found: &mut Vec<PathUse>) {
    let mut path = prefix.to_owned();
    let mut line = 0;
    // Whether the path goes on: at the start of a group, and after `::`.
    let mut open = !prefix.is_empty();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                if open && !path.is_empty() {
                    path = format!("{path}::{name}");
                } else {
                    flush(&path, prefix, line, found);
                    path = name;
                }
                line = ident.span().start().line;
                (open, colons) = (false, 0);
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                colons += 1;
                open = colons == 2;
            }
            TokenTree::Group(group) => {
                // `std::{fs, io}`: the path goes on inside, and is none by itself.
                if open {
                    collect(group.stream(), &path, found);
                } else {
                    flush(&path, prefix, line, found);
                    collect(group.stream(), "", found);
                }
                (path, open, colons) = (String::new(), false, 0);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                flush(&path, prefix, line, found);
                path = prefix.to_owned();
                (open, colons) = (!prefix.is_empty(), 0);
            }
        }
    }
    flush(&path, prefix, line, found);
}

fn flush(path: &str, prefix: &str, line: usize, found: &mut Vec<PathUse>) {
    if !path.is_empty() && path != prefix {
        found.push(PathUse { line, path: path.to_owned() });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_uses_calls_and_macros() {
        let text = "use std::{fs, time::{Duration, Instant}};\n\
                    fn f() { let a: Vec<std::env::Args> = x(std::thread::spawn(g)); \
                    assert!(tokio::main(b::c) == 1); }";
        let all: Vec<String> =
            paths(text.parse().unwrap()).into_iter().map(|found| found.path).collect();
        for wanted in [
            "std::fs",
            "std::time::Duration",
            "std::time::Instant",
            "std::env::Args",
            "std::thread::spawn",
            "tokio::main",
            "b::c",
        ] {
            assert!(all.iter().any(|path| path == wanted), "{wanted} in {all:?}");
        }
        assert!(!all.iter().any(|path| path == "std::x"), "{all:?}");
    }
}
