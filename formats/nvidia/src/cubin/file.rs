//! The ELF file: sections and symbols. The file's size limits the bytes that are read and copied,
//! even if names or sections overlap.

use crate::Malformed;
use object::LittleEndian as Little;
use object::elf::{
    EM_CUDA, ET_REL, FileHeader64, ProgramHeader64, SHN_COMMON, SHT_NOBITS, SHT_NULL, SHT_SYMTAB,
    STB_LOCAL, STB_WEAK, STT_FUNC, STT_OBJECT, SectionHeader64, SectionType, SymbolBind,
    SymbolType,
};
use object::pod::Pod;
use object::read::elf::{
    FileHeader, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _,
};
use object::read::{ReadRef as _, StringTable};
use std::cell::Cell;
use std::collections::HashMap;

type Elf = FileHeader64<Little>;

/// Most bytes to read, as a multiple of the file's size: a relocation is smaller than its symbol's
/// name.
const MOST_READINGS: u64 = 64;
/// Most bytes to read of a large file, beyond twice its size.
const MOST_FURTHER: u64 = 64 << 20;

/// Types of relocatable files that act like [`SHT_NOBITS`]: variables in global and in shared
/// memory.
const CUDA_NOBITS: [SectionType; 2] = [SectionType(0x7000_0007), SectionType(0x7000_000a)];
/// Type of a variable before linking.
pub(super) const STT_CUDA_OBJECT: SymbolType = SymbolType(13);
/// Bit of a function's `st_other` that marks a kernel.
const KERNEL_MARK: u8 = 0x10;
/// Bit of a `STT_CUDA_OBJECT`'s `st_other` that marks shared memory.
const SHARED_MARK: u8 = 0x40;

/// The sections and symbols of a cubin.
pub(super) struct File<'a> {
    pub(super) os_abi: u8,
    pub(super) flags: u32,
    pub(super) is_object: bool,
    /// Sections by their indices, like the symbols.
    pub(super) sections: Vec<Section<'a>>,
    pub(super) symbols: Vec<Symbol<'a>>,
    by_name: HashMap<&'a str, usize>,
    budget: Budget,
}

/// A section. Its name is empty if it is not UTF-8.
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    pub(super) kind: SectionType,
    /// Contents in the file; empty for a section without file contents.
    pub(super) data: &'a [u8],
    pub(super) bytes: u64,
    pub(super) alignment: u64,
    /// Index of the section that relocations apply to.
    pub(super) info: u32,
}

/// A symbol. Its name is empty if it is not UTF-8.
#[derive(Clone, Copy)]
pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) kind: SymbolType,
    binding: SymbolBind,
    other: u8,
    pub(super) section: u32,
    pub(super) value: u64,
    pub(super) bytes: u64,
}

impl<'a> File<'a> {
    /// Parses bytes that are aligned to 8 bytes.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<File<'a>, Malformed> {
        let headers = Headers::parse(bytes)?;
        let mut file = File::from_headers(&headers)?;
        file.symbols = headers.symbols(&file.budget)?;
        Ok(file)
    }

    /// Parses a file as [`File::parse`] does, but without its symbols.
    pub(super) fn parse_without_symbols(bytes: &'a [u8]) -> Result<File<'a>, Malformed> {
        File::from_headers(&Headers::parse(bytes)?)
    }

    fn from_headers(headers: &Headers<'a>) -> Result<File<'a>, Malformed> {
        let size = headers.bytes.len() as u64;
        let most = size.saturating_mul(2).saturating_add(MOST_FURTHER);
        let budget = Budget(Cell::new(size.saturating_mul(MOST_READINGS).min(most)));
        let sections = headers.sections(&budget)?;
        let named = sections.iter().enumerate().map(|(index, section)| (section.name, index));
        Ok(File {
            os_abi: headers.file.e_ident().os_abi.0,
            flags: headers.file.e_flags(Little).0,
            is_object: headers.file.e_type(Little) == ET_REL,
            by_name: named.collect(),
            sections,
            symbols: Vec::new(),
            budget,
        })
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.get(*self.by_name.get(name)?)
    }

    /// Returns a section's contents in the file, and counts them as read.
    ///
    /// # Errors
    /// More bytes read in all than such a file can have.
    pub(super) fn take_data(&self, section: &Section<'a>) -> Result<&'a [u8], Malformed> {
        self.budget.take(section.data.len())?;
        Ok(section.data)
    }

    /// Returns the contents of the section with a name; empty if no section has it.
    pub(super) fn take_data_of(&self, name: &str) -> Result<&'a [u8], Malformed> {
        self.section(name).map_or(Ok(&[]), |section| self.take_data(section))
    }

    /// Counts bytes that are copied.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Malformed> {
        self.budget.take(bytes)
    }
}

