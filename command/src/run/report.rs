//! The report on a run.

use super::element::Value;
use crate::failure::Failure;
use crate::output;
use longshore::units;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

const SHOWN_ELEMENTS: usize = 16;

/// A run that succeeded.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    pub(super) device: String,
    pub(super) kernel: &'a str,
    pub(super) groups: [u32; 3],
    pub(super) items: [u32; 3],
    #[serde(flatten)]
    pub(super) times: Times,
    pub(super) outputs: Vec<Output>,
    /// The memory report, with `--memory-report` and `--json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<serde_json::Value>,
}

/// The contents of an `out:` buffer.
#[derive(Serialize)]
pub(super) struct Output {
    /// Index of the buffer among the arguments.
    pub(super) argument: usize,
    /// Name of the elements' type.
    #[serde(rename = "type")]
    pub(super) element: &'static str,
    pub(super) values: Vec<Value>,
}

/// The times of the load and the runs.
#[derive(Serialize)]
pub(super) struct Times {
    runs: usize,
    load_ns: u64,
    run_min_ns: u64,
    run_median_ns: u64,
}

impl Report<'_> {
    pub(super) fn print_json(&self) -> Result<(), Failure> {
        output::print_json_line(self)
    }

    pub(super) fn print(&self, full: bool) -> Result<(), Failure> {
        output::print(&self.text(if full { usize::MAX } else { SHOWN_ELEMENTS }))
    }

    fn text(&self, shown: usize) -> String {
        let Report { device, kernel, groups, items, times, outputs, memory: _ } = self;
        let mut text = format!(
            "{kernel} on {device}, groups {}, items {}\n",
            dimensions(groups),
            dimensions(items)
        );
        for output in outputs {
            // Writing to a string never fails.
            let _ = writeln!(text, "{}", output.text(shown));
        }
        text + &times.text()
    }
}

impl Output {
    fn text(&self, shown: usize) -> String {
        let Output { argument, element, values } = self;
        let head = values.iter().take(shown).map(Value::to_string);
        let head = head.collect::<Vec<_>>().join(", ");
        let more = match values.len().saturating_sub(shown) {
            0 => String::new(),
            more => format!(", ... ({more} more; --full shows them)"),
        };
        format!("argument {argument}: {element}[{}] = {head}{more}", values.len())
    }
}

impl Times {
    /// Creates the times from the time of the load and the times of the runs, at least one.
    pub(super) fn new(load: Duration, mut runs: Vec<Duration>) -> Times {
        runs.sort_unstable();
        let ns = |time: Option<&Duration>| {
            let ns = time.map_or(0, Duration::as_nanos);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        Times {
            runs: runs.len(),
            load_ns: ns(Some(&load)),
            run_min_ns: ns(runs.first()),
            run_median_ns: ns(runs.get(runs.len() / 2)),
        }
    }

    fn text(&self) -> String {
        let shown = |ns| units::duration(Duration::from_nanos(ns));
        let load = shown(self.load_ns);
        let (min, median) = (shown(self.run_min_ns), shown(self.run_median_ns));
        match self.runs {
            1 => format!("load {load}, run {min}"),
            runs => format!("load {load}, {runs} runs: min {min}, median {median}"),
        }
    }
}

fn dimensions(xyz: &[u32; 3]) -> String {
    match xyz {
        [x, 1, 1] => x.to_string(),
        [x, y, 1] => format!("{x}x{y}"),
        [x, y, z] => format!("{x}x{y}x{z}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(len: u32) -> Report<'static> {
        let values = (0..len).map(Value::U32).collect();
        let times = [3, 1, 2].map(Duration::from_micros);
        Report {
            device: "toy:0 (Toy)".into(),
            kernel: "k",
            groups: [4, 1, 1],
            items: [8, 2, 1],
            times: Times::new(Duration::from_millis(5), times.into()),
            outputs: vec![Output { argument: 2, element: "u32", values }],
            memory: None,
        }
    }

    #[test]
    fn the_first_elements_and_the_times_are_shown() {
        let expected = "k on toy:0 (Toy), groups 4, items 8x2\n\
                        argument 2: u32[5] = 0, 1, ... (3 more; --full shows them)\n\
                        load 5.00 ms, 3 runs: min 1.00 µs, median 2.00 µs";
        assert_eq!(report(5).text(2), expected);
        assert!(report(3).text(usize::MAX).contains("u32[3] = 0, 1, 2\n"));
    }

    #[test]
    fn json_holds_all_elements_and_the_times_in_nanoseconds() {
        let json = serde_json::to_value(report(3)).unwrap();
        assert_eq!(json["outputs"][0]["values"], serde_json::json!([0, 1, 2]));
        assert_eq!(json["outputs"][0]["type"], "u32");
        assert_eq!(json["run_median_ns"], 2000);
        assert_eq!(json["load_ns"], 5_000_000);
        assert_eq!(json["runs"], 3);
    }
}
