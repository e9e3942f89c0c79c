//! Requirements of AMD's runtimes on a linked code object that the runtimes do not check: some of
//! them end the process over a file that breaks one.

use crate::Malformed;
use crate::header::wrong;
use std::borrow::Cow;
use std::ops::Range;

/// Sizes in bytes of the structures of a 64-bit ELF file.
const SECTION_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SYMBOL_BYTES: usize = 24;
/// First reserved section number.
const RESERVED_SECTIONS: usize = 0xff00;
/// Section number of absolute symbols, which are in no section.
const ABSOLUTE: usize = 0xfff1;

const PT_LOAD: u64 = 1;
const SHT_NULL: u64 = 0;
const SHT_SYMTAB: u64 = 2;
const SHT_STRTAB: u64 = 3;
const SHT_DYNSYM: u64 = 11;
const STB_LOCAL: u8 = 0;
const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_KERNEL: u8 = 10;

/// Returns a linked code object in a form that AMD's runtimes can load. A file without a symbol
/// table is copied, with a table of the dynamic symbols; its contents keep their places. Any other
/// file is returned unchanged.
///
/// # Errors
/// A file over which runtimes would end the process:
///
/// - the section table or the table of its names is missing, or a section has no type;
/// - a segment has less memory than bytes;
/// - a symbol lies in no segment.
pub fn loadable(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Malformed> {
    let sections = Sections::read(bytes)?;
    sections.check_names(bytes)?;
    let memory = memory(bytes)?;
    for table in [SHT_SYMTAB, SHT_DYNSYM] {
        for section in sections.with_type(table) {
            check_symbols(bytes, section, &memory)?;
        }
    }
    match sections.with_type(SHT_SYMTAB).next() {
        Some(_) => Ok(Cow::Borrowed(bytes)),
        None => sections.with_symbol_table(bytes).map(Cow::Owned),
    }
}

/// The table of sections.
struct Sections {
    all: Vec<Section>,
    /// Index of the section with the section names.
    names: usize,
}

/// A section's header.
#[derive(Clone, Copy, Default)]
struct Section {
    name: u32,
    kind: u64,
    /// Offset in bytes of its contents in the file.
    start: u64,
    bytes: u64,
    /// Index of the section with the names of its symbols.
    link: usize,
    info: u32,
}

impl Sections {
    fn read(bytes: &[u8]) -> Result<Sections, Malformed> {
        let [start, entry, count, names] = [(40, 8), (58, 2), (60, 2), (62, 2)]
            .map(|(at, size)| number(bytes, at, size).unwrap_or(0));
        if start == 0 || count == 0 {
            return Err(wrong(
                "it has no section table, by which AMD's runtimes find its symbols".to_owned(),
            ));
        }
        if entry != SECTION_BYTES as u64 {
            return Err(wrong(format!(
                "its section headers have {entry} bytes, expected {SECTION_BYTES}"
            )));
        }
        let section = |index: u64| {
            let at = place(start, index, SECTION_BYTES)?;
            let field = |offset, size| number(bytes, at.checked_add(offset)?, size);
            Some(Section {
                name: field(0, 4)? as u32,
                kind: field(4, 4)?,
                start: field(24, 8)?,
                bytes: field(32, 8)?,
                link: field(40, 4)? as usize,
                info: field(44, 4)? as u32,
            })
        };
        let all: Option<Vec<Section>> = (0..count).map(section).collect();
        let all = all.ok_or_else(|| wrong("its section table lies beyond its end".to_owned()))?;
        Ok(Sections { all, names: names as usize })
    }

    fn with_type(&self, kind: u64) -> impl Iterator<Item = &Section> {
        self.all.iter().filter(move |section| section.kind == kind)
    }

    /// Checks the types and the names of the sections.
    ///
    /// # Errors
    /// A section other than the first without a type, or a name that is not in the table of names.
    fn check_names(&self, bytes: &[u8]) -> Result<(), Malformed> {
        let (names, count) = (self.names, self.all.len());
        let table = self.all.get(names).filter(|table| names != 0 && table.kind == SHT_STRTAB);
        let Some(table) = table.and_then(|table| contents(bytes, table)) else {
            return Err(wrong(format!(
                "section {names} of {count} is not a string table, expected the section names"
            )));
        };
        for (index, section) in self.all.iter().enumerate() {
            if index != 0 && section.kind == SHT_NULL {
                return Err(wrong(format!("section {index} of {count} has no type")));
            }
            let name = table.get(section.name as usize..).unwrap_or_default();
            if !name.contains(&0) {
                return Err(wrong(format!(
                    "the name of section {index} is beyond the table of names, which has {} bytes",
                    table.len()
                )));
            }
        }
        Ok(())
    }

    /// Returns a copy with a symbol table, new names and section headers at its end, in this order.
    fn with_symbol_table(&self, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        let dynamic = self.with_type(SHT_DYNSYM).next().copied().unwrap_or_default();
        let strings = self.all.get(dynamic.link).filter(|strings| strings.kind == SHT_STRTAB);
        let symbols = contents(bytes, &dynamic).unwrap_or(&[0; SYMBOL_BYTES]);
        let strings = strings.and_then(|strings| contents(bytes, strings)).unwrap_or(&[0]);
        let names = contents(bytes, &self.all[self.names]).unwrap_or_default();
        let count = self.all.len();
        if count + 2 >= RESERVED_SECTIONS {
            return Err(wrong(format!("it has no symbol table, and {count} sections")));
        }
        let mut copy = bytes.to_vec();
        let symbols_at = append(&mut copy, symbols);
        let strings_at = append(&mut copy, strings);
        let added = [names, b".symtab\0.strtab\0"].concat();
        let names_at = append(&mut copy, &added);
        let headers_at = append(&mut copy, &[]);
        for index in 0..count {
            let at =
                number(bytes, 40, 8).and_then(|start| place(start, index as u64, SECTION_BYTES));
            let at = at.unwrap_or(0);
            copy.extend_from_within(at..at + SECTION_BYTES);
        }
        let of_names = headers_at + self.names * SECTION_BYTES;
        copy[of_names + 24..][..8].copy_from_slice(&(names_at as u64).to_le_bytes());
        copy[of_names + 32..][..8].copy_from_slice(&(added.len() as u64).to_le_bytes());
        let symtab = Section {
            name: names.len() as u32,
            kind: SHT_SYMTAB,
            start: symbols_at as u64,
            bytes: symbols.len() as u64,
            link: count + 1,
            info: dynamic.info.max(1),
        };
        let strtab = Section {
            name: (names.len() + b".symtab\0".len()) as u32,
            kind: SHT_STRTAB,
            start: strings_at as u64,
            bytes: strings.len() as u64,
            ..Section::default()
        };
        copy.extend(symtab.header(8, SYMBOL_BYTES as u64));
        copy.extend(strtab.header(1, 0));
        copy[40..48].copy_from_slice(&(headers_at as u64).to_le_bytes());
        copy[60..62].copy_from_slice(&(count as u16 + 2).to_le_bytes());
        Ok(copy)
    }
}

impl Section {
    /// Returns the header of a section that is not loaded into memory.
    fn header(&self, alignment: u64, entry_bytes: u64) -> Vec<u8> {
        let words = [u64::from(self.name) | self.kind << 32, 0, 0, self.start, self.bytes];
        let rest = [self.link as u64 | u64::from(self.info) << 32, alignment, entry_bytes];
        words.into_iter().chain(rest).flat_map(u64::to_le_bytes).collect()
    }
}

/// Appends bytes at a multiple of 8 bytes, and returns their offset.
fn append(copy: &mut Vec<u8>, bytes: &[u8]) -> usize {
    copy.resize(copy.len().next_multiple_of(8), 0);
    copy.extend_from_slice(bytes);
    copy.len() - bytes.len()
}

/// Returns the address ranges of the loaded segments.
///
/// # Errors
/// A segment with less memory than bytes.
fn memory(bytes: &[u8]) -> Result<Vec<Range<u64>>, Malformed> {
    let [start, entry, count] =
        [(32, 8), (54, 2), (56, 2)].map(|(at, size)| number(bytes, at, size).unwrap_or(0));
    if count != 0 && entry != SEGMENT_BYTES as u64 {
        return Err(wrong(format!(
            "its program headers have {entry} bytes, expected {SEGMENT_BYTES}"
        )));
    }
    let mut found = Vec::new();
    for index in 0..count {
        let segment = place(start, index, SEGMENT_BYTES).and_then(|at| {
            let field = |offset: usize, size| number(bytes, at.checked_add(offset)?, size);
            Some((field(0, 4)?, field(16, 8)?, field(32, 8)?, field(40, 8)?))
        });
        let Some((kind, address, stored, loaded)) = segment else {
            return Err(wrong("its program headers lie beyond its end".to_owned()));
        };
        if kind != PT_LOAD {
            continue;
        }
        if loaded < stored {
            return Err(wrong(format!(
                "segment {index} has {stored} bytes in the file and {loaded} in memory"
            )));
        }
        found.push(address..address.saturating_add(loaded));
    }
    Ok(found)
}

/// Checks that symbols lie in loaded segments.
///
/// # Errors
/// A symbol that runtimes would read, but that lies in no segment.
fn check_symbols(bytes: &[u8], table: &Section, memory: &[Range<u64>]) -> Result<(), Malformed> {
    let Some(symbols) = contents(bytes, table) else { return Ok(()) };
    let (symbols, _) = symbols.as_chunks::<SYMBOL_BYTES>();
    for (index, symbol) in symbols.iter().enumerate() {
        let (kind, binding) = (symbol[4] & 15, symbol[4] >> 4);
        let section = usize::from(u16::from_le_bytes([symbol[6], symbol[7]]));
        let is_defined = section != 0 && (section < RESERVED_SECTIONS || section == ABSOLUTE);
        let is_looked_at = match kind {
            STT_OBJECT | STT_FUNC | STT_KERNEL => is_defined,
            STT_NOTYPE => is_defined && section != ABSOLUTE && binding != STB_LOCAL,
            _ => false,
        };
        let [value, size] = [8, 16].map(|at| number(symbol, at, 8).unwrap_or(0));
        let end = value.checked_add(size.max(1));
        let is_inside =
            |range: &Range<u64>| range.start <= value && end.is_some_and(|end| end <= range.end);
        if is_looked_at && !memory.iter().any(is_inside) {
            return Err(wrong(format!(
                "symbol {index} is {size} bytes at {value:#x}, which lie in no loaded segment"
            )));
        }
    }
    Ok(())
}

/// Returns the bytes of a section; `None` if it has none, or if they lie beyond the end.
fn contents<'a>(bytes: &'a [u8], section: &Section) -> Option<&'a [u8]> {
    let start = usize::try_from(section.start).ok()?;
    let contents = bytes.get(start..)?.get(..usize::try_from(section.bytes).ok()?)?;
    Some(contents).filter(|contents| !contents.is_empty())
}

/// Returns the offset of an entry of a table.
fn place(start: u64, index: u64, entry_bytes: usize) -> Option<usize> {
    let offset = index.checked_mul(entry_bytes as u64)?;
    usize::try_from(start.checked_add(offset)?).ok()
}

/// Returns a little-endian number of up to 8 bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let found = bytes.get(at..)?.get(..size)?;
    Some(found.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
