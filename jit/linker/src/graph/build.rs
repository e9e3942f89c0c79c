//! The construction of a graph from an object.

use bytes::Bytes;
use object::elf;
use object::endian::U32;
use object::pod::slice_from_bytes;

use super::blocks::{ObjectBlocks, State};
use super::edit::Content;
use super::{BlockId, Definition, LinkGraph};
use crate::elf::{DefinitionPlace, ElfObject, LE, Relocation, Section, View};
use crate::memory::{Lifetime, Protection};
use crate::{Architecture, Result};

/// The type of sections with relocations in LLVM's compact form.
const SHT_CREL: elf::SectionType = elf::SectionType(0x4000_0014);
const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
const GNU_PROPERTY_X86_FEATURE_1_AND: u32 = 0xc000_0002;
const GNU_PROPERTY_AARCH64_FEATURE_1_AND: u32 = 0xc000_0000;
/// The largest accepted alignment in bytes; larger ones count as damage.
pub(super) const MAX_ALIGNMENT: u64 = 1 << 30;

/// A COMDAT group: of all objects with a group of the same signature, one keeps its sections.
pub(crate) struct Group<'a> {
    /// The section that describes the group.
    pub(crate) section: u32,
    /// The symbol whose name is the signature.
    pub(crate) symbol: u32,
    pub(crate) signature: &'a [u8],
    members: &'a [U32<object::LittleEndian>],
}

impl LinkGraph {
    /// Reads the graph of a relocatable object, and keeps the bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for bytes that are not a sound object.
    /// [`Error::Unsupported`](crate::Error::Unsupported) for an object of another kind, or with
    /// sections that memory cannot hold (writable and executable at once, for example).
    pub fn read(name: &str, bytes: Bytes) -> Result<Self> {
        Self::from_object(ElfObject::read(name, bytes)?)
    }

    pub(crate) fn from_object(object: ElfObject) -> Result<Self> {
        let mut graph = Self::over(object);
        graph.take_sections()?;
        graph.take_relocations()?;
        let object = graph.object.clone();
        graph.complete_fragments(object.view())?;
        graph.place_common_symbols()?;
        Ok(graph)
    }

    fn take_sections(&mut self) -> Result<()> {
        let object = self.object.clone();
        let view = object.view();
        self.base = ObjectBlocks::with_sections(view.sections.len());
        for (index, section) in (0..).zip(view.sections) {
            if has_content(section) {
                self.check_section(view, index, section)?;
                self.base.insert(index);
            }
        }
        Ok(())
    }

    /// Checks whether memory can hold a section, and records its properties in the graph.
    fn check_section(&mut self, view: View<'_>, index: u32, section: &Section) -> Result<()> {
        let alignment = section.sh_addralign.get(LE);
        if (alignment != 0 && !alignment.is_power_of_two()) || alignment > MAX_ALIGNMENT {
            return Err(self.malformed(format!(
                "section {index} has alignment {alignment:#x}, expected a power of two"
            )));
        }
        let flags = section.sh_flags.get(LE);
        let name = view.section_name(section);
        if name == b".note.GNU-stack" && flags.contains(elf::SHF_EXECINSTR) {
            return Err(self.unsupported(
                "it asks for an executable stack, which is refused: it has a nested function whose address is taken, or assembly \
                 without a .note.GNU-stack section that declares a non-executable stack",
            ));
        }
        if !flags.contains(elf::SHF_ALLOC) {
            return Ok(());
        }
        if flags.contains(elf::SHF_WRITE | elf::SHF_EXECINSTR) {
            let name = String::from_utf8_lossy(name);
            return Err(self.unsupported(format!(
                "section {name} is writable and executable; no memory is both"
            )));
        }
        if flags.contains(elf::SHF_TLS | elf::SHF_EXECINSTR) {
            let name = String::from_utf8_lossy(name);
            return Err(self.unsupported(format!("section {name} is thread-local and executable")));
        }
        self.has_thread_locals |= flags.contains(elf::SHF_TLS);
        if section.sh_type.get(LE) == elf::SHT_NOTE && name == b".note.gnu.property" {
            self.properties = property_features(self.architecture(), view.content(section));
            self.lifetimes.insert(index, Lifetime::NoAlloc);
        }
        let has_frames = name == b".eh_frame"
            && section.sh_type.get(LE) != elf::SHT_NOBITS
            && !flags.contains(elf::SHF_TLS);
        if has_frames {
            self.frames.push(BlockId(index));
        }
        Ok(())
    }

