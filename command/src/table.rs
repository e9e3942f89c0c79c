//! Tables: framed and as wide as the terminal on a terminal, plain columns elsewhere. On a terminal that is too narrow for
//! the headers each row is a list. The frame is ASCII where the locale has no UTF-8.

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

/// Returns the columns of a terminal that a framed table with headers in one line takes.
fn least_width<const N: usize>(header: [&str; N]) -> u16 {
    // A space on both sides of each, and a line between all and at the ends.
    let columns: usize = header.iter().map(|name| name.len() + 3).sum();
    u16::try_from(columns + 1).unwrap_or(u16::MAX)
}

/// Returns each row as lines of a header and a cell, with an empty line between rows.
fn lists<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let width = header.iter().map(|name| name.len()).max().unwrap_or_default();
    let line = |(name, cell): (&&str, &String)| format!("{name:width$}  {cell}");
    let list = |row: &[String; N]| header.iter().zip(row).map(line).collect::<Vec<_>>().join("\n");
    rows.iter().map(list).collect::<Vec<_>>().join("\n\n")
}

/// Returns the size of a group: "64x1x1", with "?" where it is open; nothing if it is open everywhere.
pub(crate) fn group(sizes: &[u64]) -> String {
    if sizes.iter().all(|size| *size == 0) {
        return String::new();
    }
    let one = |size: &u64| if *size == 0 { "?".to_owned() } else { size.to_string() };
    sizes.iter().map(one).collect::<Vec<_>>().join("x")
}

/// On a narrow terminal the cells are broken into lines, the headers are not.
fn keep_headers_whole<const N: usize>(table: &mut Table, header: [&str; N]) {
    for (column, name) in table.column_iter_mut().zip(header) {
        let width = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let width = width.saturating_add(column.padding_width());
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
}
