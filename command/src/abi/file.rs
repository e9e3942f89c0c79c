//! Facts of a plugin's file, read without its code.

use crate::failure::{Exit, Failure};
use longshore_plugin_api::{NOTE_OWNER, NOTE_TYPE, Note, abi};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, elf};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

type File<'a> = ElfFile64<'a, Endianness>;

/// Bytes of an entry that hold no pointer: the magic and both versions.
const ENTRY_BYTES: usize = 16;
/// The name of the only symbol that a plugin shows.
const ENTRY: &str = "longshore_plugin";

/// Facts of a plugin's file.
#[derive(Debug, Serialize)]
pub(super) struct FileFacts {
    pub(super) bytes: u64,
    /// Architecture in Rust's spelling, such as "x86_64".
    pub(super) architecture: String,
    pub(super) note: Option<NoteFacts>,
    /// Major and minor version in the exported entry.
    pub(super) entry_interface: Option<(u32, u32)>,
    /// Exported symbols beside the entry.
    pub(super) other_symbols: Vec<String>,
    /// Libraries that the loader opens with the plugin.
    pub(super) needed: Vec<String>,
    /// Newest version of glibc of which the plugin uses a symbol.
    pub(super) glibc: Option<String>,
}

/// The contents of the ELF note.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct NoteFacts {
    pub(super) interface: (u32, u32),
    pub(super) backend: String,
    pub(super) image_formats: Vec<String>,
    pub(super) driver: Option<String>,
}

impl FileFacts {
    /// Reads a file. Fails if the file is no shared ELF library.
    pub(super) fn read(path: &Path) -> Result<FileFacts, Failure> {
        let bytes = std::fs::read(path).map_err(|error| {
            let message = format!("'{}' cannot be read: {error}", path.display());
            Failure::new(Exit::NothingFound, message)
        })?;
        let no_library = |why: &str| {
            let message = format!("'{}' is no shared library: {why}", path.display());
            Failure::new(Exit::Usage, message)
                .or_hint("name a plugin, 'liblongshore_plugin_<backend>.so'")
        };
        let file = File::parse(&*bytes).map_err(|_| no_library("it is no 64-bit ELF file"))?;
        if file.elf_header().e_type(file.endian()) != elf::ET_DYN {
            return Err(no_library("it is an executable or an object"));
        }
        let mut facts = FileFacts {
            bytes: bytes.len() as u64,
            architecture: format!("{:?}", file.architecture()).to_lowercase(),
            note: note(&file),
            entry_interface: entry(&file),
            other_symbols: other_symbols(&file),
            needed: needed(&file).unwrap_or_default(),
            glibc: None,
        };
        facts.glibc = glibc(&file);
        Ok(facts)
    }

    /// Returns whether a process of this machine can open the file.
    pub(super) fn is_for_this_machine(&self) -> bool {
        self.architecture == std::env::consts::ARCH
    }
}

fn note(file: &File<'_>) -> Option<NoteFacts> {
    let endian = file.endian();
    let sections = file.elf_section_table().iter();
    let notes = sections.filter_map(|section| section.notes(endian, file.data()).ok().flatten());
    for mut notes in notes {
        while let Ok(Some(note)) = notes.next() {
            if note.name_bytes() == NOTE_OWNER && note.n_type(endian).0 == NOTE_TYPE {
                return Note::parse(note.desc()).map(NoteFacts::new);
            }
        }
    }
    None
}

impl NoteFacts {
    fn new(note: Note) -> NoteFacts {
        let formats = note.image_formats.split(',').map(str::trim);
        NoteFacts {
            interface: (note.interface_major, note.interface_minor),
            backend: note.backend,
            image_formats: formats.filter(|it| !it.is_empty()).map(str::to_owned).collect(),
            driver: Some(note.driver).filter(|driver| !driver.is_empty()),
        }
    }
}

/// Returns the versions in the exported entry, if it has the right magic.
fn entry(file: &File<'_>) -> Option<(u32, u32)> {
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(ENTRY))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let data = section.data_range(symbol.address(), ENTRY_BYTES as u64).ok()??;
    let number = |from: usize| Some(u32::from_le_bytes(data.get(from..from + 4)?.try_into().ok()?));
    let magic = u64::from_le_bytes(data.get(..8)?.try_into().ok()?);
    (magic == abi::ENTRY_MAGIC).then_some((number(8)?, number(12)?))
}

fn other_symbols(file: &File<'_>) -> Vec<String> {
    let exported = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = exported.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    let mut names: Vec<_> = names.filter(|name| name != ENTRY).collect();
    names.sort();
    names
}

fn needed(file: &File<'_>) -> Option<Vec<String>> {
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let (entries, link) = sections.dynamic(endian, file.data()).ok()??;
    let strings = sections.strings(endian, file.data(), link).ok()?;
    let libraries = entries.iter().filter(|entry| entry.d_tag.get(endian) == elf::DT_NEEDED);
    let name = |entry: &elf::Dyn64<Endianness>| {
        let name = strings.get(u32::try_from(entry.d_val.get(endian)).ok()?).ok()?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    Some(libraries.filter_map(name).collect())
}

/// Returns the newest of the needed versions of glibc.
fn glibc(file: &File<'_>) -> Option<String> {
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let (mut libraries, link) = sections.gnu_verneed(endian, file.data()).ok()??;
    let strings = sections.strings(endian, file.data(), link).ok()?;
    let mut versions = BTreeSet::new();
    while let Ok(Some((_, mut needs))) = libraries.next() {
        while let Ok(Some(need)) = needs.next() {
            let name =
                need.name(endian, strings).ok().and_then(|name| std::str::from_utf8(name).ok());
            versions.extend(name.and_then(|name| name.strip_prefix("GLIBC_")).and_then(numbers));
        }
    }
    let newest = versions.last()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

/// Returns the numbers of a version such as "2.34"; `None` for `PRIVATE` and the like.
pub(super) fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}
