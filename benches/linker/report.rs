//! The tables.

use crate::contenders::Outcome;
use crate::ours::MemoryPeak;
use crate::survey::{Kind, Survey};
use comfy_table::Table;
use std::time::Duration;

/// The results for one workload.
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    /// Limit for one thread in milliseconds.
    pub(crate) target_ms: u32,
    /// Floor first, Longshore on one thread and on two, then the peers.
    pub(crate) results: Vec<Outcome>,
    pub(crate) peak: Option<MemoryPeak>,
    /// Size of the allocated sections in bytes.
    pub(crate) allocated: u64,
}

impl Row {
    fn floor(&self) -> &Outcome {
        &self.results[0]
    }

    fn ours(&self) -> &[Outcome] {
        &self.results[1..3]
    }

    /// Returns the fastest peer. A peer that is no slower than for an empty object is lost in
    /// noise, and does not count.
    fn best_peer(&self) -> Option<&Outcome> {
        let measured = |peer: &&Outcome| peer.best().is_some_and(|best| !best.is_zero());
        let peers = self.results[3..].iter().filter(measured);
        peers.min_by_key(|peer| peer.best())
    }
}

/// Returns a table with the contents of the workloads.
pub(crate) fn surveys(surveys: &[(&str, Survey)]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "workload",
        "objects",
        "KiB",
        "sections",
        "symbols",
        "relocations",
        "external",
        "allocated KiB",
        "text",
        "eh_frame",
        "rodata",
        "data",
        "bss",
    ]);
    for (name, survey) in surveys {
        let kib = |bytes: u64| (bytes / 1024).to_string();
        table.add_row([
            (*name).to_owned(),
            survey.objects.to_string(),
            kib(survey.bytes),
            survey.section_headers.to_string(),
            survey.symbols.to_string(),
            survey.relocations.to_string(),
            survey.undefined.len().to_string(),
            kib(survey.allocated()),
            kib(survey.size_of(Kind::Text)),
            kib(survey.size_of(Kind::EhFrame)),
            kib(survey.size_of(Kind::ReadOnly)),
            kib(survey.size_of(Kind::Data)),
            kib(survey.size_of(Kind::ZeroFill)),
        ]);
    }
    table
}

/// Returns a table with the best times and the medians in milliseconds.
pub(crate) fn times(rows: &[Row]) -> Table {
    let mut table = Table::new();
    let mut header = vec!["ms: best (median)".to_owned()];
    header.extend(rows.iter().map(|row| row.workload.to_owned()));
    table.set_header(header);
    for number in 0..rows.first().map_or(0, |row| row.results.len()) {
        let mut line = vec![rows[0].results[number].name.clone()];
        line.extend(rows.iter().map(|row| cell(&row.results[number])));
        table.add_row(line);
    }
    let mut add = |name: String, value: fn(&Row) -> Option<String>| {
        let values = rows.iter().map(|row| value(row).unwrap_or_else(|| "-".to_owned()));
        table.add_row([name].into_iter().chain(values));
    };
    add("best peer".to_owned(), |row| Some(row.best_peer()?.name.clone()));
    add("ours, 1 thread / floor".to_owned(), |row| ratio(&row.ours()[0], row.floor()));
    add("ours, 1 thread / best peer".to_owned(), |row| ratio(&row.ours()[0], row.best_peer()?));
    add("ours, 2 threads / best peer".to_owned(), |row| ratio(&row.ours()[1], row.best_peer()?));
    add("target, ms".to_owned(), |row| Some(format!("{}: {}", row.target_ms, met(row)?)));
    add("peak memory / allocated sections".to_owned(), |row| {
        memory(row.peak?.heap + row.peak?.mapped, row)
    });
    add("  of which page padding".to_owned(), |row| {
        memory(row.peak?.mapped - row.peak?.wanted, row)
    });
    table
}

/// Returns a size relative to the allocated sections.
fn memory(bytes: u64, row: &Row) -> Option<String> {
    Some(format!("x{:.2}", bytes as f64 / row.allocated as f64))
}

/// Prints notes that are not in the tables.
pub(crate) fn notes(rows: &[Row], missing: &[String]) {
    for row in rows {
        for Outcome { name, overhead, samples } in &row.results {
            match (samples, overhead) {
                (Err(reason), _) => println!("{}, {name}: {reason}", row.workload),
                (Ok(_), Some(overhead)) => {
                    let overhead = milliseconds(*overhead);
                    println!("{}, {name}: less {overhead} ms for an empty object", row.workload);
                }
                (Ok(_), None) => {}
            }
        }
    }
    for reason in missing {
        println!("{reason}");
    }
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!(
            "Load of the machine in the last minute, this benchmark included: {}",
            load.split(' ').next().unwrap_or_default()
        );
    }
}

fn met(row: &Row) -> Option<String> {
    let met = row.ours()[0].best()?.as_secs_f64() * 1e3 <= f64::from(row.target_ms);
    Some(if met { "met" } else { "missed" }.to_owned())
}

fn ratio(one: &Outcome, other: &Outcome) -> Option<String> {
    Some(format!("x{:.2}", one.best()?.as_secs_f64() / other.best()?.as_secs_f64()))
}

fn cell(result: &Outcome) -> String {
    match (result.best(), result.median()) {
        (Some(best), Some(median)) => format!("{} ({})", milliseconds(best), milliseconds(median)),
        _ => "-".to_owned(),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}
