//! Tables of comma separated values, with errors that name line and column.

use std::collections::HashMap;
use std::str::FromStr;

/// What is wrong with a table, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}, line {line}, column {column}: got `{got}`, expected {expected}")]
pub struct InputError {
    /// Which table: `trace`, `throughputs`, `datasets`, `gns_rules`, `accordion_rules`.
    pub table: &'static str,
    /// Line in the file, from 1 (the header).
    pub line: u64,
    /// The column's name.
    pub column: String,
    /// What stands there.
    pub got: String,
    /// What would be right.
    pub expected: String,
}

/// A table with a header, held as text.
pub(crate) struct Table {
    name: &'static str,
    columns: HashMap<String, usize>,
    rows: Vec<(u64, csv::StringRecord)>,
}

impl Table {
    /// Reads a table. `required` columns must be in the header; a header may carry a longer text
    /// than the name (`segments(start_epoch:batch_size;...)` is found as `segments`).
    pub(crate) fn parse(
        name: &'static str,
        text: &str,
        required: &[&str],
    ) -> Result<Self, InputError> {
        let mut reader =
            csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| malformed(name, &error))?.clone();
        let mut columns = HashMap::new();
        for (index, title) in header.iter().enumerate() {
            let short = title.split([' ', '(']).next().unwrap_or(title);
            columns.entry(short.to_owned()).or_insert(index);
        }
        if let Some(missing) = required.iter().find(|column| !columns.contains_key(**column)) {
            return Err(InputError {
                table: name,
                line: 1,
                column: (*missing).to_owned(),
                got: header.iter().collect::<Vec<_>>().join(","),
                expected: format!("a header with a column {missing}"),
            });
        }
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| malformed(name, &error))?;
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line, record));
        }
        Ok(Self { name, columns, rows })
    }

    /// The rows in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(move |(line, record)| Row { table: self, line: *line, record })
    }
}

fn malformed(table: &'static str, error: &csv::Error) -> InputError {
    let line = error.position().map_or(1, csv::Position::line);
    let (column, got, expected) = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let column = if len < expected_len { len + 1 } else { expected_len + 1 };
            (
                format!("number {column}"),
                format!("{len} columns"),
                format!("{expected_len} columns, as in the header"),
            )
        }
        other => ("(whole line)".to_owned(), format!("{other:?}"), "a line of a CSV file".into()),
    };
    InputError { table, line, column, got, expected }
}

/// One line of a table.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    table: &'a Table,
    line: u64,
    record: &'a csv::StringRecord,
}

impl<'a> Row<'a> {
    /// Where it stands.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The text in a column; empty when the table has no such column.
    pub(crate) fn text(&self, column: &str) -> &'a str {
        self.table.columns.get(column).and_then(|index| self.record.get(*index)).unwrap_or("")
    }

    /// An error about one of this row's columns.
    pub(crate) fn error(&self, column: &str, expected: impl Into<String>) -> InputError {
        InputError {
            table: self.table.name,
            line: self.line,
            column: column.to_owned(),
            got: self.text(column).to_owned(),
            expected: expected.into(),
        }
    }

    /// A value that must be there and must satisfy `holds`.
    pub(crate) fn value<T: FromStr>(
        &self,
        column: &str,
        expected: &str,
        holds: impl Fn(&T) -> bool,
    ) -> Result<T, InputError> {
        self.text(column)
            .parse()
            .ok()
            .filter(|value| holds(value))
            .ok_or_else(|| self.error(column, expected))
    }

    /// A value that may be missing.
    pub(crate) fn optional<T: FromStr>(
        &self,
        column: &str,
        expected: &str,
        holds: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, InputError> {
        if self.text(column).is_empty() {
            return Ok(None);
        }
        self.value(column, expected, holds).map(Some)
    }
}