    fn take_relocations(&mut self) -> Result<()> {
        let object = self.object.clone();
        let view = object.view();
        for (index, section) in view.sections.iter().enumerate() {
            let kind = section.sh_type.get(LE);
            if kind != elf::SHT_RELA && kind != elf::SHT_REL && kind != SHT_CREL {
                continue;
            }
            let target = section.sh_info.get(LE);
            if target as usize >= view.sections.len() {
                return Err(self.malformed(format!(
                    "relocation section {index} is for a section that does not exist"
                )));
            }
            let Some(block) = self.base.section_block(target) else { continue };
            if kind != elf::SHT_RELA {
                return Err(self.unsupported(format!(
                    "section {index} holds relocations of a form other than RELA"
                )));
            }
            self.check_relocations(view, index, section)?;
            if !self.base.set_relocations(block, index as u32) {
                return Err(
                    self.malformed(format!("section {target} has two sections of relocations"))
                );
            }
        }
        self.base.sort_relocations();
        Ok(())
    }

    fn check_relocations(&self, view: View<'_>, index: usize, section: &Section) -> Result<()> {
        let (size, entry) = (section.sh_size.get(LE), section.sh_entsize.get(LE));
        if entry != size_of::<Relocation>() as u64 || !size.is_multiple_of(entry) {
            return Err(self.malformed(format!(
                "relocation section {index} has {size} bytes in entries of {entry} bytes, expected entries of 24 bytes"
            )));
        }
        let symbols = view.symbols.len() as u64;
        let relocations = view.relocations(index as u32);
        match relocations.iter().map(|relocation| relocation.r_info.get(LE) >> 32).max() {
            Some(symbol) if symbol >= symbols => Err(self.malformed(format!(
                "relocation section {index} refers to symbol {symbol}, of {symbols}"
            ))),
            _ => Ok(()),
        }
    }

    /// Gives common symbols zeroes of their own.
    fn place_common_symbols(&mut self) -> Result<()> {
        let object = self.object.clone();
        let view = object.view();
        let mut section = None;
        for index in view.first_global..view.symbols.len() as u32 {
            if view.definition_place(index) != DefinitionPlace::Common {
                continue;
            }
            let symbol = &view.symbols[index as usize];
            let alignment = symbol.st_value.get(LE).max(1);
            let name = String::from_utf8_lossy(view.symbol_name(index));
            if symbol.st_type() == elf::STT_TLS {
                return Err(self.unsupported(format!(
                    "{name} is common and thread-local; compile with -fno-common"
                )));
            }
            if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
                return Err(
                    self.malformed(format!("common symbol {name} has alignment {alignment:#x}"))
                );
            }
            let section = *section.get_or_insert_with(|| {
                self.add_section("COMMON", Protection::ReadWrite, Lifetime::Standard)
            });
            let block = self.add_block(section, Content::Zero(symbol.st_size.get(LE)), alignment);
            self.redefined.insert(index, Definition::Block(block, 0));
        }
        Ok(())
    }

    /// Returns the COMDAT groups of an object.
    pub(crate) fn groups<'a>(view: View<'a>) -> impl Iterator<Item = Group<'a>> {
        (0..view.sections.len() as u32).filter_map(move |index| group_at(view, index))
    }

    /// Returns the signatures of the dead COMDAT groups: groups that have sections for memory, and
    /// no live one any more.
    pub(crate) fn dead_groups(&self) -> impl Iterator<Item = &[u8]> {
        let view = self.object.view();
        let is_dead = move |group: &Group<'_>| {
            let members = group.members.iter().map(|member| member.get(LE));
            let mut allocated = members.filter(|member| is_allocated(view, *member)).peekable();
            allocated.peek().is_some() && !allocated.any(|member| self.is_live_section(member))
        };
        Self::groups(view).filter(is_dead).map(|group| group.signature)
    }

    fn is_live_section(&self, section: u32) -> bool {
        self.base.section_block(section).is_some_and(|block| self.base.is_live(block))
    }

    /// Returns the members of the group, COMDAT or not, that a section describes.
    pub(super) fn group_members(view: View<'_>, section: u32) -> impl Iterator<Item = u32> {
        let members = any_group_at(view, section).map_or(&[][..], |(_, members)| members);
        members.iter().map(|member| member.get(LE))
    }

    /// Returns the sections of the groups that these sections describe, in order.
    pub(crate) fn sections_of_groups(view: View<'_>, groups: &[u32]) -> Vec<u32> {
        let groups = groups.iter().filter_map(|index| group_at(view, *index));
        let mut sections: Vec<u32> =
            groups.flat_map(|group| group.members).map(|member| member.get(LE)).collect();
        sections.sort_unstable();
        sections
    }

    /// Takes out the sections of the groups that these sections describe, and their frames: other
    /// objects have them.
    pub(crate) fn discard_groups(&mut self, groups: &[u32]) -> Result<()> {
        let object = self.object.clone();
        let sections = Self::sections_of_groups(object.view(), groups);
        let mut any = false;
        for section in sections {
            if let Some(block) = self.base.section_block(section) {
                self.base.discard(block);
                any = true;
            }
        }
        if any { self.compact_frames() } else { Ok(()) }
    }

    /// Returns whether the block was taken out with its COMDAT group.
    pub(super) fn is_discarded(&self, block: BlockId) -> bool {
        self.base.state(block).is_some_and(State::is_discarded)
    }
}

