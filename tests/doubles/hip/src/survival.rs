//! Code objects that make HIP end the process, as version 6.4.3 does, since HIP trusts their
//! section tables, segments and symbols.

use std::ops::Range;

const NULL: u64 = 0;
const SYMTAB: u64 = 2;
const STRTAB: u64 = 3;
const DYNSYM: u64 = 11;
const LOAD: u64 = 1;

/// Ends the process if HIP would not survive the code object.
pub(crate) fn survive(image: &[u8]) {
    if let Some(why) = Code(image).deadly() {
        eprintln!("the double of HIP ends the process for a malformed code object: {why}");
        std::process::abort();
    }
}

struct Code<'a>(&'a [u8]);

/// A section: index of its name, type, bytes in the file.
type Section = (usize, u64, Range<usize>);

impl Code<'_> {
    fn deadly(&self) -> Option<&'static str> {
        let sections = self.sections();
        let Some((_, kind, names)) = sections.get(self.number(62, 2)) else {
            return Some("the section with names is missing");
        };
        if *kind != STRTAB || names.is_empty() {
            return Some("the section with names is empty, or not a string table");
        }
        if sections.iter().skip(1).any(|(_, kind, _)| *kind == NULL) {
            return Some("a section has no type");
        }
        if sections.iter().any(|(name, ..)| *name >= names.len()) {
            return Some("a section's name is beyond the names");
        }
        if !sections.iter().any(|(_, kind, _)| *kind == SYMTAB) {
            return Some("the symbol table is missing");
        }
        let segments = self.segments();
        if segments.iter().any(|(stored, loaded)| loaded.end - loaded.start < *stored) {
            return Some("a segment is smaller in memory than in the file");
        }
        let tables = sections.iter().filter(|(_, kind, _)| [SYMTAB, DYNSYM].contains(kind));
        for at in tables.flat_map(|(_, _, bytes)| bytes.clone().step_by(24)) {
            let (kind, section) = (self.number(at + 4, 1) & 15, self.number(at + 6, 2));
            let address = self.number(at + 8, 8) as u64;
            let is_loaded = segments.iter().any(|(_, loaded)| loaded.contains(&address));
            if (1..=2).contains(&kind) && (1..0xff00).contains(&section) && !is_loaded {
                return Some("a symbol is in no segment");
            }
        }
        None
    }

    fn sections(&self) -> Vec<Section> {
        let (start, count) = (self.number(40, 8), self.number(60, 2));
        let headers = (0..count).map(|index| start.wrapping_add(index * 64));
        let section = |at: usize| {
            let [bytes_at, bytes] = [24, 32].map(|field| self.number(at.wrapping_add(field), 8));
            let kind = self.number(at.wrapping_add(4), 4) as u64;
            (self.number(at, 4), kind, bytes_at..bytes_at.saturating_add(bytes))
        };
        headers.map(section).collect()
    }

    /// Returns each loaded segment: its number of bytes in the file, and its addresses.
    fn segments(&self) -> Vec<(u64, Range<u64>)> {
        let (start, count) = (self.number(32, 8), self.number(56, 2));
        let headers = (0..count).map(|index| start.wrapping_add(index * 56));
        let loaded = headers.filter(|at| self.number(*at, 4) as u64 == LOAD);
        let segment = |at: usize| {
            let [address, stored, bytes] =
                [16, 32, 40].map(|field| self.number(at.wrapping_add(field), 8) as u64);
            (stored, address..address.saturating_add(bytes))
        };
        loaded.map(segment).collect()
    }

    /// Reads a little-endian number; 0 beyond the end.
    fn number(&self, at: usize, bytes: usize) -> usize {
        let found = self.0.get(at..).and_then(|rest| rest.get(..bytes)).unwrap_or_default();
        found.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }
}
