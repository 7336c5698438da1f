//! Sizes: files of at most 400 lines, functions of at most 70.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::Source;

/// Lines that a file may have.
pub(super) const FILE_LINES: usize = 400;
/// Lines that a function may have, from its signature to its closing brace.
pub(super) const FUNCTION_LINES: usize = 70;
/// Files that hold logic. A protocol's listing of messages is read by searching.
const WRITTEN: [&str; 8] = [".rs", ".cpp", ".hpp", ".h", ".py", ".css", ".js", ".html"];

/// Something that has a size.
#[derive(Debug, PartialEq)]
pub(super) struct Sized {
    pub(super) path: String,
    /// The function's name, or nothing for the whole file.
    pub(super) function: Option<String>,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// Whatever is longer than it may be.
pub(super) fn too_long(source: &Source) -> Vec<Sized> {
    let mut found = Vec::new();
    let written = WRITTEN.iter().any(|end| source.path.ends_with(end));
    let lines = source.text.lines().count();
    if written && lines > FILE_LINES {
        found.push(Sized { path: source.path.clone(), function: None, line: 1, lines });
    }
    if source.path.ends_with(".rs")
        && let Ok(file) = syn::parse_file(&source.text)
    {
        let mut visitor = Functions { path: &source.path, found: Vec::new() };
        visitor.visit_file(&file);
        found.append(&mut visitor.found);
    }
    found
}

struct Functions<'a> {
    path: &'a str,
    found: Vec<Sized>,
}

impl Functions<'_> {
    fn take(&mut self, name: &syn::Ident, from: Span, to: Span) {
        let (line, end) = (from.start().line, to.end().line);
        let lines = end + 1 - line;
        if lines > FUNCTION_LINES {
            let function = Some(name.to_string());
            self.found.push(Sized { path: self.path.to_owned(), function, line, lines });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.take(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.take(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.take(&item.sig.ident, item.sig.span(), block.span());
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_functions_are_found() {
        let body = "    work();\n".repeat(FUNCTION_LINES - 1);
        let long = format!("//! x\nfn fits() {{\n{}}}\nfn long() {{\n{body}}}\n", &body[12..]);
        let found = too_long(&Source { path: "a.rs".into(), text: long });
        let expected = Sized {
            path: "a.rs".into(),
            function: Some("long".into()),
            line: 2 + FUNCTION_LINES,
            lines: FUNCTION_LINES + 1,
        };
        assert_eq!(found, [expected]);
        let text = "\n".repeat(FILE_LINES + 1);
        let found = too_long(&Source { path: "b.cpp".into(), text });
        assert_eq!(found.len(), 1);
    }
}
