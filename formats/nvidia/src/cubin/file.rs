//! The ELF file: sections and symbols, whatever the alignment of its bytes. What is read and copied is
//! bounded by the file's size, even if names or sections lie upon each other.

use crate::Malformed;
use crate::fields::Fields;
use std::cell::Cell;
use std::collections::HashMap;

/// What is read of a file in all, in times of its size: a relocation is smaller than its symbol's name.
const MOST_READINGS: u64 = 64;
/// Bytes that are read of a large file beyond twice its size.
const MOST_FURTHER: u64 = 64 << 20;

const ET_REL: u16 = 1;
const EM_CUDA: u16 = 190;
const SECTION_BYTES: u64 = 64;
const SEGMENT_BYTES: u64 = 56;
const SYMBOL_BYTES: usize = 24;

const SHT_NULL: u32 = 0;
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;
/// The same, of relocatable files: variables in global and in shared memory.
const CUDA_NOBITS: [u32; 2] = [0x7000_0007, 0x7000_000a];

const SHN_COMMON: u32 = 0xfff2;
const STB_LOCAL: u8 = 0;
const STB_WEAK: u8 = 2;
pub(super) const STT_NOTYPE: u8 = 0;
pub(super) const STT_OBJECT: u8 = 1;
pub(super) const STT_FUNC: u8 = 2;
pub(super) const STT_SECTION: u8 = 3;
/// A variable, before linking.
pub(super) const STT_CUDA_OBJECT: u8 = 13;
/// Of a function's `st_other`: it is a kernel.
const KERNEL_MARK: u8 = 0x10;
/// The same, of a `STT_CUDA_OBJECT`: it is in shared memory.
const SHARED_MARK: u8 = 0x40;

/// A cubin, taken apart.
pub(super) struct File<'a> {
    pub(super) os_abi: u8,
    pub(super) flags: u32,
    pub(super) is_object: bool,
    /// By their indices, like the symbols.
    pub(super) sections: Vec<Section<'a>>,
    pub(super) symbols: Vec<Symbol<'a>>,
    by_name: HashMap<&'a str, usize>,
    budget: Budget,
}

/// A section. Its name is empty if it is no text.
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u32,
    /// Empty if it takes no room in the file.
    pub(super) data: &'a [u8],
    pub(super) bytes: u64,
    pub(super) alignment: u64,
    /// Of the symbol table: where its names are.
    link: u32,
    /// Of relocations: the section that they are applied to.
    pub(super) info: u32,
}

/// A symbol. Its name is empty if it is no text.
#[derive(Clone, Copy)]
pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u8,
    binding: u8,
    other: u8,
    pub(super) section: u32,
    pub(super) value: u64,
    pub(super) bytes: u64,
}

impl<'a> File<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<File<'a>, Malformed> {
        let mut file = File::parse_without_symbols(bytes)?;
        file.symbols = symbols(&file.sections, &file.budget)?;
        Ok(file)
    }

    pub(super) fn parse_without_symbols(bytes: &'a [u8]) -> Result<File<'a>, Malformed> {
        let fields = Fields(bytes);
        let head = bytes.get(..64).ok_or_else(|| malformed("its header is cut off"))?;
        if !head.starts_with(b"\x7fELF\x02\x01") || fields.u16(18) != Some(EM_CUDA) {
            return Err(malformed("it is no ELF file of 64 bits for CUDA"));
        }
        let size = bytes.len() as u64;
        let most = size.saturating_mul(2).saturating_add(MOST_FURTHER);
        let budget = Budget(Cell::new(size.saturating_mul(MOST_READINGS).min(most)));
        check_segments(fields)?;
        let sections = sections(fields, &budget)?;
        let named = sections.iter().enumerate().map(|(index, section)| (section.name, index));
        Ok(File {
            os_abi: head[7],
            flags: fields.u32(48).unwrap_or_default(),
            is_object: fields.u16(16) == Some(ET_REL),
            by_name: named.collect(),
            sections,
            symbols: Vec::new(),
            budget,
        })
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.get(*self.by_name.get(name)?)
    }

    /// What a section has in the file.
    ///
    /// # Errors
    /// If all that was taken is more than such a file can have.
    pub(super) fn take_data(&self, section: &Section<'a>) -> Result<&'a [u8], Malformed> {
        self.budget.take(section.data.len())?;
        Ok(section.data)
    }

    /// The same, of a section by its name; empty if there is none.
    pub(super) fn take_data_of(&self, name: &str) -> Result<&'a [u8], Malformed> {
        self.section(name).map_or(Ok(&[]), |section| self.take_data(section))
    }

    /// Takes note of bytes that are copied.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Malformed> {
        self.budget.take(bytes)
    }
}

