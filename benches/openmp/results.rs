//! The results: the times of both libraries beside their floors.

use crate::programs::Library;
use comfy_table::Table;
use std::collections::BTreeMap;

/// The times of each measurement, by name and library, in nanoseconds.
#[derive(Default)]
pub(crate) struct Results {
    times: BTreeMap<(String, bool), Vec<f64>>,
}

/// The permitted time of a measurement.
enum Target {
    /// The greatest time above the floor, in nanoseconds.
    Above(f64),
    /// The greatest multiple of LLVM's time, floor included.
    OfLlvm(f64),
    /// The greatest multiple of the floor.
    OfFloor(f64),
    /// No permitted time.
    Shown,
}

/// A row of the table: the measurement, its floor, its description and its target.
struct Row {
    name: &'static str,
    floor: Option<&'static str>,
    text: &'static str,
    target: Target,
}

const ROWS: [Row; 9] = [
    Row {
        name: "null_region",
        floor: None,
        text: "an empty target region",
        target: Target::Above(200.0),
    },
    Row {
        name: "nowait_region",
        floor: Some("nowait_region_task"),
        text: "an empty region with nowait, and taskwait (floor: libomp's task)",
        target: Target::OfLlvm(0.5),
    },
    Row {
        name: "nowait_region_beside_parallel",
        floor: Some("nowait_region_beside_parallel_task"),
        text: "the same in an image with a parallel region",
        target: Target::OfLlvm(0.5),
    },
    Row {
        name: "map_update_unmap_8B",
        floor: Some("copy_8B_three_times"),
        text: "map, update and unmap 8 bytes, above the copies",
        target: Target::Above(100.0),
    },
    Row {
        name: "map_unmap_1MiB",
        floor: Some("copy_1MiB"),
        text: "map and unmap 1 MiB, above the copy",
        target: Target::Shown,
    },
    Row {
        name: "lookup_of_10000",
        floor: Some("empty_lookup"),
        text: "look-up among 10,000 mapped ranges",
        target: Target::Above(100.0),
    },
    Row {
        name: "start",
        floor: Some("start_without_offloading"),
        text: "start to main, above the program without offloading",
        target: Target::Above(1.5e6),
    },
    Row {
        name: "triad_256MiB",
        floor: None,
        text: "stream triad over 256 MiB",
        target: Target::OfLlvm(1.0),
    },
    Row {
        name: "device_copy_64MiB",
        floor: Some("copy_64MiB"),
        text: "device-to-device copy of 64 MiB",
        target: Target::OfFloor(1.02),
    },
];

impl Results {
    /// Adds a time in nanoseconds.
    pub(crate) fn add(&mut self, library: Library, name: &str, ns: f64) {
        let key = (name.to_owned(), library == Library::Longshore);
        self.times.entry(key).or_default().push(ns);
    }

    /// Returns the best time and the median of a measurement, in nanoseconds.
    fn times(&self, library: Library, name: &str) -> [f64; 2] {
        let key = (name.to_owned(), library == Library::Longshore);
        let mut times = self.times.get(&key).cloned().unwrap_or_default();
        times.sort_by(f64::total_cmp);
        match times[..] {
            [] => [f64::NAN; 2],
            _ => [times[0], times[times.len() / 2]],
        }
    }

    /// Returns the table of all measurements.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.set_header([
            "best (median)",
            "floor",
            "LLVM 19",
            "longshore",
            "longshore / LLVM",
            "most",
            "",
        ]);
        for row in &ROWS {
            table.add_row(self.row(row));
        }
        table
    }

    fn row(&self, row: &Row) -> [String; 7] {
        let floor = |library| row.floor.map(|floor| self.times(library, floor));
        let (ours, llvm) =
            (self.times(Library::Longshore, row.name), self.times(Library::Llvm, row.name));
        let above = |times: [f64; 2], floor: Option<[f64; 2]>| {
            let floor = floor.unwrap_or([0.0; 2]);
            [times[0] - floor[0], times[1] - floor[1]]
        };
        let own_floor = floor(Library::Longshore);
        let is_ratio = matches!(row.target, Target::OfFloor(_) | Target::OfLlvm(_));
        let (ours_above, llvm_above) = match is_ratio {
            true => (ours, llvm),
            false => (above(ours, own_floor), above(llvm, floor(Library::Llvm))),
        };
        let most = match row.target {
            Target::Above(ns) => Some([ns; 2]),
            Target::OfLlvm(times) => Some(llvm_above.map(|ns| ns * times)),
            Target::OfFloor(times) => own_floor.map(|floor| floor.map(|ns| ns * times)),
            Target::Shown => None,
        };
        let verdict = |at: usize| match most {
            Some(most) if ours_above[at] <= most[at] => "met",
            Some(_) => "missed",
            None => "-",
        };
        let ratio = |at: usize| ours_above[at] / llvm_above[at];
        [
            row.text.to_owned(),
            own_floor.map_or("-".to_owned(), shown),
            shown(llvm_above),
            shown(ours_above),
            format!("{:.2} ({:.2})", ratio(0), ratio(1)),
            most.map_or("-".to_owned(), shown),
            format!("{} ({})", verdict(0), verdict(1)),
        ]
    }
}

fn shown([best, median]: [f64; 2]) -> String {
    format!("{} ({})", duration(best), duration(median))
}

fn duration(ns: f64) -> String {
    match ns.abs() {
        size if size < 1e3 => format!("{ns:.1} ns"),
        size if size < 1e6 => format!("{:.2} us", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}
