//! Relocations: the values that the loader writes, and their places.

use super::dynamic::{Dynamic, Table};
use super::read::u64_at;
use super::segments::Segments;
use super::symbols::{Symbol, SymbolTable};
use super::{ensure, malformed, range};
use longshore_plugin_api::Result;
use object::elf;
use std::ops::Range;

const ENTRY_BYTES: usize = 24;
const WORD_BYTES: u64 = 8;
/// Number of words that a bitmap of `DT_RELR` describes.
const BITMAP_WORDS: u64 = 63;

/// The relocation tables.
pub(super) struct Tables {
    with_addend: Vec<Table>,
    packed: Option<Table>,
}

/// The facts about an image that relocations are checked against.
pub(super) struct Target<'a> {
    pub(super) segments: &'a Segments,
    pub(super) symbols: &'a SymbolTable,
    pub(super) has_tls: bool,
    /// Ranges that the loader itself reads and relocations must not change.
    pub(super) fixed: Vec<Range<u64>>,
}

/// The value that a relocation needs.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The load base.
    Base,
    /// A symbol's address or size.
    Symbol,
    /// The thread-local module of a symbol, or the symbol's offset in the module.
    TlsModule,
    /// A symbol's offset in the thread's static storage, or a descriptor of two words.
    TlsPlace { words: u64 },
    /// The result of a function of the image.
    Resolver,
}

impl Tables {
    pub(super) fn parse(dynamic: &Dynamic, segments: &Segments) -> Result<Tables> {
        let rela =
            dynamic.table(segments, (elf::DT_RELA, "DT_RELA"), (elf::DT_RELASZ, "DT_RELASZ"))?;
        let plt = dynamic.table(
            segments,
            (elf::DT_JMPREL, "DT_JMPREL"),
            (elf::DT_PLTRELSZ, "DT_PLTRELSZ"),
        )?;
        let packed =
            dynamic.table(segments, (elf::DT_RELR, "DT_RELR"), (elf::DT_RELRSZ, "DT_RELRSZ"))?;
        if rela.is_some() {
            dynamic.require_value(elf::DT_RELAENT, "DT_RELAENT", ENTRY_BYTES as u64)?;
        }
        if packed.is_some() {
            dynamic.require_value(elf::DT_RELRENT, "DT_RELRENT", WORD_BYTES)?;
        }
        if plt.is_some() || dynamic.get(elf::DT_PLTREL).is_some() {
            dynamic.require(elf::DT_JMPREL, "DT_JMPREL")?;
            dynamic.require_value(elf::DT_PLTREL, "DT_PLTREL", elf::DT_RELA.0 as u64)?;
        }
        let with_addend: Vec<_> = rela.into_iter().chain(plt).collect();
        for (tables, entry) in [(&with_addend[..], ENTRY_BYTES), (packed.as_slice(), 8)] {
            for Table { addresses, file } in tables {
                ensure!(
                    addresses.start.is_multiple_of(8) && file.len().is_multiple_of(entry),
                    "relocations at {:#x} take {:#x} bytes, expected aligned entries of {entry}",
                    addresses.start,
                    file.len()
                );
            }
        }
        Ok(Tables { with_addend, packed })
    }

    /// Returns the number of symbols that the relocations refer to: the highest index plus 1.
    pub(super) fn symbols(&self, bytes: &[u8]) -> u64 {
        self.entries(bytes).map(|entry| u64::from(entry.symbol) + 1).max().unwrap_or(0)
    }

