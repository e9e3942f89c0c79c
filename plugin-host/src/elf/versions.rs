//! Symbol versions: the needed versions, the defined versions, and the version of each symbol.

use super::dynamic::{Dynamic, Table};
use super::read::{string_at, u16_at, u32_at};
use super::segments::Segments;
use super::symbols::SymbolTable;
use super::{ensure, malformed};
use longshore_plugin_api::Result;
use object::elf;
use std::collections::HashSet;
use std::ops::Range;

/// More records than any library has. A hostile table can make the walk quadratic.
const MOST_RECORDS: usize = 1 << 16;
const NEED_BYTES: usize = 16;
const NEED_ENTRY_BYTES: usize = 16;
const DEFINITION_BYTES: usize = 20;
const DEFINITION_NAME_BYTES: usize = 8;

/// The facts from the version tables.
#[derive(Default)]
pub(super) struct Versions {
    /// Libraries with symbol versions that the image needs.
    pub(super) libraries: Vec<String>,
    /// Addresses from the first version record to the last.
    addresses: Option<Range<u64>>,
    of_symbols: Option<Range<u64>>,
    needed: HashSet<u16>,
    defined: HashSet<u16>,
}

impl Versions {
    /// Returns the addresses of the tables.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Range<u64>> {
        self.addresses.iter().chain(&self.of_symbols).cloned()
    }
}

/// Checks the version tables as the loader walks them: by offsets, ignoring the counts.
pub(super) fn check(
    bytes: &[u8],
    dynamic: &Dynamic,
    segments: &Segments,
    symbols: &SymbolTable,
    libraries: &[String],
) -> Result<Versions> {
    let (needs, definitions) = (dynamic.get(elf::DT_VERNEED), dynamic.get(elf::DT_VERDEF));
    let of_symbols = dynamic.get(elf::DT_VERSYM);
    ensure!(
        of_symbols.is_some() == (needs.is_some() || definitions.is_some()),
        "the image has DT_VERSYM without DT_VERNEED and DT_VERDEF, or one of these without it"
    );
    let mut walk = Walk {
        bytes,
        segments,
        strings: &bytes[symbols.strings()],
        found: Versions::default(),
        records: 0,
    };
    if let Some(address) = needs {
        walk.needs(address, libraries)?;
    }
    if let Some(address) = definitions {
        walk.definitions(address)?;
    }
    if let Some(address) = of_symbols {
        walk.symbols(address, symbols)?;
    }
    Ok(walk.found)
}

struct Walk<'a> {
    bytes: &'a [u8],
    segments: &'a Segments,
    strings: &'a [u8],
    found: Versions,
    records: usize,
}

impl<'a> Walk<'a> {
    fn needs(&mut self, mut address: u64, libraries: &[String]) -> Result<()> {
        loop {
            let need = self.record(address, NEED_BYTES, "DT_VERNEED")?;
            self.version_one(need, "DT_VERNEED")?;
            let library = self.string(need, 4, "DT_VERNEED")?;
            let library =
                libraries.iter().find(|needed| needed.as_bytes() == library).ok_or_else(|| {
                    malformed(format!(
                        "DT_VERNEED names '{}', which is not among the needed libraries",
                        library.escape_ascii()
                    ))
                })?;
            self.found.libraries.push(library.clone());
            self.need_entries(step(address, need, 8)?)?;
            match u32_at(need, 12) {
                Some(0) | None => return Ok(()),
                Some(_) => address = step(address, need, 12)?,
            }
        }
    }

    fn need_entries(&mut self, mut address: u64) -> Result<()> {
        loop {
            let entry = self.record(address, NEED_ENTRY_BYTES, "DT_VERNEED's entry")?;
            self.string(entry, 8, "DT_VERNEED's entry")?;
            let index = u16_at(entry, 6).unwrap_or(0) & elf::VERSYM_VERSION;
            ensure!(index > 1, "DT_VERNEED has a version of index {index}, expected 2 or more");
            self.found.needed.insert(index);
            match u32_at(entry, 12) {
                Some(0) | None => return Ok(()),
                Some(_) => address = step(address, entry, 12)?,
            }
        }
    }

