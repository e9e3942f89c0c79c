//! The contents of a workload's objects.

use crate::workloads::Workload;
use anyhow::{Context, Result};
use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE};
use object::{File, Object, ObjectComdat, ObjectSection, ObjectSymbol, SectionFlags, SectionIndex};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// The kind of a section, for its allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    EhFrame,
    ReadOnly,
    Data,
    ZeroFill,
}

/// A section that gets memory.
pub(crate) struct Section {
    pub(crate) kind: Kind,
    /// Index of the section's object.
    pub(crate) object: usize,
    /// Range of the contents in the object; `None` for zeroes.
    pub(crate) content: Option<Range<usize>>,
    pub(crate) size: u64,
    pub(crate) alignment: u64,
}

/// All objects of a workload together.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) objects: usize,
    pub(crate) bytes: u64,
    /// Number of all sections, with or without memory.
    pub(crate) section_headers: usize,
    pub(crate) symbols: usize,
    /// Relocations of the allocated sections.
    pub(crate) relocations: usize,
    /// Allocated sections, without repeated instances of a COMDAT group.
    pub(crate) sections: Vec<Section>,
    /// A global symbol of each object that defines one: a link that needs these symbols needs all
    /// objects.
    pub(crate) roots: Vec<String>,
    /// Names that objects refer to and no object defines.
    pub(crate) undefined: BTreeSet<String>,
}

impl Survey {
    /// Reads all objects.
    ///
    /// # Errors
    /// Objects that cannot be read.
    pub(crate) fn new(workload: &Workload) -> Result<Self> {
        let mut survey = Self { objects: workload.objects.len(), ..Self::default() };
        let (mut groups, mut defined) = (HashSet::new(), HashSet::new());
        for (number, bytes) in workload.map()?.iter().enumerate() {
            let file = File::parse(&bytes[..]).with_context(|| workload.name)?;
            survey.bytes += bytes.len() as u64;
            survey.section_headers += file.sections().count();
            survey.symbols += file.symbols().count();
            let duplicates = duplicates(&file, &mut groups)?;
            survey.add_sections(number, &file, &duplicates)?;
            survey.add_symbols(&file, &mut defined)?;
        }
        survey.undefined.retain(|name| !defined.contains(name));
        Ok(survey)
    }

    /// Returns the size of all allocated sections in bytes.
    pub(crate) fn allocated(&self) -> u64 {
        self.sections.iter().map(|section| section.size).sum()
    }

    /// Returns the size of the sections of one kind in bytes.
    pub(crate) fn size_of(&self, kind: Kind) -> u64 {
        let sections = self.sections.iter().filter(|section| section.kind == kind);
        sections.map(|section| section.size).sum()
    }

    fn add_sections(
        &mut self,
        object: usize,
        file: &File<'_>,
        duplicates: &HashSet<SectionIndex>,
    ) -> Result<()> {
        for section in file.sections().filter(|section| !duplicates.contains(&section.index())) {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            if !sh_flags.contains(SHF_ALLOC) {
                continue;
            }
            let content = section.file_range();
            let kind = match section.name()? {
                ".eh_frame" => Kind::EhFrame,
                _ if content.is_none() => Kind::ZeroFill,
                _ if sh_flags.contains(SHF_EXECINSTR) => Kind::Text,
                _ if sh_flags.contains(SHF_WRITE) => Kind::Data,
                _ => Kind::ReadOnly,
            };
            self.relocations += section.relocations().count();
            self.sections.push(Section {
                kind,
                object,
                content: content.map(|(start, size)| start as usize..(start + size) as usize),
                size: section.size(),
                alignment: section.align().max(1),
            });
        }
        Ok(())
    }

    fn add_symbols(&mut self, file: &File<'_>, defined: &mut HashSet<String>) -> Result<()> {
        let mut root = None;
        for symbol in file.symbols().filter(ObjectSymbol::is_global) {
            let name = symbol.name()?.to_owned();
            if symbol.is_undefined() {
                self.undefined.insert(name);
                continue;
            }
            if !symbol.is_weak() && root.is_none() && !defined.contains(&name) {
                root = Some(name.clone());
            }
            defined.insert(name);
        }
        self.roots.extend(root);
        Ok(())
    }
}

/// Returns the sections of repeated groups.
fn duplicates(file: &File<'_>, seen: &mut HashSet<Vec<u8>>) -> Result<HashSet<SectionIndex>> {
    let mut sections = HashSet::new();
    for group in file.comdats() {
        if !seen.insert(group.name_bytes()?.to_vec()) {
            sections.extend(group.sections());
        }
    }
    Ok(sections)
}