    /// Returns the addresses of the tables.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Range<u64>> {
        self.with_addend.iter().chain(&self.packed).map(|table| table.addresses.clone())
    }

    /// Checks each relocation. Returns whether one calls a function of the image.
    pub(super) fn check(&self, bytes: &[u8], target: &Target<'_>) -> Result<bool> {
        let mut calls = false;
        for entry in self.entries(bytes) {
            calls |= entry.check(bytes, target)?;
        }
        if let Some(table) = &self.packed {
            check_packed(&bytes[table.file.clone()], target)?;
        }
        Ok(calls)
    }

    /// Returns the file offsets of the types of relocations that call resolvers.
    pub(super) fn resolved(&self, bytes: &[u8]) -> Vec<usize> {
        const KIND: usize = 8;
        let tables = self.with_addend.iter();
        let entries =
            tables.flat_map(|table| table.file.clone().step_by(ENTRY_BYTES)).filter(|start| {
                let entry = bytes.get(*start..).and_then(Entry::read);
                entry.is_some_and(|entry| entry.kind == RESOLVED.0)
            });
        entries.map(|start| start + KIND).collect()
    }

    /// Returns the relocations with addends.
    pub(super) fn entries<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Entry> + 'a {
        self.with_addend
            .iter()
            .flat_map(|table| bytes[table.file.clone()].chunks_exact(ENTRY_BYTES))
            .filter_map(Entry::read)
    }
}

/// A relocation with an addend.
pub(super) struct Entry {
    pub(super) place: u64,
    pub(super) symbol: u32,
    pub(super) kind: u32,
    pub(super) addend: u64,
}

impl Entry {
    fn read(entry: &[u8]) -> Option<Entry> {
        let info = u64_at(entry, 8)?;
        Some(Entry {
            place: u64_at(entry, 0)?,
            symbol: (info >> 32) as u32,
            kind: info as u32,
            addend: u64_at(entry, 16)?,
        })
    }

    /// Checks the relocation. Returns whether it calls a function of the image.
    fn check(&self, bytes: &[u8], target: &Target<'_>) -> Result<bool> {
        if self.kind == 0 {
            return Ok(false);
        }
        let kind = kind_of(self.kind).ok_or_else(|| {
            malformed(format!(
                "the relocation of {:#x} has type {}, which shared objects do not have",
                self.place, self.kind
            ))
        })?;
        let words = if let Kind::TlsPlace { words } = kind { words } else { 1 };
        target.check_place(self.place, words * WORD_BYTES)?;
        let symbol = target.symbols.get(bytes, self.symbol).ok_or_else(|| {
            malformed(format!("the relocation of {:#x} has no symbol {}", self.place, self.symbol))
        })?;
        match kind {
            Kind::Base | Kind::Symbol => Ok(false),
            Kind::TlsModule | Kind::TlsPlace { .. } => {
                self.check_tls(kind, &symbol, target).map(|()| false)
            }
            Kind::Resolver => {
                ensure!(
                    target.segments.holds_code(self.addend, 1),
                    "the relocation of {:#x} calls {:#x}, which is not in an executable segment",
                    self.place,
                    self.addend
                );
                Ok(true)
            }
        }
    }

    /// Checks that the module has thread-local storage: the loader divides by its alignment. For a
    /// symbol of another library, the storage is unknown.
    fn check_tls(&self, kind: Kind, symbol: &Symbol, target: &Target<'_>) -> Result<()> {
        ensure!(
            self.symbol == 0 || symbol.kind() == elf::STT_TLS,
            "the relocation of {:#x} is thread-local, its symbol {} is not",
            self.place,
            self.symbol
        );
        let here = self.symbol == 0 || target.symbols.binds_here(self.symbol, symbol);
        ensure!(
            here || kind == Kind::TlsModule || cfg!(target_arch = "aarch64"),
            "the relocation of {:#x} is for thread-local storage of another library in the static \
             model, expected the global dynamic one (-ftls-model=global-dynamic)",
            self.place
        );
        ensure!(
            !here || target.has_tls,
            "the relocation of {:#x} is thread-local, the image has no PT_TLS",
            self.place
        );
        Ok(())
    }
}

