//! The dynamic symbol table, its strings and its hash table.

use super::dynamic::{Dynamic, Table};
use super::read::{string_at, u16_at, u32_at, u64_at};
use super::segments::Segments;
use super::{ensure, malformed};
use longshore_plugin_api::Result;
use object::elf::{self, SymbolBind, SymbolType};
use std::ops::Range;

mod hash;

use hash::Hash;

pub(super) const ENTRY_BYTES: usize = 24;

/// A dynamic symbol.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    /// Address relative to the load base.
    pub value: u64,
    /// Size in bytes.
    pub size: u64,
}

/// The places of the symbols, their names and their hash table.
#[derive(Clone, Debug)]
pub struct SymbolTable {
    table: Table,
    strings: Table,
    hash: Hash,
}

impl Symbol {
    /// Reads an entry of a symbol table.
    pub(super) fn read(entry: &[u8]) -> Option<Symbol> {
        Some(Symbol {
            name: u32_at(entry, 0)?,
            info: *entry.get(4)?,
            other: *entry.get(5)?,
            section: u16_at(entry, 6)?,
            value: u64_at(entry, 8)?,
            size: u64_at(entry, 16)?,
        })
    }

    /// Returns the symbol's name in a string table.
    pub(super) fn name<'a>(&self, strings: &'a [u8]) -> Option<&'a [u8]> {
        string_at(strings, self.name as usize)
    }

    /// Returns the type: `STT_FUNC`, `STT_OBJECT` and others.
    pub fn kind(&self) -> SymbolType {
        SymbolType(self.info & 0xf)
    }

    /// Returns whether the image defines the symbol, rather than needs it.
    pub fn is_defined(&self) -> bool {
        self.section != elf::SHN_UNDEF.0
    }

    /// Returns whether the symbol's value is an address of the image.
    pub fn is_address(&self) -> bool {
        self.is_defined() && self.section != elf::SHN_ABS.0
    }

    pub(super) fn binding(&self) -> SymbolBind {
        SymbolBind(self.info >> 4)
    }

    /// Returns whether the loader resolves the symbol without other objects.
    fn is_local(&self) -> bool {
        self.binding() == elf::STB_LOCAL || self.other & 3 != elf::STV_DEFAULT.0
    }
}

impl SymbolTable {
    /// Finds the tables. `used` is the number of symbols that the relocations refer to.
    pub(super) fn parse(
        bytes: &[u8],
        dynamic: &Dynamic,
        segments: &Segments,
        used: u64,
    ) -> Result<SymbolTable> {
        let strings = dynamic
            .table(segments, (elf::DT_STRTAB, "DT_STRTAB"), (elf::DT_STRSZ, "DT_STRSZ"))?
            .ok_or_else(|| malformed("the dynamic section has no DT_STRTAB".to_owned()))?;
        ensure!(
            bytes[strings.file.clone()].last() == Some(&0),
            "the string table at {:#x} does not end with a NUL",
            strings.addresses.start
        );
        dynamic.require_value(elf::DT_SYMENT, "DT_SYMENT", ENTRY_BYTES as u64)?;
        let address = dynamic.require(elf::DT_SYMTAB, "DT_SYMTAB")?;
        ensure!(address.is_multiple_of(8), "DT_SYMTAB is {address:#x}, expected a multiple of 8");
        let hash = Hash::parse(bytes, dynamic, segments)?;
        let count = u64::from(hash.symbol_count()).max(used).max(1);
        let size = count * ENTRY_BYTES as u64;
        let table = Table::new(segments, address, size, "the symbol table")?;
        Ok(SymbolTable { table, strings, hash })
    }

    /// Checks every symbol, and that the hash table finds every defined symbol.
    pub(super) fn check(&self, bytes: &[u8], segments: &Segments, tls_bytes: u64) -> Result<()> {
        let strings = &bytes[self.strings()];
        for (index, symbol) in self.iter(bytes).enumerate().skip(1) {
            let name = symbol.name(strings).ok_or_else(|| {
                malformed(format!(
                    "symbol {index} has its name at {:#x}, expected an offset inside the string table",
                    symbol.name
                ))
            })?;
            symbol.check(segments, tls_bytes).map_err(|error| {
                error.context(format!("symbol {index} '{}'", String::from_utf8_lossy(name)))
            })?;
        }
        self.hash.check(bytes, self)
    }

