//! The last that a plugin logged.

use std::collections::VecDeque;
use std::fmt::Write;

use parking_lot::Mutex;

/// So many records are kept.
const MOST: usize = 5;
/// So much of each.
const BYTES: usize = 300;

/// The last records.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    records: Mutex<VecDeque<String>>,
}

impl LastWords {
    pub(super) fn add(&self, message: &str) {
        let line = message.lines().next().unwrap_or_default();
        let kept = line[..line.floor_char_boundary(BYTES)].to_owned();
        let mut records = self.records.lock();
        if records.len() == MOST {
            records.pop_front();
        }
        records.push_back(kept);
    }

    /// For a message: empty, or "; it logged last: ...".
    pub(super) fn told(&self) -> String {
        let records = self.records.lock();
        let mut told = String::new();
        for (index, record) in records.iter().enumerate() {
            let before = if index == 0 { "; it logged last: " } else { " | " };
            let _ = write!(told, "{before}{record}");
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_records_are_kept_and_cut() {
        let words = LastWords::default();
        assert_eq!(words.told(), "");
        for index in 0..9 {
            words.add(&format!("record {index}\nmore"));
        }
        let told = words.told();
        assert!(told.starts_with("; it logged last: record 4 | record 5"), "{told}");
        assert!(told.ends_with("record 8"), "{told}");
        words.add(&"ü".repeat(1000));
        assert!(words.told().len() < told.len() + BYTES + 3);
    }
}