impl Target<'_> {
    /// Checks that a relocation may write to these bytes.
    fn check_place(&self, address: u64, size: u64) -> Result<()> {
        let place = range(address, size)
            .filter(|_| self.segments.holds_writable(address, size))
            .ok_or_else(|| {
                malformed(format!("the relocation of {address:#x} is not in a writable segment"))
            })?;
        let hit =
            self.fixed.iter().find(|fixed| fixed.start < place.end && place.start < fixed.end);
        if let Some(fixed) = hit {
            return Err(malformed(format!(
                "the relocation of {address:#x} changes the loader's own table at {fixed:#x?}"
            )));
        }
        Ok(())
    }
}

/// Checks `DT_RELR`: an even word is an address to relocate, an odd word a bitmap of the words
/// after it.
fn check_packed(table: &[u8], target: &Target<'_>) -> Result<()> {
    let mut next = None;
    for word in table.chunks_exact(8).filter_map(|word| u64_at(word, 0)) {
        let behind = |words: u64, from: u64| {
            words.checked_mul(WORD_BYTES).and_then(|bytes| from.checked_add(bytes)).ok_or_else(
                || malformed(format!("DT_RELR's address {from:#x} is outside the image")),
            )
        };
        if word & 1 == 0 {
            target.check_place(word, WORD_BYTES)?;
            next = Some(behind(1, word)?);
            continue;
        }
        let start = next.ok_or_else(|| {
            malformed("DT_RELR starts with a bitmap, expected an address".to_owned())
        })?;
        for bit in (0..BITMAP_WORDS).filter(|bit| word >> (bit + 1) & 1 == 1) {
            target.check_place(behind(bit, start)?, WORD_BYTES)?;
        }
        next = Some(behind(BITMAP_WORDS, start)?);
    }
    Ok(())
}

/// Relocation types: the loader writes a resolver's result for [`RESOLVED`], and the load base plus
/// the addend for [`RELATIVE`].
#[cfg(target_arch = "x86_64")]
pub(super) const RESOLVED: elf::RelocationType = elf::R_X86_64_IRELATIVE;
#[cfg(target_arch = "x86_64")]
pub(super) const RELATIVE: elf::RelocationType = elf::R_X86_64_RELATIVE;
#[cfg(target_arch = "aarch64")]
pub(super) const RESOLVED: elf::RelocationType = elf::R_AARCH64_IRELATIVE;
#[cfg(target_arch = "aarch64")]
pub(super) const RELATIVE: elf::RelocationType = elf::R_AARCH64_RELATIVE;

#[cfg(target_arch = "x86_64")]
fn kind_of(kind: u32) -> Option<Kind> {
    Some(match elf::RelocationType(kind) {
        elf::R_X86_64_RELATIVE => Kind::Base,
        elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => Kind::Symbol,
        elf::R_X86_64_SIZE64 => Kind::Symbol,
        elf::R_X86_64_DTPMOD64 | elf::R_X86_64_DTPOFF64 => Kind::TlsModule,
        elf::R_X86_64_TPOFF64 => Kind::TlsPlace { words: 1 },
        elf::R_X86_64_TLSDESC => Kind::TlsPlace { words: 2 },
        elf::R_X86_64_IRELATIVE => Kind::Resolver,
        _ => return None,
    })
}

#[cfg(target_arch = "aarch64")]
fn kind_of(kind: u32) -> Option<Kind> {
    Some(match elf::RelocationType(kind) {
        elf::R_AARCH64_RELATIVE => Kind::Base,
        elf::R_AARCH64_ABS64 | elf::R_AARCH64_GLOB_DAT | elf::R_AARCH64_JUMP_SLOT => Kind::Symbol,
        elf::R_AARCH64_TLS_DTPMOD | elf::R_AARCH64_TLS_DTPREL => Kind::TlsModule,
        elf::R_AARCH64_TLS_TPREL => Kind::TlsPlace { words: 1 },
        elf::R_AARCH64_TLSDESC => Kind::TlsPlace { words: 2 },
        elf::R_AARCH64_IRELATIVE => Kind::Resolver,
        _ => return None,
    })
}
