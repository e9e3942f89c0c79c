//! A relocatable ELF object: the places of its tables.

use std::sync::Arc;

use bytes::Bytes;
use object::elf;
use object::endian::{LittleEndian, U32};
use object::pod::{Pod, slice_from_bytes};

use crate::{Architecture, Error, Result};

pub(crate) const LE: LittleEndian = LittleEndian;
pub(crate) type Section = elf::SectionHeader64<LittleEndian>;
pub(crate) type Symbol = elf::Sym64<LittleEndian>;
pub(crate) type Relocation = elf::Rela64<LittleEndian>;

/// An object with checked headers, cheap to clone. Every table and every section's content lies in
/// the file, and every symbol is in a section that exists.
#[derive(Clone)]
pub(crate) struct ElfObject {
    name: Arc<str>,
    bytes: Bytes,
    architecture: Architecture,
    sections: Table,
    section_names: Table,
    symbols: Table,
    symbol_names: Table,
    extended: Table,
    first_global: u32,
}

/// Entries of a table in the file.
#[derive(Clone, Copy, Default)]
struct Table {
    offset: usize,
    count: usize,
}

/// The tables of an object, as slices.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) sections: &'a [Section],
    pub(crate) symbols: &'a [Symbol],
    pub(crate) first_global: u32,
    section_names: &'a [u8],
    symbol_names: &'a [u8],
    extended: &'a [U32<LittleEndian>],
}

/// The place of a symbol's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefinitionPlace {
    Undefined,
    Absolute,
    Common,
    Section(u32),
}

impl ElfObject {
    /// Reads and checks the headers of `bytes`, and keeps `bytes`.
    pub(crate) fn read(name: &str, bytes: Bytes) -> Result<Self> {
        let malformed = |problem: String| Error::Malformed { file: name.to_owned(), problem };
        let (architecture, sections, names_index) =
            file_header(&bytes).map_err(|problem| match problem {
                Problem::Malformed(problem) => malformed(problem),
                Problem::Unsupported(problem) => {
                    Error::Unsupported { file: name.to_owned(), problem }
                }
            })?;
        let mut object = Self { bytes, sections, ..Self::empty(name, architecture) };
        object.find_tables(names_index).map_err(malformed)?;
        object.check_symbols().map_err(malformed)?;
        Ok(object)
    }

    /// Creates an empty object, for a graph that is made by hand.
    pub(crate) fn empty(name: &str, architecture: Architecture) -> Self {
        let none = Table::default();
        Self {
            name: name.into(),
            bytes: Bytes::new(),
            architecture,
            sections: none,
            section_names: none,
            symbols: none,
            symbol_names: none,
            extended: none,
            first_global: 0,
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns the name of a symbol, as [`View::symbol_name`] does; for occasional use.
    #[inline]
    pub(crate) fn symbol_name(&self, index: u32) -> &[u8] {
        let symbols: &[Symbol] = self.symbols.entries(&self.bytes);
        let names = self.symbol_names.entries(&self.bytes);
        match string(names, symbols[index as usize].st_name.get(LE)) {
            b"" => self.view().symbol_name(index),
            name => name,
        }
    }

    /// Returns whether a symbol has this name.
    #[inline]
    pub(crate) fn is_symbol_named(&self, index: u32, name: &[u8]) -> bool {
        let symbols: &[Symbol] = self.symbols.entries(&self.bytes);
        let names: &[u8] = self.symbol_names.entries(&self.bytes);
        let start = symbols[index as usize].st_name.get(LE) as usize;
        match names.get(start..).and_then(|rest| rest.split_at_checked(name.len())) {
            // A name with a zero byte in it would be read as two names in sequence.
            Some((start, [0, ..])) if !name.is_empty() => {
                start == name && memchr::memchr(0, name).is_none()
            }
            _ => self.symbol_name(index) == name,
        }
    }

    /// Returns the tables. The call is cheap, but not cheap enough for inner loops.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            bytes: &self.bytes,
            sections: self.sections.entries(&self.bytes),
            symbols: self.symbols.entries(&self.bytes),
            first_global: self.first_global,
            section_names: self.section_names.entries(&self.bytes),
            symbol_names: self.symbol_names.entries(&self.bytes),
            extended: self.extended.entries(&self.bytes),
        }
    }

