//! Notes, which the loader walks by their stated sizes.

use super::ensure;
use super::read::u32_at;
use longshore_plugin_api::Result;
use std::ops::Range;

const HEADER_BYTES: usize = 12;

/// Checks that each note ends inside its table.
pub(super) fn check(bytes: &[u8], tables: &[(Range<usize>, u64)]) -> Result<()> {
    for (range, alignment) in tables {
        ensure!(
            matches!(alignment, 0..=1 | 4 | 8),
            "the notes at offset {:#x} have alignment {alignment}, expected 4 or 8",
            range.start
        );
        let alignment = if *alignment == 8 { 8 } else { 4 };
        ensure!(
            fits(&bytes[range.clone()], alignment),
            "a note at offset {:#x} does not fit into its segment's {:#x} bytes",
            range.start,
            range.len()
        );
    }
    Ok(())
}

fn fits(mut notes: &[u8], alignment: usize) -> bool {
    while notes.len() > HEADER_BYTES {
        let end = note_bytes(notes, alignment);
        let Some(rest) = end.and_then(|end| notes.get(end..)) else {
            return false;
        };
        notes = rest;
    }
    true
}

/// Returns the distance in bytes from a note's start to the next note.
fn note_bytes(notes: &[u8], alignment: usize) -> Option<usize> {
    let name_bytes = u32_at(notes, 0)? as usize;
    let content_bytes = u32_at(notes, 4)? as usize;
    let content = HEADER_BYTES.checked_add(name_bytes)?.checked_next_multiple_of(alignment)?;
    let end = content.checked_add(content_bytes)?;
    // The last note's padding may be missing.
    let padded = end.checked_next_multiple_of(alignment)?;
    Some(if end <= notes.len() { padded.min(notes.len()) } else { padded })
}