impl Symbol<'_> {
    pub(super) fn is_undefined(&self) -> bool {
        self.section == 0
    }

    /// Whether it is a variable that has no place before linking.
    pub(super) fn is_common(&self) -> bool {
        self.section == SHN_COMMON
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

/// The sections, whose headers the header says where they are.
fn sections<'a>(fields: Fields<'a>, budget: &Budget) -> Result<Vec<Section<'a>>, Malformed> {
    let start = fields.u64(40).unwrap_or_default();
    let (count, names) = (fields.u16(60).unwrap_or_default(), fields.u16(62).unwrap_or_default());
    if count == 0 && start != 0 {
        return Err(malformed("it has more sections than its header can count"));
    }
    check_entry_bytes(fields.u16(58), count.into(), SECTION_BYTES)?;
    let headers = fields.range(start, u64::from(count) * SECTION_BYTES);
    let headers = headers.ok_or_else(|| malformed("its section headers lie beyond it"))?;
    let headers = headers.chunks_exact(SECTION_BYTES as usize);
    let read = headers.map(|header| section(fields, Fields(header)).ok_or_else(beyond));
    let mut sections: Vec<(Section<'a>, u32)> = read.collect::<Result<_, _>>()?;
    let names = sections.get(usize::from(names)).map_or(&[][..], |(section, _)| section.data);
    for (section, name) in &mut sections {
        section.name = budget.name(names, *name)?;
    }
    Ok(sections.into_iter().map(|(section, _)| section).collect())
}

/// That the segments lie in the file. Nothing else is said of them here, but a driver takes them for true.
fn check_segments(fields: Fields<'_>) -> Result<(), Malformed> {
    let start = fields.u64(32).unwrap_or_default();
    let count = u64::from(fields.u16(56).unwrap_or_default());
    check_entry_bytes(fields.u16(54), count, SEGMENT_BYTES)?;
    let headers = fields.range(start, count * SEGMENT_BYTES).ok_or_else(beyond)?;
    for header in headers.chunks_exact(SEGMENT_BYTES as usize).map(Fields) {
        let (at, bytes) = (header.u64(8).unwrap_or_default(), header.u64(32).unwrap_or_default());
        fields.range(at, bytes).ok_or_else(beyond)?;
    }
    Ok(())
}

/// That headers are as large as they are read, if there are any.
fn check_entry_bytes(told: Option<u16>, count: u64, expected: u64) -> Result<(), Malformed> {
    match told.map(u64::from) {
        Some(bytes) if bytes == expected || count == 0 => Ok(()),
        _ => Err(malformed("its headers have another size than those of ELF")),
    }
}

#[cold]
fn beyond() -> Malformed {
    malformed("parts of it lie beyond its end")
}

/// A section without its name, and where that is; nothing if it lies beyond the file.
fn section<'a>(file: Fields<'a>, header: Fields<'_>) -> Option<(Section<'a>, u32)> {
    let (kind, bytes) = (header.u32(4)?, header.u64(32)?);
    let is_stored = kind != SHT_NULL && kind != SHT_NOBITS && !CUDA_NOBITS.contains(&kind);
    let data = match is_stored {
        true => file.range(header.u64(24)?, bytes)?,
        false => &[],
    };
    let section = Section {
        name: "",
        kind,
        data,
        bytes,
        alignment: header.u64(48)?,
        link: header.u32(40)?,
        info: header.u32(44)?,
    };
    Some((section, header.u32(0)?))
}

fn symbols<'a>(sections: &[Section<'a>], budget: &Budget) -> Result<Vec<Symbol<'a>>, Malformed> {
    let Some(table) = sections.iter().find(|section| section.kind == SHT_SYMTAB) else {
        return Ok(Vec::new());
    };
    let names = sections.get(table.link as usize).map_or(&[][..], |section| section.data);
    let entries = table.data.chunks_exact(SYMBOL_BYTES).map(Fields);
    entries.map(|entry| symbol(entry, names, budget)).collect()
}

fn symbol<'a>(
    entry: Fields<'_>,
    names: &'a [u8],
    budget: &Budget,
) -> Result<Symbol<'a>, Malformed> {
    let number = |at| entry.u64(at).unwrap_or_default();
    let [info, other] = entry.u16(4).unwrap_or_default().to_le_bytes();
    Ok(Symbol {
        name: budget.name(names, entry.u32(0).unwrap_or_default())?,
        kind: info & 0xf,
        binding: info >> 4,
        other,
        section: entry.u16(6).unwrap_or_default().into(),
        value: number(8),
        bytes: number(16),
    })
}

/// Bytes that may still be read.
struct Budget(Cell<u64>);

impl Budget {
    fn take(&self, bytes: usize) -> Result<(), Malformed> {
        let left = self.0.get().checked_sub(bytes as u64);
        self.0.set(left.ok_or_else(|| malformed("its parts lie upon each other"))?);
        Ok(())
    }

    /// The name that starts at an offset and ends with NUL.
    fn name<'a>(&self, names: &'a [u8], at: u32) -> Result<&'a str, Malformed> {
        let rest = names.get(at as usize..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        self.take(end)?;
        Ok(str::from_utf8(&rest[..end]).unwrap_or_default())
    }
}

fn malformed(what: &str) -> Malformed {
    Malformed(format!("the cubin is malformed: {what}"))
}