    fn find_tables(&mut self, names_index: usize) -> Result<(), String> {
        let sections: &[Section] = self.sections.entries(&self.bytes);
        let mut symbols = None;
        for (index, section) in sections.iter().enumerate() {
            let kind = section.sh_type.get(LE);
            if kind != elf::SHT_NOBITS && kind != elf::SHT_NULL {
                content_range(&self.bytes, section)
                    .ok_or_else(|| outside(&self.bytes, index, section))?;
            }
            match kind {
                elf::SHT_SYMTAB if symbols.replace(section).is_some() => {
                    return Err("it has two symbol tables, expected one".to_owned());
                }
                elf::SHT_SYMTAB_SHNDX => self.extended = Table::in_section(section, 4),
                _ => {}
            }
        }
        let strings = |index: usize, what: &str| match sections.get(index) {
            Some(section) if section.sh_type.get(LE) == elf::SHT_STRTAB => {
                Ok(Table::in_section(section, 1))
            }
            _ => Err(format!("section {index} is not a string table, expected the {what}")),
        };
        if names_index != 0 {
            self.section_names = strings(names_index, "names of sections")?;
        }
        if let Some(symbols) = symbols {
            self.symbol_names = strings(symbols.sh_link.get(LE) as usize, "names of symbols")?;
            self.symbols = Table::in_section(symbols, size_of::<Symbol>());
            self.first_global = symbols.sh_info.get(LE);
        }
        if self.symbols.count >= u32::MAX as usize / 2 {
            return Err(format!("it has {} symbols, too many", self.symbols.count));
        }
        Ok(())
    }

    fn check_symbols(&self) -> Result<(), String> {
        let view = self.view();
        for index in 0..view.symbols.len() as u32 {
            if let DefinitionPlace::Section(section) = view.definition_place(index)
                && section as usize >= view.sections.len()
            {
                let count = view.sections.len();
                return Err(format!("symbol {index} is in section {section}, of {count}"));
            }
        }
        Ok(())
    }
}

impl<'a> View<'a> {
    pub(crate) fn section_name(&self, section: &Section) -> &'a [u8] {
        string(self.section_names, section.sh_name.get(LE))
    }

    /// Returns the content of a section; empty for a section without bytes in the file.
    pub(crate) fn content(&self, section: &Section) -> &'a [u8] {
        match section.sh_type.get(LE) {
            elf::SHT_NOBITS | elf::SHT_NULL => &[],
            _ => content_range(self.bytes, section).map_or(&[], |range| &self.bytes[range]),
        }
    }

    /// Returns the entries of a relocation section.
    pub(crate) fn relocations(&self, section: u32) -> &'a [Relocation] {
        let content = self.content(&self.sections[section as usize]);
        let count = content.len() / size_of::<Relocation>();
        slice_from_bytes(content, count).map_or(&[], |(entries, _)| entries)
    }

    /// Returns the name of a symbol; for a section's symbol without a name, the section's.
    pub(crate) fn symbol_name(&self, index: u32) -> &'a [u8] {
        let symbol = &self.symbols[index as usize];
        let name = string(self.symbol_names, symbol.st_name.get(LE));
        match self.definition_place(index) {
            DefinitionPlace::Section(section) if name.is_empty() => {
                self.section_name(&self.sections[section as usize])
            }
            _ => name,
        }
    }

    /// Returns whether a symbol's own name starts with `prefix`, without a search for the name's
    /// end.
    pub(crate) fn name_starts_with(&self, index: u32, prefix: &[u8]) -> bool {
        let offset = self.symbols[index as usize].st_name.get(LE) as usize;
        self.symbol_names.get(offset..).is_some_and(|name| name.starts_with(prefix))
    }

    #[inline]
    pub(crate) fn definition_place(&self, index: u32) -> DefinitionPlace {
        match self.symbols[index as usize].st_shndx.get(LE) {
            elf::SHN_UNDEF => DefinitionPlace::Undefined,
            elf::SHN_ABS => DefinitionPlace::Absolute,
            elf::SHN_COMMON => DefinitionPlace::Common,
            elf::SHN_XINDEX => DefinitionPlace::Section(
                self.extended.get(index as usize).map_or(u32::MAX, |i| i.get(LE)),
            ),
            // SHN_X86_64_LCOMMON, a common symbol of the large code model.
            elf::SymbolSection(0xff02) => DefinitionPlace::Common,
            elf::SymbolSection(section) => DefinitionPlace::Section(section.into()),
        }
    }
}

impl Table {
    fn in_section(section: &Section, entry: usize) -> Self {
        Self {
            offset: section.sh_offset.get(LE) as usize,
            count: section.sh_size.get(LE) as usize / entry,
        }
    }

    fn entries<T: Pod>(self, bytes: &[u8]) -> &[T] {
        let rest = bytes.get(self.offset..).unwrap_or(&[]);
        slice_from_bytes(rest, self.count).map_or(&[], |(entries, _)| entries)
    }
}

enum Problem {
    Malformed(String),
    Unsupported(String),
}

