//! The ELF file: notes and symbols. The file's size limits the bytes that are read, even if its
//! parts overlap.

use crate::Malformed;
use crate::header::wrong;
use object::LittleEndian as Little;
use object::elf::{
    FileHeader64, PT_NOTE, ProgramHeader64, SHT_DYNSYM, SHT_NOTE, SHT_NULL, SHT_SYMTAB, STB_LOCAL,
    STB_WEAK, STV_DEFAULT, STV_PROTECTED, SectionType,
};
use object::read::StringTable;
use object::read::elf::{
    FileHeader, NoteIterator, ProgramHeader, SectionHeader, SectionTable, Sym as _, SymbolTable,
};
use std::cell::Cell;
use std::ops::Range;

type Elf = FileHeader64<Little>;

/// Most bytes to read, as a multiple of the file's size: names can share their ends.
const MOST_READINGS: u64 = 16;
/// Most bytes to read of a large file, beyond twice its size.
const MOST_FURTHER: u64 = 64 << 20;
const NOTE_OWNER: &[u8] = b"AMDGPU";
const NOTE_METADATA: u32 = 32;

/// A code object whose parts lie within its bytes.
pub(crate) struct File<'a> {
    bytes: &'a [u8],
    segments: &'a [ProgramHeader64<Little>],
    sections: SectionTable<'a, Elf>,
    /// Number of bytes that may still be read.
    left: Cell<u64>,
}

/// A symbol that has a name.
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: object::elf::SymbolType,
    pub(crate) place: Place,
    pub(crate) value: u64,
    pub(crate) bytes: u64,
    pub(crate) is_local: bool,
    pub(crate) is_weak: bool,
    /// Whether other images find the symbol.
    pub(crate) is_visible: bool,
    /// Whether no other definition can replace the symbol.
    pub(crate) is_protected: bool,
}

/// The place of a symbol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A definition in another image.
    Undefined,
    /// A place that the linker chooses.
    Common,
    /// A section, by its index.
    Section(u32),
    /// A place outside of the image's memory: absolute numbers, shared memory.
    Other,
}

impl<'a> File<'a> {
    /// Parses the bytes of a code object, which are aligned to 8 bytes.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<File<'a>, Malformed> {
        let header = Elf::parse(bytes).map_err(object_error)?;
        let segments = header.program_headers(Little, bytes).map_err(object_error)?;
        let sections = header.section_headers(Little, bytes).map_err(object_error)?;
        let beyond = || wrong("parts of it lie beyond its end".to_owned());
        for segment in segments {
            segment.data(Little, bytes).map_err(|()| beyond())?;
        }
        for section in sections.iter().filter(|known| known.sh_type(Little) != SHT_NULL) {
            section.data(Little, bytes).map_err(|_| beyond())?;
        }
        let sections = SectionTable::new(sections, StringTable::default());
        let size = bytes.len() as u64;
        let most = size.saturating_mul(2).saturating_add(MOST_FURTHER);
        let left = Cell::new(size.saturating_mul(MOST_READINGS).min(most));
        Ok(File { bytes, segments, sections, left })
    }

    /// Returns the contents of the notes with metadata. Loaders use the notes in segments; without
    /// these, the notes in sections are read.
    pub(crate) fn metadata(&self) -> Result<Vec<&'a [u8]>, Malformed> {
        let mut found = Vec::new();
        for segment in self.segments.iter().filter(|known| known.p_type(Little) == PT_NOTE) {
            self.take(segment.p_filesz(Little))?;
            add(&mut found, segment.notes(Little, self.bytes))?;
        }
        if found.is_empty() {
            for section in self.sections.iter().filter(|known| known.sh_type(Little) == SHT_NOTE) {
                self.take(section.sh_size(Little))?;
                add(&mut found, section.notes(Little, self.bytes))?;
            }
        }
        Ok(found)
    }

    /// Returns the symbols of a linked file that other images find.
    pub(crate) fn dynamic_symbols(&self) -> Result<Vec<Symbol<'a>>, Malformed> {
        self.symbols_of(SHT_DYNSYM)
    }

    /// Returns all symbols, unless the file was stripped.
    pub(crate) fn symbols(&self) -> Result<Vec<Symbol<'a>>, Malformed> {
        self.symbols_of(SHT_SYMTAB)
    }

    fn symbols_of(&self, table: SectionType) -> Result<Vec<Symbol<'a>>, Malformed> {
        let table = self.sections.symbols(Little, self.bytes, table).map_err(object_error)?;
        let mut symbols = Vec::new();
        for (index, symbol) in table.enumerate() {
            let name = symbol.name(Little, table.strings()).map_err(object_error)?;
            self.take(name.len() as u64)?;
            let Some(name) = str::from_utf8(name).ok().filter(|name| !name.is_empty()) else {
                continue;
            };
            let visibility = symbol.st_visibility();
            let is_local = symbol.st_bind() == STB_LOCAL;
            symbols.push(Symbol {
                name,
                kind: symbol.st_type(),
                place: place(&table, index, symbol)?,
                value: symbol.st_value(Little),
                bytes: symbol.st_size(Little),
                is_local,
                is_weak: symbol.st_bind() == STB_WEAK,
                is_visible: !is_local && [STV_DEFAULT, STV_PROTECTED].contains(&visibility),
                is_protected: visibility == STV_PROTECTED,
            });
        }
        Ok(symbols)
    }

    /// Returns the range of a symbol's bytes in the file; empty for a symbol that is all zeros, or
    /// lies beyond its section.
    pub(crate) fn stored(&self, section: u32, symbol: &Symbol<'_>) -> Range<usize> {
        let stored = || {
            let section = self.sections.section(object::SectionIndex(section as usize)).ok()?;
            let (start, bytes) = section.file_range(Little)?;
            let offset = symbol.value.checked_sub(section.sh_addr(Little))?;
            let end = offset.checked_add(symbol.bytes).filter(|end| *end <= bytes)?;
            let [start, end] = [offset, end].map(|at| usize::try_from(start.checked_add(at)?).ok());
            Some(start?..end?)
        };
        stored().unwrap_or_default()
    }

    fn take(&self, bytes: u64) -> Result<(), Malformed> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| wrong("its parts overlap".to_owned()))?);
        Ok(())
    }
}

fn place(
    table: &SymbolTable<'_, Elf>,
    index: object::SymbolIndex,
    symbol: &object::elf::Sym64<Little>,
) -> Result<Place, Malformed> {
    if symbol.is_undefined(Little) {
        return Ok(Place::Undefined);
    }
    if symbol.is_common(Little) {
        return Ok(Place::Common);
    }
    let section = table.symbol_section(Little, symbol, index).map_err(object_error)?;
    let section = section.and_then(|index| u32::try_from(index.0).ok());
    Ok(section.map_or(Place::Other, Place::Section))
}

/// Adds the contents of notes with metadata.
fn add<'a>(
    found: &mut Vec<&'a [u8]>,
    notes: object::read::Result<Option<NoteIterator<'a, Elf>>>,
) -> Result<(), Malformed> {
    for note in notes.map_err(object_error)?.into_iter().flatten() {
        let note = note.map_err(object_error)?;
        if note.name() == NOTE_OWNER && note.n_type(Little).0 == NOTE_METADATA {
            found.push(note.desc());
        }
    }
    Ok(())
}

fn object_error(error: object::Error) -> Malformed {
    wrong(error.to_string())
}
