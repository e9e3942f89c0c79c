//! Tables of text. A terminal gets a frame as wide as itself, in ASCII if the locale has no UTF-8,
//! or a list per row if it is too narrow for the headers. Other outputs get plain columns.

use crate::locale;
use comfy_table::presets::{ASCII_FULL_CONDENSED, NOTHING, UTF8_FULL_CONDENSED};
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, Width};

const GAP: u16 = 2;

/// Returns a table as text, without a newline at its end. An empty cell is shown as "-".
pub(crate) fn render<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    let cell = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let rows: Vec<_> = rows.into_iter().map(|row| row.map(cell)).collect();
    let mut table = Table::new();
    let is_narrow =
        table.is_tty() && table.width().is_some_and(|width| width < least_width(header));
    if is_narrow {
        return lists(header, &rows);
    }
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.map(Cell::new)).add_rows(rows);
    if table.is_tty() {
        table.load_style(if locale::is_utf8() {
            UTF8_FULL_CONDENSED
        } else {
            ASCII_FULL_CONDENSED
        });
        keep_headers_whole(&mut table, header);
        return table.to_string();
    }
    table.load_style(NOTHING);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, GAP));
    });
    table.trim_fmt()
}

/// Returns the terminal columns that a framed table needs to keep its headers in one line.
fn least_width<const N: usize>(header: [&str; N]) -> u16 {
    // Each header has a space on both sides, and a line separates all columns and closes both ends.
    let columns: usize = header.iter().map(|name| name.len() + 3).sum();
    u16::try_from(columns + 1).unwrap_or(u16::MAX)
}

/// Formats each row as lines of a header and a cell, with an empty line between rows.
fn lists<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let width = header.iter().map(|name| name.len()).max().unwrap_or_default();
    let line = |(name, cell): (&&str, &String)| format!("{name:width$}  {cell}");
    let list = |row: &[String; N]| header.iter().zip(row).map(line).collect::<Vec<_>>().join("\n");
    rows.iter().map(list).collect::<Vec<_>>().join("\n\n")
}

/// Formats the size of a group: "64x1x1", with "?" for an open dimension; an empty text if all are
/// open.
pub(crate) fn group(sizes: &[u64]) -> String {
    if sizes.iter().all(|size| *size == 0) {
        return String::new();
    }
    let one = |size: &u64| if *size == 0 { "?".to_owned() } else { size.to_string() };
    sizes.iter().map(one).collect::<Vec<_>>().join("x")
}

/// Lets only cells, not headers, break into lines on a narrow terminal.
fn keep_headers_whole<const N: usize>(table: &mut Table, header: [&str; N]) {
    for (column, name) in table.column_iter_mut().zip(header) {
        let width = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let width = width.saturating_add(column.padding_width());
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
}