    fn definitions(&mut self, mut address: u64) -> Result<()> {
        loop {
            let definition = self.record(address, DEFINITION_BYTES, "DT_VERDEF")?;
            self.version_one(definition, "DT_VERDEF")?;
            let index = u16_at(definition, 4).unwrap_or(0) & elf::VERSYM_VERSION;
            ensure!(index > 0, "DT_VERDEF has a version of index 0, expected 1 or more");
            self.found.defined.insert(index);
            let name = step(address, definition, 12)?;
            let name = self.record(name, DEFINITION_NAME_BYTES, "DT_VERDEF's name")?;
            self.string(name, 0, "DT_VERDEF's name")?;
            match u32_at(definition, 16) {
                Some(0) | None => return Ok(()),
                Some(_) => address = step(address, definition, 16)?,
            }
        }
    }

    /// Checks that each symbol's version is defined for its kind in the tables.
    fn symbols(&mut self, address: u64, symbols: &SymbolTable) -> Result<()> {
        let size = symbols.count() as u64 * 2;
        let table = Table::new(self.segments, address, size, "DT_VERSYM")?;
        ensure!(address.is_multiple_of(2), "DT_VERSYM is {address:#x}, expected a multiple of 2");
        let versions = self.bytes[table.file].chunks_exact(2);
        for (place, (symbol, version)) in symbols.iter(self.bytes).zip(versions).enumerate() {
            let version = u16_at(version, 0).unwrap_or(0) & elf::VERSYM_VERSION;
            let known = match symbol.is_defined() {
                true => self.found.defined.contains(&version),
                false => self.found.needed.contains(&version),
            };
            ensure!(
                version <= elf::VER_NDX_GLOBAL.0 || known,
                "symbol {place} has version {version}, which the image does not {}",
                if symbol.is_defined() { "define" } else { "need" }
            );
        }
        self.found.of_symbols = Some(table.addresses);
        Ok(())
    }

    /// Returns a record and adds its bytes to the ranges that relocations must not change.
    fn record(&mut self, address: u64, size: usize, name: &str) -> Result<&'a [u8]> {
        ensure!(address.is_multiple_of(4), "{name} is at {address:#x}, expected a multiple of 4");
        let table = Table::new(self.segments, address, size as u64, name)?;
        self.records += 1;
        ensure!(
            self.records <= MOST_RECORDS,
            "the image has too many version records, expected at most {MOST_RECORDS}"
        );
        let known = self.found.addresses.get_or_insert(table.addresses.clone());
        known.start = known.start.min(table.addresses.start);
        known.end = known.end.max(table.addresses.end);
        Ok(&self.bytes[table.file])
    }

    fn version_one(&self, record: &[u8], name: &str) -> Result<()> {
        let version = u16_at(record, 0).unwrap_or(0);
        ensure!(version == 1, "{name}'s version is {version}, expected 1");
        Ok(())
    }

    fn string(&self, record: &[u8], at: usize, name: &str) -> Result<&'a [u8]> {
        let offset = u32_at(record, at).unwrap_or(0);
        string_at(self.strings, offset as usize).ok_or_else(|| {
            malformed(format!(
                "{name} has a name at {offset:#x}, expected an offset inside the string table"
            ))
        })
    }
}

/// Returns the address that a record refers to by the offset in its field `at`. Offsets only lead
/// forward.
fn step(address: u64, record: &[u8], at: usize) -> Result<u64> {
    let offset = u32_at(record, at).unwrap_or(0);
    address.checked_add(u64::from(offset)).ok_or_else(|| {
        malformed(format!(
            "a version record points {offset:#x} bytes ahead, outside the address space"
        ))
    })
}
