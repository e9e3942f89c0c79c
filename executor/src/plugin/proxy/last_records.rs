//! The last log records of a plugin.

use std::collections::VecDeque;
use std::fmt::Write;

use parking_lot::Mutex;

/// Number of records kept.
const MOST: usize = 5;
/// Greatest number of bytes kept of each record.
const BYTES: usize = 300;

/// The last records.
#[derive(Debug, Default)]
pub(super) struct LastRecords {
    records: Mutex<VecDeque<String>>,
}

impl LastRecords {
    pub(super) fn add(&self, message: &str) {
        let line = message.lines().next().unwrap_or_default();
        let kept = line[..line.floor_char_boundary(BYTES)].to_owned();
        let mut records = self.records.lock();
        if records.len() == MOST {
            records.pop_front();
        }
        records.push_back(kept);
    }

    /// Returns a text for a message: empty, or "; it logged last: ...".
    pub(super) fn description(&self) -> String {
        let records = self.records.lock();
        let mut description = String::new();
        for (index, record) in records.iter().enumerate() {
            let before = if index == 0 { "; it logged last: " } else { " | " };
            let _ = write!(description, "{before}{record}");
        }
        description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_records_are_kept_and_cut() {
        let last_records = LastRecords::default();
        assert_eq!(last_records.description(), "");
        for index in 0..9 {
            last_records.add(&format!("record {index}\nmore"));
        }
        let description = last_records.description();
        assert!(description.starts_with("; it logged last: record 4 | record 5"), "{description}");
        assert!(description.ends_with("record 8"), "{description}");
        last_records.add(&"ü".repeat(1000));
        assert!(last_records.description().len() < description.len() + BYTES + 3);
    }
}
