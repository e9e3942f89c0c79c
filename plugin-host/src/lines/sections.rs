//! The sections of debug information in an object or a shared object.

use bytes::Bytes;
use gimli::{DwarfSections, SectionId};
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget,
    SectionIndex,
};
use std::borrow::Cow;
use std::time::Instant;

/// Debug information with final addresses.
pub(super) type Debug<'a> = DwarfSections<Cow<'a, [u8]>>;

type File<'a> = ElfFile64<'a, LittleEndian>;

/// Returns whether a file has debug information.
pub(super) fn has_lines(bytes: &Bytes) -> bool {
    let sections = crate::elf::Sections::parse(bytes);
    sections.is_some_and(|sections| sections.content(".debug_info").is_some())
}

/// Returns the debug information of an object with an address in one of its sections, whose
/// addresses are given by their index.
pub(super) fn object_debug<'a>(
    bytes: &'a [u8],
    sections: &[(usize, u64)],
    address: u64,
    deadline: Instant,
) -> Option<Debug<'a>> {
    let file = File::parse(bytes).ok()?;
    let has_address = |&(index, start): &(usize, u64)| {
        let section = file.section_by_index(SectionIndex(index)).ok();
        section.is_some_and(|section| address.wrapping_sub(start) < section.size())
    };
    sections.iter().any(has_address).then_some(())?;
    DwarfSections::load(|id| relocated(&file, id, sections, deadline).ok_or(())).ok()
}

/// Returns the debug information of a shared object, with addresses relative to its load base.
pub(super) fn shared_object_debug(bytes: &[u8]) -> Option<Debug<'_>> {
    let file = File::parse(bytes).ok()?;
    DwarfSections::load(|id| Ok::<_, ()>(Cow::Borrowed(content(&file, id)))).ok()
}

/// Returns a section's content; empty for a section that is missing, damaged or compressed.
fn content<'a>(file: &File<'a>, id: SectionId) -> &'a [u8] {
    let section = file.section_by_name(id.name());
    let content = section.and_then(|section| section.uncompressed_data().ok());
    match content {
        Some(Cow::Borrowed(content)) => content,
        _ => &[],
    }
}

/// Returns a section's content with its absolute relocations applied. `None` after the deadline.
fn relocated<'a>(
    file: &File<'a>,
    id: SectionId,
    sections: &[(usize, u64)],
    deadline: Instant,
) -> Option<Cow<'a, [u8]>> {
    let content = content(file, id);
    let section = file.section_by_name(id.name());
    let Some(section) = section.filter(|_| !content.is_empty()) else {
        return Some(Cow::Borrowed(content));
    };
    let mut content = content.to_vec();
    for (count, (offset, relocation)) in section.relocations().enumerate() {
        if count % 4096 == 0 && Instant::now() > deadline {
            return None;
        }
        let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
        let Ok(symbol) = file.symbol_by_index(symbol) else { continue };
        let known = |index: SectionIndex| sections.iter().find(|(known, _)| *known == index.0);
        let start = symbol.section_index().and_then(known).map_or(0, |(_, start)| *start);
        let addend = relocation.addend() as u64;
        let value = start.wrapping_add(symbol.address()).wrapping_add(addend).to_le_bytes();
        let bytes = match (relocation.kind(), relocation.size()) {
            (RelocationKind::Absolute, 32) => 4,
            (RelocationKind::Absolute, 64) => 8,
            _ => continue,
        };
        let place =
            usize::try_from(offset).ok().and_then(|at| content.get_mut(at..)?.get_mut(..bytes));
        if let Some(place) = place {
            place.copy_from_slice(&value[..bytes]);
        }
    }
    Some(Cow::Owned(content))
}
