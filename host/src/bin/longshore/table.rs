//! Tables: framed and as wide as the terminal on a terminal, plain columns elsewhere.

use comfy_table::presets::{NOTHING, UTF8_FULL_CONDENSED};
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, Width};

const GAP: u16 = 2;

/// A table as text, without a newline at its end. An empty cell is shown as "-".
pub(crate) fn render<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.map(Cell::new));
    for row in rows {
        table.add_row(row.map(|text| if text.is_empty() { "-".to_owned() } else { text }));
    }
    if table.is_tty() {
        table.load_style(UTF8_FULL_CONDENSED);
        keep_headers_whole(&mut table, header);
        return table.to_string();
    }
    table.load_style(NOTHING);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, GAP));
    });
    table.trim_fmt()
}

/// The size of a group: "64x1x1", with "?" where it is open; nothing if it is open everywhere.
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
