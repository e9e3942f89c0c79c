//! Words of an image that are refilled after the loader has returned. The loader does not call
//! resolvers, so their results are filled in then, as are functions that this backend provides.

use super::relocations::{Entry, RESOLVED, Tables};
use super::symbols::SymbolTable;
use object::elf;

/// A refilled word. Addresses are relative to the load base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Address of the word, in a writable segment.
    pub place: u64,
    /// Addend of the function's address.
    pub addend: u64,
    /// The function.
    pub content: Content,
}

/// The function whose address the word contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A function by its name: the image lacks it, and `crate::provided` may have it.
    Needed(String),
    /// The result of the resolver at this address.
    Chosen(u64),
}

/// Returns the slots of an image with checked relocations.
pub(super) fn from_image(relocations: &Tables, bytes: &[u8], symbols: &SymbolTable) -> Vec<Slot> {
    relocations.entries(bytes).filter_map(|entry| slot_of(&entry, bytes, symbols)).collect()
}

fn slot_of(entry: &Entry, bytes: &[u8], symbols: &SymbolTable) -> Option<Slot> {
    let (place, addend) = (entry.place, entry.addend);
    if entry.kind == RESOLVED.0 {
        return Some(Slot { place, addend: 0, content: Content::Chosen(addend) });
    }
    if !ADDRESSES.iter().any(|kind| kind.0 == entry.kind) {
        return None;
    }
    let symbol = symbols.get(bytes, entry.symbol)?;
    if symbol.is_defined() {
        let is_chosen = symbol.kind() == elf::STT_GNU_IFUNC;
        let content = Content::Chosen(symbol.value);
        return is_chosen.then_some(Slot { place, addend, content });
    }
    let name = symbol.name(bytes.get(symbols.strings())?)?;
    let name = std::str::from_utf8(name).ok().filter(|name| crate::provided::has(name))?;
    Some(Slot { place, addend, content: Content::Needed(name.to_owned()) })
}

/// Types of relocations whose field is a symbol's address plus an addend.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [elf::RelocationType; 3] =
    [elf::R_X86_64_64, elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [elf::RelocationType; 3] =
    [elf::R_AARCH64_ABS64, elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT];