impl Symbol<'_> {
    pub(super) fn is_undefined(&self) -> bool {
        self.section == 0
    }

    /// Returns whether the symbol is a variable without a place before linking.
    pub(super) fn is_common(&self) -> bool {
        self.section == u32::from(SHN_COMMON.0)
    }

    pub(super) fn is_local(&self) -> bool {
        self.binding == STB_LOCAL
    }

    pub(super) fn is_weak(&self) -> bool {
        self.binding == STB_WEAK
    }

    pub(super) fn is_variable(&self) -> bool {
        matches!(self.kind, STT_OBJECT | STT_CUDA_OBJECT)
    }

    pub(super) fn is_kernel(&self) -> bool {
        self.kind == STT_FUNC && !self.is_undefined() && self.other & KERNEL_MARK != 0
    }

    pub(super) fn is_shared(&self) -> bool {
        self.kind == STT_CUDA_OBJECT && self.other & SHARED_MARK != 0
    }
}

/// The headers of a file whose parts lie within its bytes.
struct Headers<'a> {
    bytes: &'a [u8],
    file: &'a Elf,
    sections: SectionTable<'a, Elf>,
    names: StringTable<'a>,
}

impl<'a> Headers<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Headers<'a>, Malformed> {
        let file = Elf::parse(bytes).map_err(object_error)?;
        if file.endian().is_err() || file.e_machine(Little) != EM_CUDA {
            return Err(malformed("it is not a 64-bit ELF file for CUDA"));
        }
        let (start, count) = (file.e_phoff(Little), file.e_phnum(Little));
        let segments =
            table::<ProgramHeader64<Little>>(bytes, start, count, file.e_phentsize(Little))?;
        // The driver trusts segments, which this reader does not use otherwise.
        if segments.iter().any(|segment| segment.data(Little, bytes).is_err()) {
            return Err(beyond());
        }
        let (start, count) = (file.e_shoff(Little), file.e_shnum(Little));
        if count == 0 && start != 0 {
            return Err(malformed("it has more sections than its header can count"));
        }
        let sections =
            table::<SectionHeader64<Little>>(bytes, start, count, file.e_shentsize(Little))?;
        let names = file.section_strings(Little, bytes, sections).map_err(object_error)?;
        Ok(Headers { bytes, file, sections: SectionTable::new(sections, names), names })
    }

    fn sections(&self, budget: &Budget) -> Result<Vec<Section<'a>>, Malformed> {
        let section = |header: &SectionHeader64<Little>| {
            let kind = header.sh_type(Little);
            let is_stored = ![SHT_NULL, SHT_NOBITS].contains(&kind) && !CUDA_NOBITS.contains(&kind);
            let data = match is_stored {
                true => header.data(Little, self.bytes).map_err(|_| beyond())?,
                false => &[],
            };
            Ok(Section {
                name: budget.name(self.names, header.sh_name(Little))?,
                kind,
                data,
                bytes: header.sh_size(Little),
                alignment: header.sh_addralign(Little),
                info: header.sh_info(Little),
            })
        };
        self.sections.iter().map(section).collect()
    }

    fn symbols(&self, budget: &Budget) -> Result<Vec<Symbol<'a>>, Malformed> {
        let table = self.sections.symbols(Little, self.bytes, SHT_SYMTAB).map_err(object_error)?;
        let symbols = table.iter().map(|symbol| {
            Ok(Symbol {
                name: budget.name(table.strings(), symbol.st_name(Little))?,
                kind: symbol.st_type(),
                binding: symbol.st_bind(),
                other: symbol.st_other().0,
                section: symbol.st_shndx(Little).0.into(),
                value: symbol.st_value(Little),
                bytes: symbol.st_size(Little),
            })
        });
        symbols.collect()
    }
}

/// Returns a table of headers. The driver trusts the number and the size of the entries in the
/// file's header.
fn table<T: Pod>(
    bytes: &[u8],
    start: u64,
    count: u16,
    entry_bytes: u16,
) -> Result<&[T], Malformed> {
    match count {
        0 => Ok(&[]),
        _ if usize::from(entry_bytes) != size_of::<T>() => {
            Err(malformed("its headers do not have the size of ELF headers"))
        }
        _ => bytes
            .read_slice_at(start, count.into())
            .map_err(|()| malformed("its headers lie beyond its end, or are not 8-byte aligned")),
    }
}

/// Number of bytes that may still be read.
struct Budget(Cell<u64>);

impl Budget {
    fn take(&self, bytes: usize) -> Result<(), Malformed> {
        let left = self.0.get().checked_sub(bytes as u64);
        self.0.set(left.ok_or_else(|| malformed("its parts overlap"))?);
        Ok(())
    }

    /// Returns the name at an offset.
    fn name<'a>(&self, names: StringTable<'a>, at: u32) -> Result<&'a str, Malformed> {
        let name =
            names.get(at).map_err(|()| malformed("a name lies beyond the table of names"))?;
        self.take(name.len())?;
        Ok(str::from_utf8(name).unwrap_or_default())
    }
}

#[cold]
fn beyond() -> Malformed {
    malformed("parts of it lie beyond its end")
}

fn object_error(error: object::Error) -> Malformed {
    malformed(&error.to_string())
}

pub(super) fn malformed(what: &str) -> Malformed {
    Malformed(format!("the cubin is malformed: {what}"))
}