/// Returns whether a section has memory in a linked program.
fn is_allocated(view: View<'_>, section: u32) -> bool {
    let header = view.sections.get(section as usize);
    header.is_some_and(|header| header.sh_flags.get(LE).contains(elf::SHF_ALLOC))
}

/// Returns the COMDAT group that a section describes.
fn group_at(view: View<'_>, index: u32) -> Option<Group<'_>> {
    let (flags, members) = any_group_at(view, index)?;
    let signature = view.sections[index as usize].sh_info.get(LE);
    let known = (signature as usize) < view.symbols.len();
    (known && flags & elf::GRP_COMDAT.0 != 0).then(|| Group {
        section: index,
        symbol: signature,
        signature: view.symbol_name(signature),
        members,
    })
}

/// Returns flags and members of the group that a section describes.
#[inline]
fn any_group_at(view: View<'_>, index: u32) -> Option<(u32, &[U32<object::LittleEndian>])> {
    let section = view.sections.get(index as usize)?;
    if section.sh_type.get(LE) != elf::SHT_GROUP {
        return None;
    }
    let content = view.content(section);
    let (words, _) =
        slice_from_bytes::<U32<object::LittleEndian>>(content, content.len() / 4).ok()?;
    let (flags, members) = words.split_first()?;
    Some((flags.get(LE), members))
}

/// Returns whether a section has content of the program or of tools, as opposed to tables for the
/// linker.
fn has_content(section: &Section) -> bool {
    const TABLES: [elf::SectionType; 8] = [
        elf::SHT_NULL,
        elf::SHT_SYMTAB,
        elf::SHT_STRTAB,
        elf::SHT_RELA,
        elf::SHT_REL,
        elf::SHT_GROUP,
        elf::SHT_SYMTAB_SHNDX,
        SHT_CREL,
    ];
    !TABLES.contains(&section.sh_type.get(LE))
        && !section.sh_flags.get(LE).contains(elf::SHF_EXCLUDE)
}

/// Returns the feature bits in a `.note.gnu.property`; 0 for a note that is damaged or has none.
fn property_features(architecture: Architecture, mut note: &[u8]) -> u32 {
    let wanted = match architecture {
        Architecture::X86_64 => GNU_PROPERTY_X86_FEATURE_1_AND,
        Architecture::Aarch64 => GNU_PROPERTY_AARCH64_FEATURE_1_AND,
    };
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
    };
    while let (Some(4), Some(size), Some(kind)) = (word(note, 0), word(note, 4), word(note, 8)) {
        let Some(mut properties) = note.get(16..).and_then(|rest| rest.get(..size as usize)) else {
            break;
        };
        while let (Some(property), Some(length)) = (word(properties, 0), word(properties, 4)) {
            if kind == NT_GNU_PROPERTY_TYPE_0 && property == wanted {
                return word(properties, 8).unwrap_or(0);
            }
            let next = 8 + (length as usize).next_multiple_of(8);
            properties = properties.get(next..).unwrap_or(&[]);
        }
        note = note.get(16 + (size as usize).next_multiple_of(8)..).unwrap_or(&[]);
    }
    0
}
