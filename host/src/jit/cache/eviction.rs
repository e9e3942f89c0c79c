//! The removal of results that were not used for the longest time.

use super::{UNFINISHED, is_result};
use std::fs::{DirEntry, Metadata};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Age of an unfinished file whose writer has ended without removing it.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes results, the longest unused first, until the folder has at most `most_bytes`. The file
/// `newest` stays. Also removes unfinished files that their writers have abandoned. Other files are
/// not touched, and failures are ignored: another process may remove the same files.
pub(super) fn shrink(folder: &Path, most_bytes: u64, newest: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        Some((entry.metadata().ok().filter(Metadata::is_file)?, entry))
    });
    let (results, others): (Vec<_>, Vec<_>) =
        files.partition(|(_, entry)| is_result(&entry.path()));
    others.iter().filter(|(facts, entry)| is_abandoned(facts, entry)).for_each(|(_, entry)| {
        let _ = std::fs::remove_file(entry.path());
    });
    let mut total: u64 = results.iter().map(|(facts, _)| facts.len()).sum();
    if total <= most_bytes {
        return;
    }
    let mut results: Vec<_> = results
        .iter()
        .map(|(facts, entry)| (facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), facts, entry))
        .collect();
    results.sort_by_key(|(used, ..)| *used);
    for (_, facts, entry) in results {
        if total <= most_bytes {
            break;
        }
        let path = entry.path();
        if path != newest && std::fs::remove_file(path).is_ok() {
            total -= facts.len();
        }
    }
}

fn is_abandoned(facts: &Metadata, entry: &DirEntry) -> bool {
    let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
    let age = facts.modified().ok().and_then(|written| written.elapsed().ok());
    is_unfinished && age.is_some_and(|age| age > ABANDONED)
}
