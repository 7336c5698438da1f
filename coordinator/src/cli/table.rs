//! What commands print for people.

use std::io::Write;

use super::connect::CliError;

/// Prints lines for people: what would move the cursor or colour the screen is shown as a mark, for
/// some of it comes from others' jobs.
///
/// # Errors
/// As [`print_raw`].
pub(super) fn print(lines: &str) -> Result<(), CliError> {
    let moves = |c: char| c.is_control() && c != '\n';
    if lines.contains(moves) {
        print_raw(&lines.replace(moves, "\u{fffd}"))
    } else {
        print_raw(lines)
    }
}

/// One line of what people are shown in several.
#[must_use]
pub(super) fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Prints a line as it is. A reader that has gone away (`| head`) is no failure of ours to shout
/// about.
///
/// # Errors
/// When standard output is closed.
pub(super) fn print_raw(line: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    printed(writeln!(out, "{line}").and_then(|()| out.flush()))
}

/// The result of printing.
///
/// # Errors
/// When standard output is closed.
pub(super) fn printed(result: std::io::Result<()>) -> Result<(), CliError> {
    result.map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => CliError::ReaderGone,
        _ => CliError::Failed(format!("cannot print: {error}")),
    })
}

/// Columns as wide as their widest cell; the last one is not padded.
#[must_use]
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(header[column].len())
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(header.to_vec())];
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}

/// A duration as people read it: `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`.
#[must_use]
pub(super) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "-".into();
    }
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// A value, or a dash.
#[must_use]
pub(super) fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["1".into(), "running".into()], vec!["12".into(), "é".into()]];
        assert_eq!(table(&["ID", "STATE"], &rows), "ID  STATE\n1   running\n12  é");
    }

    #[test]
    fn durations() {
        let check = |seconds, expected: &str| assert_eq!(duration(seconds), expected);
        check(-1.0, "0 s");
        check(59.4, "59 s");
        check(185.0, "3 min 5 s");
        check(7800.0, "2 h 10 min");
        check(273_600.0, "3 d 4 h");
        check(f64::INFINITY, "-");
    }
}
