//! Section headers. The loader does not read them and images may lack them, so a malformed header
//! counts as missing.

use super::read::{string_at, u16_at, u32_at, u64_at};
use super::symbols::{ENTRY_BYTES as SYMBOL_BYTES, Symbol};
use object::elf;
use std::ops::Range;

const ENTRY_BYTES: usize = 64;

/// The section headers of an image.
pub struct Sections<'a> {
    bytes: &'a [u8],
    headers: &'a [u8],
    names: &'a [u8],
}

/// A section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    /// First address relative to the load base.
    pub address: u64,
    offset: u64,
    /// Size in bytes.
    pub size: u64,
    link: u32,
}

impl<'a> Sections<'a> {
    /// Finds the headers; `None` if the image has none.
    pub fn parse(bytes: &'a [u8]) -> Option<Sections<'a>> {
        let start = usize::try_from(u64_at(bytes, 40)?).ok()?;
        let (entry, count) = (u16_at(bytes, 58)?, u16_at(bytes, 60)?);
        (usize::from(entry) == ENTRY_BYTES && start != 0).then_some(())?;
        let headers = bytes.get(start..)?.get(..usize::from(count) * ENTRY_BYTES)?;
        let mut sections = Sections { bytes, headers, names: &[] };
        let names = sections.get(u32::from(u16_at(bytes, 62)?))?;
        sections.names = bytes.get(names.file()?)?;
        Some(sections)
    }

    /// Returns the section of this name that is loaded into memory.
    pub fn in_memory(&self, name: &str) -> Option<Section> {
        self.iter().find(|section| {
            section.flags & elf::SHF_ALLOC.0 != 0
                && string_at(self.names, section.name as usize) == Some(name.as_bytes())
        })
    }

    /// Returns the file's bytes of the section of this name.
    pub fn content(&self, name: &str) -> Option<&'a [u8]> {
        let is_named = |section: &Section| {
            string_at(self.names, section.name as usize) == Some(name.as_bytes())
        };
        self.bytes.get(self.iter().find(is_named)?.file()?)
    }

    /// Returns a defined symbol of the full symbol table, which also contains the hidden symbols.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        let table = self.iter().find(|section| section.kind == elf::SHT_SYMTAB.0)?;
        let strings = self.bytes.get(self.get(table.link)?.file()?)?;
        let symbols = self.bytes.get(table.file()?)?.chunks_exact(SYMBOL_BYTES);
        symbols
            .filter_map(Symbol::read)
            .find(|symbol| symbol.is_address() && symbol.name(strings) == Some(name.as_bytes()))
    }

    fn iter(&self) -> impl Iterator<Item = Section> + use<'a> {
        self.headers.chunks_exact(ENTRY_BYTES).filter_map(Section::read)
    }

    fn get(&self, index: u32) -> Option<Section> {
        let start = (index as usize).checked_mul(ENTRY_BYTES)?;
        Section::read(self.headers.get(start..)?.get(..ENTRY_BYTES)?)
    }
}

impl Section {
    fn read(entry: &[u8]) -> Option<Section> {
        Some(Section {
            name: u32_at(entry, 0)?,
            kind: u32_at(entry, 4)?,
            flags: u64_at(entry, 8)?,
            address: u64_at(entry, 16)?,
            offset: u64_at(entry, 24)?,
            size: u64_at(entry, 32)?,
            link: u32_at(entry, 40)?,
        })
    }

    fn file(&self) -> Option<Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        let size = usize::try_from(self.size).ok()?;
        (self.kind != elf::SHT_NOBITS.0).then_some(start..start.checked_add(size)?)
    }
}
