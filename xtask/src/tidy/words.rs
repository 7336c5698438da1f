//! Words, macros and paths that do not belong in the workspace.

use proc_macro2::{TokenStream, TokenTree};

use super::Finding;
use super::source::Source;

/// Macros that mean unfinished work.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
/// Marks of unfinished work in any text file.
const MARKS: [&str; 4] = ["FIXME", "XXX", "HACK:", "TODO"];
/// Folders of somebody's machine.
const MACHINE: [&str; 4] = ["/home/", "/root/", concat!("/w", "ork/"), "/Users/"];
/// Where these words are the subject.
const EXEMPT: [&str; 2] = ["xtask/src/tidy/words.rs", "Cargo.lock"];

/// Finds what does not belong.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if EXEMPT.contains(&source.path.as_str()) {
        return findings;
    }
    for (number, line) in source.text.lines().enumerate() {
        for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
            let message = format!("'{mark}': finish it, or write an issue");
            findings.push(source.finding(number + 1, "words", message));
        }
        for path in MACHINE.iter().filter(|path| starts_a_path(line, path)) {
            let message = format!("'{path}' is a path of one machine");
            findings.push(source.finding(number + 1, "paths", message));
        }
    }
    if let Some(tokens) = source.tokens() {
        scan(tokens, source, &mut findings);
    }
    findings
}

/// Whether the word stands alone in the line.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !inside(before) && !inside(after)
    })
}

/// Whether an absolute path starts so in the line (and not in the middle of another path).
fn starts_a_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}>)$*".contains(c))
    })
}

fn scan(tokens: TokenStream, source: &Source, findings: &mut Vec<Finding>) {
    let mut last: Option<(String, usize)> = None;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                last = Some((ident.to_string(), ident.span().start().line));
                continue;
            }
            TokenTree::Punct(punct) if punct.as_char() == '!' => {
                if let Some((name, line)) = &last
                    && MACROS.contains(&name.as_str())
                {
                    findings.push(source.finding(*line, "macros", format!("{name}!")));
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                last = Some(("#".into(), punct.span().start().line));
                continue;
            }
            TokenTree::Group(group) => {
                let ignores = group.stream().into_iter().next().is_some_and(
                    |first| matches!(first, TokenTree::Ident(ident) if ident == "ignore"),
                );
                if let Some((_, line)) = last.filter(|(name, _)| name == "#" && ignores) {
                    let message = "an ignored test tests nothing: fix it or remove it".to_owned();
                    findings.push(source.finding(line, "ignored-test", message));
                }
                scan(group.stream(), source, findings);
            }
            _ => {}
        }
        last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let source = Source { path: path.into(), text: text.into() };
        check(&source).into_iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = "fn f() {\n assert!(dbg!(x));\n todo!()\n}\n#[ignore = \"slow\"]\nfn g() {}\n\
                    // FIXME later\n";
        let all = rules("a.rs", text);
        assert_eq!(all, [("words", 7), ("macros", 2), ("macros", 3), ("ignored-test", 5)]);
    }

    #[test]
    fn names_that_only_look_alike_pass() {
        let text = "fn todo() { if a != b { dbg(ignore) } } // XXXL todo!\n#[derive(X)] struct A;";
        assert_eq!(rules("a.rs", text), []);
        assert_eq!(rules("a.md", "see $HOME/home/x, https://a.b/home/c, target/home/"), []);
        assert_eq!(rules("a.md", "cd /home/me/x"), [("paths", 1)]);
    }
}
