//! Plain columns of text.

use std::fmt;

/// A table of text. Every row has as many cells as the header; all columns but the last are aligned
/// to the right.
pub(super) struct TextTable<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> TextTable<N> {
    pub(super) fn new(header: [&str; N]) -> TextTable<N> {
        TextTable { rows: vec![header.map(str::to_owned)] }
    }

    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }
}

impl<const N: usize> fmt::Display for TextTable<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or_default());
        for row in &self.rows {
            for (cell, width) in row.iter().zip(widths).take(N - 1) {
                write!(f, "{cell:>width$}  ")?;
            }
            writeln!(f, "{}", row[N - 1])?;
        }
        Ok(())
    }
}
