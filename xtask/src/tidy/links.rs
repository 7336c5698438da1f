//! Links of the documents to files of the workspace lead somewhere.

use super::Finding;
use super::source::Source;
use crate::process;

/// Finds relative links of Markdown files that lead nowhere.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.path.ends_with(".md") {
        return Vec::new();
    }
    let file = process::root().join(&source.path);
    let Some(folder) = file.parent() else { return Vec::new() };
    let mut findings = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for target in targets(line) {
            if !folder.join(target).exists() {
                let message = format!("the link to {target} leads nowhere");
                findings.push(source.finding(number + 1, "links", message));
            }
        }
    }
    findings
}

/// Files that a line of Markdown links to: `](path)` or `](path#part)`, not other sites.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let inside = rest.split(')').next()?;
        let path = inside.split('#').next()?;
        (!path.is_empty() && !path.contains("://")).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::targets;

    #[test]
    fn only_links_to_files_are_taken() {
        let line = "[a](x/y.md#z), [b](#here) and [c](https://d.e/f) ![p](p.svg)";
        assert_eq!(targets(line).collect::<Vec<_>>(), ["x/y.md", "p.svg"]);
    }
}
