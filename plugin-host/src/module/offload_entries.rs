//! The symbols of an OpenMP image's own table of offload entries.
//!
//! The dynamic symbols of such an image lack the hidden ones: all variables of clang 13, static
//! variables of clang 14, and constructors and destructors of both. The section
//! `omp_offloading_entries` still lists them, in entries of 32 bytes: the symbol's address, the
//! address of its name, its size in bytes, flags. Functions have size 0. The loader has relocated
//! the addresses, so the table is read from memory.
//!
//! The image is checked, but not this section: each range is checked before it is read. An entry
//! that is malformed, or whose name is ambiguous, is left out.

use super::library::Library;
use super::loaded::Symbol;
use crate::elf::{Sections, Segments};
use longshore_plugin_api::SymbolKind;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const SECTION: &str = "omp_offloading_entries";
const ENTRY_BYTES: u64 = 32;
/// Offsets in an entry, which begins with the address of the symbol.
const NAME_AT: u64 = 8;
const SIZE_AT: u64 = 16;
/// Most bytes of a name.
const MOST_NAME_BYTES: u64 = 64 << 10;
/// Most bytes of all names. Entries of a damaged table may share long names.
const MOST_NAMES_BYTES: usize = 16 << 20;

/// Returns the symbols of the table by their names; none if the image has no table. `bytes` is
/// the image, which `library` has open.
pub(super) fn symbols(
    bytes: &[u8],
    segments: &Segments,
    library: &Library,
) -> BTreeMap<String, Symbol> {
    let section = Sections::parse(bytes).and_then(|headers| headers.in_memory(SECTION));
    // The file has the whole table, which bounds the number of entries.
    let in_file = |address, size| segments.file_range(address, size).is_some();
    let Some(section) = section.filter(|section| in_file(section.address, section.size)) else {
        return BTreeMap::new();
    };
    let memory = ImageMemory { segments, library };
    let places = (0..section.size / ENTRY_BYTES).map(|index| section.address + index * ENTRY_BYTES);
    let mut found = Found::default();
    for (name, symbol) in places.filter_map(|place| memory.symbol(place)) {
        if !found.add(name, symbol) {
            break;
        }
    }
    found.symbols.into_iter().filter_map(|(name, symbol)| Some((name, symbol?))).collect()
}

/// Symbols; `None` for a name of two symbols.
#[derive(Default)]
struct Found {
    symbols: BTreeMap<String, Option<Symbol>>,
    names_bytes: usize,
}

impl Found {
    /// Adds a symbol. Returns `false` if the names are too long in all.
    fn add(&mut self, name: String, symbol: Symbol) -> bool {
        self.names_bytes += name.len();
        if self.names_bytes > MOST_NAMES_BYTES {
            log::warn!("the offload entries of an image have names of more than 16 MiB");
            return false;
        }
        match self.symbols.entry(name) {
            Entry::Vacant(place) => _ = place.insert(Some(symbol)),
            Entry::Occupied(mut place) => {
                if place.get().is_some_and(|known| known.address != symbol.address) {
                    place.insert(None);
                }
            }
        }
        true
    }
}

/// Memory of a loaded image, read with bounds. Other threads may change it meanwhile.
struct ImageMemory<'a> {
    segments: &'a Segments,
    library: &'a Library,
}

impl ImageMemory<'_> {
    /// Reads the entry at an address relative to the load base; `None` unless it is a variable or a
    /// function of the image.
    fn symbol(&self, place: u64) -> Option<(String, Symbol)> {
        let [address, name, bytes] =
            [self.word(place)?, self.word(place + NAME_AT)?, self.word(place + SIZE_AT)?];
        let relative = self.relative(address);
        let (kind, is_there) = match bytes {
            0 => (SymbolKind::Kernel, self.segments.holds_code(relative, 1)),
            _ => (SymbolKind::Global, self.segments.holds(relative, bytes)),
        };
        is_there.then_some(())?;
        Some((self.text(self.relative(name))?, Symbol { kind, address, bytes }))
    }

    fn relative(&self, address: u64) -> u64 {
        address.wrapping_sub(self.library.address(0))
    }

    fn word(&self, place: u64) -> Option<u64> {
        self.segments.holds(place, 8).then_some(())?;
        // SAFETY: a segment has the word, and segments are mapped and readable.
        Some(u64::from_ne_bytes(unsafe { self.library.pointer::<[u8; 8]>(place).read_volatile() }))
    }

    /// Reads a text that ends with a NUL; `None` if it is empty, too long or not UTF-8.
    fn text(&self, place: u64) -> Option<String> {
        let room = self.segments.room_at(place).min(MOST_NAME_BYTES);
        // SAFETY: as above, for each byte up to the end of its segment.
        let byte = |index| unsafe { self.library.pointer::<u8>(place + index).read_volatile() };
        let mut text: Vec<u8> = (0..room).map(byte).take_while(|byte| *byte != 0).collect();
        (!text.is_empty() && (text.len() as u64) < room).then_some(())?;
        text.shrink_to_fit();
        String::from_utf8(text).ok()
    }
}
