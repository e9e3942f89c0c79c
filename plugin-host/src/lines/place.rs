//! The search for an address in debug information.

use super::sections::Debug;
use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_call_file, DW_AT_call_line, DW_AT_name,
    DW_AT_specification, DW_TAG_inlined_subroutine, DW_TAG_subprogram, DebugInfoOffset,
    DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, RangeIter,
};
use std::time::Instant;

/// Most entries to follow from a function's entry to the entry with its name.
const MOST_ORIGINS: usize = 4;
/// Most functions of an address.
const MOST_FRAMES: usize = 32;

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'a> = gimli::Unit<Reader<'a>>;
type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;

/// A function at an address, and the line in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: u64,
}

/// A function's entry that includes the address.
struct Scope<'a> {
    function: Option<String>,
    /// The call, for an inlined function.
    call: Option<(Option<AttributeValue<Reader<'a>>>, u64)>,
}

/// Returns the functions at an address, innermost first. `None` if no unit includes the address, or
/// after the deadline.
pub(super) fn find(debug: &Debug<'_>, address: u64, deadline: Instant) -> Option<Vec<Frame>> {
    let dwarf = debug.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        let unit = dwarf.unit(header).ok()?;
        let search = Search { dwarf: &dwarf, unit: &unit, address, deadline };
        if search.includes(dwarf.unit_ranges(&unit).ok()?)? {
            return search.frames();
        }
    }
    None
}

/// A search in one unit.
struct Search<'a, 'd> {
    dwarf: &'d Dwarf<Reader<'a>>,
    unit: &'d Unit<'a>,
    address: u64,
    deadline: Instant,
}

impl<'a> Search<'a, '_> {
    fn frames(&self) -> Option<Vec<Frame>> {
        let mut place = self.line().unwrap_or_default();
        let mut frames = Vec::new();
        for Scope { function, call } in self.scopes()?.into_iter().rev().take(MOST_FRAMES) {
            frames.push(Frame { function, file: place.0.take(), line: place.1 });
            let Some((file, line)) = call else { break };
            let number = file.and_then(|file| match file {
                AttributeValue::FileIndex(number) => Some(number),
                file => file.udata_value(),
            });
            place = (number.and_then(|number| self.file(number)), line);
        }
        Some(frames)
    }

    /// Returns the functions that include the address, outermost first.
    fn scopes(&self) -> Option<Vec<Scope<'a>>> {
        let mut scopes = Vec::new();
        let mut entries = self.unit.entries();
        while let Some(entry) = entries.next_dfs().ok()? {
            self.in_time()?;
            let is_inlined = entry.tag() == DW_TAG_inlined_subroutine;
            if !is_inlined && entry.tag() != DW_TAG_subprogram {
                continue;
            }
            if self.includes(self.dwarf.die_ranges(self.unit, entry).ok()?)? {
                let line = entry.attr_value(DW_AT_call_line).and_then(|line| line.udata_value());
                let call = is_inlined
                    .then(|| (entry.attr_value(DW_AT_call_file), line.unwrap_or_default()));
                scopes.push(Scope { function: self.name(entry), call });
            }
        }
        Some(scopes)
    }

    /// Returns a function's name, which may be in the entry of its declaration.
    fn name(&self, entry: &Entry<'a>) -> Option<String> {
        self.name_by(entry, MOST_ORIGINS)
    }

    fn name_by(&self, entry: &Entry<'a>, most_origins: usize) -> Option<String> {
        if let Some(name) = entry.attr_value(DW_AT_name) {
            let name = self.dwarf.attr_string(self.unit, name).ok()?;
            return Some(name.to_string_lossy().into_owned());
        }
        let left = most_origins.checked_sub(1)?;
        let origin = entry.attr_value(DW_AT_abstract_origin);
        let offset = match origin.or_else(|| entry.attr_value(DW_AT_specification))? {
            AttributeValue::UnitRef(offset) => offset,
            // A reference to another unit is to code that a linker of bitcode has joined, or to the
            // source of a function of ours.
            AttributeValue::DebugInfoRef(offset) => {
                return match offset.to_unit_offset(&self.unit.header) {
                    Some(offset) => self.name_by(&self.unit.entry(offset).ok()?, left),
                    None => self.name_elsewhere(offset, left),
                };
            }
            _ => return None,
        };
        self.name_by(&self.unit.entry(offset).ok()?, left)
    }

    /// Returns the name of a function of another unit.
    fn name_elsewhere(&self, offset: DebugInfoOffset, most_origins: usize) -> Option<String> {
        let mut units = self.dwarf.units();
        while let Some(header) = units.next().ok()? {
            self.in_time()?;
            let Some(offset) = offset.to_unit_offset(&header) else { continue };
            let unit = &self.dwarf.unit(header).ok()?;
            let entry = unit.entry(offset).ok()?;
            return Search { unit, ..*self }.name_by(&entry, most_origins);
        }
        None
    }

    /// Returns the file and the line of the address.
    fn line(&self) -> Option<(Option<String>, u64)> {
        let mut rows = self.unit.line_program.clone()?.rows();
        let mut before: Option<(u64, u64, u64)> = None;
        while let Some((_, row)) = rows.next_row().ok()? {
            self.in_time()?;
            if let Some((start, file, line)) = before
                && (start..row.address()).contains(&self.address)
            {
                return Some((self.file(file), line));
            }
            let line = row.line().map_or(0, |line| line.get());
            before = (!row.end_sequence()).then_some((row.address(), row.file_index(), line));
        }
        None
    }

    /// Returns a file's name: relative to the folder of the compilation if it was given so.
    fn file(&self, number: u64) -> Option<String> {
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(number)?;
        let text = |value| {
            let text = self.dwarf.attr_string(self.unit, value).ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        let name = text(file.path_name())?;
        let folder = file.directory(header).filter(|_| file.directory_index() != 0);
        Some(match folder.and_then(text) {
            Some(folder) if !name.starts_with('/') => format!("{folder}/{name}"),
            _ => name,
        })
    }

    fn includes(&self, mut ranges: RangeIter<Reader<'a>>) -> Option<bool> {
        while let Some(range) = ranges.next().ok()? {
            self.in_time()?;
            if (range.begin..range.end).contains(&self.address) {
                return Some(true);
            }
        }
        Some(false)
    }

    fn in_time(&self) -> Option<()> {
        (Instant::now() <= self.deadline).then_some(())
    }
}