/// The message for an object that was compiled for link-time optimization alone.
pub(crate) const NO_MACHINE_CODE: &str = "it was compiled with -flto and has no machine code: compile it without, or with -ffat-lto-objects";

/// The common symbol by which gcc marks an object for link-time optimization alone.
pub(crate) const SLIM: &[u8] = b"__gnu_lto_slim";

/// The first bytes of bitcode, without and with a wrapper.
const BITCODE: [[u8; 4]; 2] = [*b"BC\xc0\xde", [0xde, 0xc0, 0x17, 0x0b]];

pub(crate) fn is_bitcode(bytes: &[u8]) -> bool {
    BITCODE.iter().any(|magic| bytes.starts_with(magic))
}

/// Returns the architecture, the section table and the index of the section with the sections'
/// names.
fn file_header(bytes: &[u8]) -> Result<(Architecture, Table, usize), Problem> {
    use Problem::{Malformed, Unsupported};
    if is_bitcode(bytes) {
        return Err(Unsupported(NO_MACHINE_CODE.to_owned()));
    }
    let (header, _) =
        object::pod::from_bytes::<elf::FileHeader64<LittleEndian>>(bytes).map_err(|()| {
            Malformed(format!("it is {} bytes long, too short for an ELF header", bytes.len()))
        })?;
    let ident = &header.e_ident;
    if ident.magic != elf::ELFMAG {
        return Err(Malformed(format!(
            "it starts with {:02x?}, expected an ELF object",
            ident.magic
        )));
    }
    if ident.class != elf::ELFCLASS64 || ident.data != elf::ELFDATA2LSB {
        return Err(Unsupported("it is not a 64-bit little-endian ELF file".to_owned()));
    }
    let architecture = match header.e_machine.get(LE) {
        elf::EM_X86_64 => Architecture::X86_64,
        elf::EM_AARCH64 => Architecture::Aarch64,
        elf::Machine(other) => {
            return Err(Unsupported(format!(
                "it is for ELF machine {other}, expected x86-64 or AArch64"
            )));
        }
    };
    match header.e_type.get(LE) {
        elf::ET_REL => {}
        elf::ET_DYN => {
            return Err(Unsupported(
                "it is a shared object, expected a relocatable one".to_owned(),
            ));
        }
        elf::FileType(other) => {
            return Err(Unsupported(format!(
                "it has ELF type {other}, expected a relocatable object"
            )));
        }
    }
    let (sections, names) = section_table(bytes, header).map_err(Malformed)?;
    Ok((architecture, sections, names))
}

fn section_table(
    bytes: &[u8],
    header: &elf::FileHeader64<LittleEndian>,
) -> Result<(Table, usize), String> {
    let offset = header.e_shoff.get(LE);
    if offset == 0 {
        return Ok((Table::default(), 0));
    }
    let entry = usize::from(header.e_shentsize.get(LE));
    if entry != size_of::<Section>() {
        return Err(format!(
            "its section headers have {entry} bytes each, expected {}",
            size_of::<Section>()
        ));
    }
    let outside =
        |count| format!("its {count} section headers at {offset:#x} are outside of the file");
    let offset = usize::try_from(offset).map_err(|_| outside(1))?;
    let [first] = Table { offset, count: 1 }.entries::<Section>(bytes) else {
        return Err(outside(1));
    };
    // Numbers that do not fit into the file header are in the first section header.
    let count = match header.e_shnum.get(LE) {
        0 => first.sh_size.get(LE) as usize,
        count => count.into(),
    };
    let names = match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => first.sh_link.get(LE) as usize,
        elf::SymbolSection(index) => index.into(),
    };
    let table = Table { offset, count };
    if count >= u32::MAX as usize || table.entries::<Section>(bytes).len() != count {
        return Err(outside(count));
    }
    Ok((table, names))
}

fn content_range(bytes: &[u8], section: &Section) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(section.sh_offset.get(LE)).ok()?;
    let end = start.checked_add(usize::try_from(section.sh_size.get(LE)).ok()?)?;
    (end <= bytes.len()).then_some(start..end)
}

fn outside(bytes: &[u8], index: usize, section: &Section) -> String {
    let (offset, size) = (section.sh_offset.get(LE), section.sh_size.get(LE));
    format!(
        "section {index} ({size:#x} bytes at {offset:#x}) is outside of the file of {:#x} bytes",
        bytes.len()
    )
}

/// Returns the string that starts at `offset`, without its terminating zero; empty if no terminated
/// string is there.
fn string(table: &[u8], offset: u32) -> &[u8] {
    let rest = table.get(offset as usize..).unwrap_or(&[]);
    memchr::memchr(0, rest).map_or(&[], |end| &rest[..end])
}