    /// Returns the number of symbols, including the null symbol at index 0.
    pub fn count(&self) -> usize {
        self.table.file.len() / ENTRY_BYTES
    }

    /// Returns the symbol of this index.
    pub fn get(&self, bytes: &[u8], index: u32) -> Option<Symbol> {
        let start = (index as usize).checked_mul(ENTRY_BYTES)?;
        Symbol::read(bytes.get(self.table.file.clone())?.get(start..)?.get(..ENTRY_BYTES)?)
    }

    /// Returns all symbols, including the null symbol at index 0.
    pub fn iter<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = Symbol> + use<'a> {
        let table = bytes.get(self.table.file.clone()).unwrap_or_default();
        table.chunks_exact(ENTRY_BYTES).filter_map(Symbol::read)
    }

    /// Returns the symbols that the image exports, with their names.
    pub fn exported<'a>(
        &self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], Symbol)> + use<'a> {
        let strings = bytes.get(self.strings()).unwrap_or_default();
        self.iter(bytes).skip(1).filter_map(move |symbol| {
            let exported = symbol.is_address() && symbol.binding() != elf::STB_LOCAL;
            exported.then_some((symbol.name(strings)?, symbol))
        })
    }

    /// Returns whether a reference to the symbol always finds the image's own definition.
    pub(super) fn binds_here(&self, index: u32, symbol: &Symbol) -> bool {
        symbol.is_defined() && (symbol.is_local() || self.hash.has(index))
    }

    /// Returns whether a resolver of the image chooses some symbol's address.
    pub(super) fn has_resolver(&self, bytes: &[u8]) -> bool {
        self.iter(bytes).any(|symbol| symbol.is_defined() && symbol.kind() == elf::STT_GNU_IFUNC)
    }

    /// Returns the file range of the symbols.
    pub(super) fn file(&self) -> Range<usize> {
        self.table.file.clone()
    }

    /// Returns the file range of the strings.
    pub(super) fn strings(&self) -> Range<usize> {
        self.strings.file.clone()
    }

    /// Returns the addresses of the symbols, their names and the hash table.
    pub(super) fn addresses(&self) -> [Range<u64>; 3] {
        [self.table.addresses.clone(), self.strings.addresses.clone(), self.hash.addresses()]
    }
}

impl Symbol {
    fn check(&self, segments: &Segments, tls_bytes: u64) -> Result<()> {
        let (value, size) = (self.value, self.size);
        ensure!(
            matches!(
                self.binding(),
                elf::STB_LOCAL | elf::STB_GLOBAL | elf::STB_WEAK | elf::STB_GNU_UNIQUE
            ),
            "its binding is {}, expected local, global, weak or unique",
            self.binding().0
        );
        if !self.is_defined() {
            return Ok(());
        }
        match self.kind() {
            elf::STT_TLS => ensure!(
                value.checked_add(size).is_some_and(|end| end <= tls_bytes),
                "{size} thread-local bytes at {value:#x} are not in PT_TLS's {tls_bytes}"
            ),
            elf::STT_GNU_IFUNC => ensure!(
                self.is_address() && segments.holds_code(value, size),
                "the resolver at {value:#x} is not in an executable segment"
            ),
            _ if !self.is_address() => {}
            elf::STT_FUNC => ensure!(
                segments.holds_code(value, size),
                "the function at {value:#x} is not in an executable segment"
            ),
            elf::STT_OBJECT | elf::STT_COMMON => ensure!(
                segments.holds(value, size),
                "the variable, {size} bytes at {value:#x}, is not in a segment"
            ),
            elf::STT_NOTYPE | elf::STT_SECTION | elf::STT_FILE => ensure!(
                self.binding() == elf::STB_LOCAL || segments.touches(value),
                "its address {value:#x} is not in a segment"
            ),
            SymbolType(other) => {
                ensure!(false, "its type is {other}, expected a type of ELF or GNU")
            }
        }
        Ok(())
    }
}
