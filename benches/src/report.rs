//! The tables of results.

use crate::rounds::Times;
use comfy_table::Table;
use std::time::Duration;

/// The results of a benchmark.
pub struct Report {
    rows: Table,
    notes: Table,
}

/// A limit for a result: for the best time, and for the median.
pub struct Limit {
    text: String,
    best: Duration,
    median: Duration,
}

impl Limit {
    /// Creates a limit from both times.
    pub fn new(text: &str, best: Duration, median: Duration) -> Limit {
        Limit { text: text.to_owned(), best, median }
    }

    /// Creates a limit that is computed from each of the floor's times.
    pub fn from_floor(text: &str, floor: &Times, most: impl Fn(Duration) -> Duration) -> Limit {
        Limit::new(text, most(floor.best()), most(floor.median()))
    }

    /// Creates the limit for a share of the floor's rate.
    pub fn share(share: f64, floor: &Times) -> Limit {
        Limit::from_floor(&format!("{share} of the floor's rate"), floor, |time| {
            time.div_f64(share)
        })
    }
}

impl Default for Report {
    fn default() -> Report {
        Report::new()
    }
}

impl Report {
    /// Creates an empty report.
    pub fn new() -> Report {
        let (mut rows, mut notes) = (Table::new(), Table::new());
        let what = "best (median)";
        rows.set_header([what, "floor", "longshore", "longshore / floor", "target", "most", ""]);
        notes.set_header(["for information", what]);
        Report { rows, notes }
    }

    /// Adds a result, judged by both times.
    pub fn row(&mut self, name: &str, floor: Option<&Times>, ours: &Times, limit: Limit) {
        let ratio = |floor: Duration, ours: Duration| ours.as_secs_f64() / floor.as_secs_f64();
        let ratios = floor.map(|floor| {
            let best = ratio(floor.best(), ours.best());
            format!("{best:.2} ({:.2})", ratio(floor.median(), ours.median()))
        });
        self.rows.add_row([
            name.to_owned(),
            floor.map_or("-".to_owned(), shown),
            shown(ours),
            ratios.unwrap_or_else(|| "-".to_owned()),
            limit.text,
            format!("{:.2?} ({:.2?})", limit.best, limit.median),
            format!(
                "{} ({})",
                verdict(ours.best(), limit.best),
                verdict(ours.median(), limit.median)
            ),
        ]);
    }

    /// Adds times without a limit.
    pub fn note(&mut self, name: &str, times: &Times) {
        self.notes.add_row([name.to_owned(), shown(times)]);
    }

    /// Prints the tables to standard output.
    pub fn print(&self) {
        for table in [&self.rows, &self.notes].into_iter().filter(|table| !table.is_empty()) {
            println!("{table}");
        }
    }
}

fn verdict(took: Duration, most: Duration) -> &'static str {
    if took <= most { "met" } else { "missed" }
}

fn shown(times: &Times) -> String {
    format!("{:.2?} ({:.2?})", times.best(), times.median())
}
